"""Every test of this folder that asks for `case` runs over every layer, loss and model.

A case is a layer and how to draw an example for it; `case.draw` gives params, x and keywords (mask, key, labels),
`case.draw_dy` a random gradient to come in. Shapes come from the annotations of the layer's own `forward`.
`check(case)` reports `problems`, which break the contract, and `notes`: cached values that the lens could not show.
"""

import pytest

from glassformer.check import CASES, Case
from glassformer.models import BERT, GPT, T5, BERTFor, Llama, RecurrentClassifier, RecurrentLM

# Blocks that are here with masks and dropout too; and what takes as long as a whole model.
PLAIN = ("pre-norm decoder block", "post-norm block", "biased pre-norm block", "post-norm block (linear, keep)")
VITS = ("vit (class token, dropout)", "vit (blockwise, window, checkpoint)")
LONG = (*VITS, "bert for classes (lora)", "checkpoint (mask, dropout)", "checkpoint (blockwise, causal, keep)", *PLAIN)
TEXT_MODELS = (BERT, BERTFor, GPT, Llama, T5, RecurrentClassifier, RecurrentLM)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize(
            "case", [pytest.param(case, id=name, marks=marks_of(case)) for name, case in CASES.items()]
        )


def marks_of(case: Case) -> tuple[pytest.MarkDecorator, ...]:
    """Whole text models take long to compile; their layers are cases of their own."""
    return (pytest.mark.slow,) if isinstance(case.layer, TEXT_MODELS) or case.name in LONG else ()
