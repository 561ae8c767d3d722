"""The language model before attention: an LSTM on the text that gpt.py learns. Its state has no longest text."""

from typing import Any

import glassformer
from glassformer.generate import Sampling, continue_text, decoder_for


def main(**settings: Any) -> str:
    run = glassformer.fit("lstm-nano", **settings)
    print(f"test loss {run.metrics['test_loss']:.3f} nats a character")
    decoder = decoder_for(run.model, run.params)
    [text] = continue_text(decoder, run.tokeniser, ["The "], length=300, sampling=Sampling(temperature=0.8), seed=1)
    print(f"The {text}")
    return text


if __name__ == "__main__":
    main()
