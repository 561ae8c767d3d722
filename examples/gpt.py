"""A small GPT learns the characters of Python's own help, and goes on from a prompt."""

from typing import Any

import glassformer


def main(**settings: Any) -> str:
    run = glassformer.fit("gpt-nano", **settings)
    print(f"test loss {run.metrics['test_loss']:.3f} nats a character")
    [written] = run.generate(["The "], length=300, temperature=0.8, min_p=0.05, seed=1)
    print(f"The {written.text}")
    return written.text


if __name__ == "__main__":
    main()
