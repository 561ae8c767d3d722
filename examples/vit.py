"""A vision transformer on the bundled digits: train, predict, look at whom the tokens attend to."""

from typing import Any

import glassformer
from glassformer.data import load
from glassformer.names import recording, visiting


def main(**settings: Any) -> float:
    run = glassformer.fit("vit-pico", **settings)
    digits = load("mnist-mini").test
    print(f"test accuracy {100 * run.metrics['test_accuracy']:.1f} %")
    print(f"the first test image is a {digits.labels[0]}, and the model says {run.predict(digits.images[:1])[0]}")

    seen: dict[str, Any] = {}
    with visiting(recording(seen)):  # every value has a name
        run.model.forward(run.params, digits.images[:1])
    pattern = seen["blocks.0.attn.pattern"]  # (image, head, token, token)
    print(f"token 24, in the middle of the image, looks most at token {pattern[0, 0, 24].argmax()}")
    return run.metrics["test_accuracy"]


if __name__ == "__main__":
    main()
