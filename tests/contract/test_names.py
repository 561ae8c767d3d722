"""Names are public: the golden list pins them, every value shown has its gradient shown, and tags cost nothing."""

import contextlib
import re
import sys
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from glassformer.bench.gradients import explicit
from glassformer.check import CASES, Case
from glassformer.check.observe import observe
from glassformer.check.tags import values_without_gradient
from glassformer.models import ViT
from glassformer.names import named_leaves, recording, visiting

GOLDEN = Path(__file__).with_name("names.txt")

# Statistics of a norm or softmax: their part of the gradient is inside dx, in closed form, never a value of its own.
# The share of a sample in the loss is made from weights, which have no gradient; frequencies are made from settings.
STATISTICS = ("std_inv", "rms_inv", "norm_inv", "lse", "share", "slope_x", "slope_emb", "frequency")


@cache  # two tests look at each
def observed(case: Case):
    drawn = case.draw(1, jnp.float32)
    dy = case.draw_dy(1, drawn)
    traced = {}

    def run(drawn, dy):
        traced["seen"] = observe(case.layer, drawn, dy)

    jax.eval_shape(run, drawn, dy)
    return drawn, traced["seen"]


def names_of(case: Case) -> str:
    drawn, seen = observed(case)
    lists = {
        "params": named_leaves(drawn.params),
        "cache": named_leaves(seen.cache),
        "forward": seen.forward,
        "backward": seen.backward,
    }
    return "\n".join([case.name, *(f"  {what}: {' '.join(names)}".rstrip() for what, names in lists.items())])


def test_every_value_shown_has_its_gradient_shown(case: Case) -> None:
    _, seen = observed(case)
    missing = [name for name in values_without_gradient(seen) if not name.endswith(STATISTICS)]
    assert missing == []


def test_the_result_of_every_layer_is_tagged(case: Case) -> None:
    _, seen = observed(case)
    assert any(value is seen.y for value in seen.forward.values())


def test_names_are_the_pinned_ones() -> None:
    """A change of names is a change of the public interface: rewrite the list and say so in the changelog."""
    now = "\n".join(map(names_of, CASES.values())) + "\n"
    assert now == GOLDEN.read_text(), f"to pin the new names: python {Path(__file__).name}"


def compiled_step() -> str:
    """The operations of a training step, without the labels that say which source line each came from."""
    model = ViT(width=8, hidden=12, heads=2)
    params = jax.eval_shape(model.init, jax.random.key(0))
    images, labels = model.example(3), jax.ShapeDtypeStruct((3,), jnp.int32)
    text = jax.jit(lambda *data: explicit(model, *data)).lower(params, images, labels).compile().as_text()
    assert text is not None
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith(("%", "ROOT")))


def test_tags_leave_no_trace_in_compiled_training_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tags = compiled_step()
    passed = []

    def untagged(name, value):
        passed.append(name)
        return value

    for name, module in list(sys.modules.items()):
        if name.startswith(("glassformer.layers.", "glassformer.losses.", "glassformer.models.")):
            if "tag" in vars(module):
                monkeypatch.setattr(module, "tag", untagged)
            if "scope" in vars(module):
                monkeypatch.setattr(module, "scope", lambda name: contextlib.nullcontext())
    without_tags = compiled_step()
    assert "pattern" in passed, "the tags were not replaced"
    assert with_tags == without_tags


def test_a_visitor_would_leave_a_trace() -> None:
    with_tags = compiled_step()
    with visiting(lambda name, value: value * 2 if name.endswith("pattern") else value):
        assert with_tags != compiled_step()


def test_recording_sees_the_attention_pattern_of_every_block() -> None:
    model = ViT(width=8, hidden=12, heads=2, depth=2)
    params = model.init(jax.random.key(0))
    seen: dict[str, jax.Array] = {}
    with visiting(recording(seen)):
        model.forward(params, jnp.zeros((1, 28, 28, 1), jnp.uint8))
    for name in ("blocks.0.attn.pattern", "blocks.1.attn.pattern"):
        assert jnp.allclose(seen[name].sum(-1), 1, atol=1e-6)


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(map(names_of, CASES.values())) + "\n")
