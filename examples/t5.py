"""T5 reads a date in one of sixty languages and writes it as ISO 8601 does."""

from typing import Any

import glassformer
from glassformer.generate import Sampling, answer_text, decoder_for

DATES = ["<de> Donnerstag, 5. September 2024", "<fr> 14 juillet 1989", "<ja> 2001年2月3日", "<en> May 8, 1945"]


def main(**settings: Any) -> list[str]:
    run = glassformer.fit("t5-nano", **settings)
    print(f"exact match on held-out dates {100 * run.metrics['test_accuracy']:.2f} %")
    decoder = decoder_for(run.model, run.params)
    answers = answer_text(decoder, run.tokeniser, DATES, length=12, sampling=Sampling(greedy=True))
    for date, answer in zip(DATES, answers, strict=True):
        print(f"{date} -> {answer}")
    return answers


if __name__ == "__main__":
    main()
