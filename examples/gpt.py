"""A small GPT learns the characters of Python's own help, and goes on from a prompt."""

from typing import Any

import glassformer
from glassformer.generate import Sampling, continue_text, decoder_for


def main(**settings: Any) -> str:
    run = glassformer.fit("gpt-nano", **settings)
    print(f"test loss {run.metrics['test_loss']:.3f} nats a character")
    decoder = decoder_for(run.model, run.params)
    sampling = Sampling(temperature=0.8, top_p=0.95)
    [text] = continue_text(decoder, run.tokeniser, ["The "], length=300, sampling=sampling, seed=1)
    print(f"The {text}")
    return text


if __name__ == "__main__":
    main()
