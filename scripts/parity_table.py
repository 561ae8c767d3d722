"""The figures of the table of published models in README: `python scripts/parity_table.py` (needs the extra `parity`).

Random small models of transformers, moved into ours: the largest difference over the largest value, in float64, of
logits, loss and gradients (each over its own tensor's largest); of the losses of ten steps of AdamW, in float32.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.parity import test_deit, test_encoders, test_llama
from tests.parity.hugging_face import Outcome, disagreement, worst_gradient

FAMILIES = {"llama": "Llama", "smollm": "SmolLM", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def rows() -> Iterator[tuple[str, Iterable[tuple[Outcome, Outcome]], Iterable[tuple[np.ndarray, np.ndarray]]]]:
    for family, title in FAMILIES.items():
        names = [name for name in test_llama.CONFIGS if name.split(",")[0] == family]
        padded = (test_llama.compared(name, padded=True) for name in names)
        yield title, padded, map(test_llama.losses_of_ten_steps, names)
    for module, title in ((test_encoders.roberta, "RoBERTa"), (test_encoders.distilbert, "DistilBERT")):
        cases = [case for case in test_encoders.CASES if case[0] is module]
        trained = [case for case in test_encoders.TRAINED if case[0] is module]
        yield title, map(test_encoders.compared, cases), map(test_encoders.losses_of_ten_steps, trained)
    heads = test_deit.deit.ARCHITECTURES
    both = (test_deit.compared(name, head) for name in test_deit.CONFIGS for head in heads)
    yield "DeiT", both, map(test_deit.losses_of_ten_steps, heads)


def figure(values: Iterable[Any]) -> str:
    return f"{max(map(float, values)):.0e}".replace("e-0", "e-")


if __name__ == "__main__":
    print("| published | logits | loss | gradients | ten steps of AdamW |\n|---|---|---|---|---|")
    for title, outcomes, curves in rows():
        pairs = list(outcomes)
        apart = [disagreement(*pair) for pair in pairs]
        steps = figure(np.abs(ours / theirs - 1).max() for ours, theirs in curves)
        shown = [figure(one[part] for one in apart) for part in ("logits", "loss")]
        print("|", " | ".join([title, *shown, figure(worst_gradient(*pair) for pair in pairs), steps]), "|", flush=True)
