"""Varied text of any length, always the same: made-up words by Zipf's law, numbers, punctuation, paragraphs.

python -m tests.data.long_text 1000 text.txt      about 1,000 MB
"""

import sys
from pathlib import Path

import numpy as np

SYLLABLES = (
    "ba be bi bo da de di do ka ke ki ko la le li lo ma me mi mo na ne ni no ra re ri ro sa se si st tr ün är ß é"
)
BEHIND = (" ", ", ", ". ", ".\n", ".\n\n")
AT_ONCE = 200_000  # words


def write_long_text(path: Path, megabytes: float, words: int = 60_000) -> Path:
    rng = np.random.default_rng(17)
    drawn = ["".join(rng.choice(SYLLABLES.split(), length)) for length in rng.integers(1, 6, words)]
    known = np.array([*dict.fromkeys(drawn)], object)
    shares = 1 / np.arange(1, len(known) + 1)
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < 1e6 * megabytes:
            text = known[np.searchsorted(np.cumsum(shares[:-1]) / shares.sum(), rng.random(AT_ONCE))]
            text[rng.random(AT_ONCE) < 0.01] = str(rng.integers(100_000))
            text[1::2] = np.array(BEHIND, object)[rng.choice(5, AT_ONCE // 2, p=(0.88, 0.05, 0.04, 0.02, 0.01))]
            written += file.write("".join(text))
    return path


if __name__ == "__main__":
    write_long_text(Path(sys.argv[2]), float(sys.argv[1]))
