"""BERT reads dates in sixty languages, half covered up; then 200 labelled ones teach it to find day, month and year."""

from typing import Any

import glassformer


def main(reading: dict[str, Any] | None = None, tagging: dict[str, Any] | None = None) -> float:
    read = glassformer.fit("bert-nano", "dates", **reading or {})
    print(f"masked loss {read.metrics['test_loss']:.3f} nats a character")

    few = {"training__subset": 200, "training__epochs": 20, "optimiser__lr": 3e-3}
    tagger = glassformer.fit(start=read.path, task="tag", **few | (tagging or {}))
    print(f"characters tagged right: {100 * tagger.metrics['test_accuracy']:.2f} %")
    for answer in tagger.answer(["<de> Donnerstag, 5. September 2024", "<en> May 8, 1945"]):
        print(answer)
    return tagger.metrics["test_accuracy"]


if __name__ == "__main__":
    main()
