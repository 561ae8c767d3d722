"""The trace against what the contract suite records: same names, same numbers, nothing missing."""

from html.parser import HTMLParser
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import lens
from glassformer.check import CASES, Case, gradient_error
from glassformer.check.cases import LAYERS, MODELS
from glassformer.check.draw import Drawn, is_float
from glassformer.check.observe import Observed, observe
from glassformer.errors import DataError, SettingError, ShapeError, UnknownNameError
from glassformer.layers import Linear
from glassformer.lens.trace import as_numpy, compiled_pass
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.models import MLP, Images, Network, PatchAttention, ViT
from glassformer.models.summary import summarise
from glassformer.names import gradient_name, named_leaves, tag
from glassformer.train.gradient import loss_and_gradient

STATISTICS = ("std_inv", "rms_inv", "norm_inv", "lse", "share", "frequency")  # as in tests/contract/test_names.py
SMALL = ViT(Images((8, 12, 1), classes=5), width=8, hidden=7, heads=2)
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 8, 12, 1), dtype=np.uint8)
LABELS = np.array([1, 4, 0])


@pytest.fixture(scope="module")
def params() -> Any:
    return SMALL.init(jax.random.key(0))


@pytest.fixture(scope="module")
def traced(params: Any) -> lens.Trace:
    return lens.trace(SMALL, params, IMAGES, labels=LABELS)


def observed(case: Case, drawn: Drawn, dy: Any) -> Observed:
    """As one program, which would give dictionaries back in the order of the alphabet."""
    names: list[list[str]] = []

    @jax.jit
    def run(drawn: Drawn, dy: Any) -> Observed:
        seen = observe(case.layer, drawn, dy)
        names.extend(([*seen.forward], [*seen.backward]))
        return seen

    seen = run(drawn, dy)
    forward, backward = names
    return seen._replace(
        forward={name: seen.forward[name] for name in forward},
        backward={name: seen.backward[name] for name in backward},
    )


def must_hold_everything(case: Case) -> None:
    drawn = case.draw(1, jnp.float32)
    dy = case.draw_dy(1, drawn)
    seen = observed(case, drawn, dy)
    found = lens.trace(case.layer, drawn.params, drawn.x, dy=dy, **drawn.keywords)
    assert [*found.values] == [*seen.forward]
    assert [*found.gradients] == [*seen.backward]
    for name, kept in named_leaves(seen.cache).items():
        assert np.allclose(found[name], as_numpy(kept), rtol=1e-4, atol=1e-5), name
        assert not is_float(kept) or name.endswith(STATISTICS) or gradient_name(name) in found.gradients, name
    assert all(found[name].shape == found.values[name].shape for name in found.values if name != "given.key")
    floats = [name for name, value in seen.forward.items() if is_float(value)]
    assert gradient_error({n: found.values[n] for n in floats}, {n: seen.forward[n] for n in floats}) < 1e-5
    assert gradient_error(found.gradients, seen.backward) < 1e-5
    assert [*found.param_gradients] == [*found.params] == [*named_leaves(drawn.params)]
    assert gradient_error(found.param_gradients, named_leaves(seen.dparams)) < 1e-5
    assert gradient_error(found.logits, seen.y) < 1e-5
    of_one_name(found)


def of_one_name(found: lens.Trace) -> None:
    """A head with a table of its own shows the table: the value is the parameter, whichever is meant."""
    sections = found.sections().values()
    for name in found.names():
        first, *others = [section[name] for section in sections if name in section]
        assert not others or name in ("head.emb", "head.demb"), name
        assert all(np.array_equal(first, other) for other in others), name


def is_seen_as_it_is(case: Case) -> bool:
    """Others are shown as the plain model that they are: test_ways_to_attend.py."""
    return not isinstance(case.layer, Network) or case.layer.to_look_at() == case.layer


@pytest.mark.parametrize("case", [*filter(is_seen_as_it_is, MODELS)], ids=lambda case: case.name)
def test_every_cache_field_and_gradient_of_a_model_is_there(case: Case) -> None:
    must_hold_everything(case)


CHEAP = ("linear", "embedding", "layer norm", "gru", "attention (mask, bias, scale)", "checkpoint (mask, dropout)")


@pytest.mark.parametrize("name", CHEAP)
def test_every_cache_field_and_gradient_of_a_layer_is_there(name: str) -> None:
    must_hold_everything(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in LAYERS if case.name not in CHEAP], ids=lambda case: case.name)
def test_every_cache_field_and_gradient_of_any_layer_is_there(case: Case) -> None:
    must_hold_everything(case)


@pytest.mark.parametrize("loss", [CrossEntropy(), LabelSmoothing(0.2)])
def test_with_labels_it_is_a_step_of_training(loss: Any, params: Any) -> None:
    weights = np.array([0.5, 0.0, 2.0], np.float32)
    step = jax.jit(lambda params, x: loss_and_gradient(SMALL, loss, params, x, labels=LABELS, weights=weights))
    value, dparams = step(params, IMAGES)
    found = lens.trace(SMALL, params, IMAGES, labels=LABELS, weights=weights, loss=loss)
    assert found.loss == pytest.approx(float(value), rel=1e-6)
    assert gradient_error(found.param_gradients, named_leaves(dparams)) < 1e-5
    assert [name for name in found.values if name.startswith("loss.")] == [
        "loss.log_p",
        "loss.labels",
        "loss.share",
        "loss.loss",
    ]
    assert [name for name in found.gradients if name.startswith("loss.")] == ["loss.dloss", "loss.dlog_p"]
    assert np.allclose(np.exp(found["loss.log_p"]).sum(-1), 1, atol=1e-6)


def test_one_program_for_all_inputs_of_one_shape(traced: lens.Trace, params: Any) -> None:
    before = compiled_pass._cache_size()  # pyright: ignore
    again = lens.trace(SMALL, params, 255 - IMAGES, labels=LABELS[::-1].copy())
    assert compiled_pass._cache_size() == before  # pyright: ignore
    assert again.loss != traced.loss


def test_an_array_of_several_names_is_kept_once(traced: lens.Trace) -> None:
    assert traced.values["blocks.0.attn.x"] is traced.values["blocks.0.norm1.y"]
    assert traced.values["blocks.0.attn.memory"] is traced.values["blocks.0.attn.query"]


def test_forward_alone(traced: lens.Trace, params: Any) -> None:
    found = lens.trace(SMALL, params, IMAGES)
    assert (found.gradients, found.param_gradients, found.loss) == ({}, {}, None)
    assert [*found.values] == [name for name in traced.values if not name.startswith("loss.")]
    assert np.array_equal(found.logits, traced.logits)
    with pytest.raises(UnknownNameError, match=r"'blocks\.0\.attn\.dscores' .*; gradients need labels=…, or dy=…"):
        found["blocks.0.attn.dscores"]


def test_arrays_by_name(traced: lens.Trace, params: Any) -> None:
    for name, array in (
        ("blocks.0.attn.pattern", traced.values["blocks.0.attn.pattern"]),
        ("blocks.0.attn.dscores", traced.gradients["blocks.0.attn.dscores"]),
        ("blocks.0.attn.w_q", params.blocks[0].attn.w_q),
        ("blocks.0.attn.dw_q", traced.param_gradients["blocks.0.attn.w_q"]),
    ):
        assert isinstance(traced[name], np.ndarray)
        assert np.array_equal(traced[name], array)
        assert name in traced
        assert name in [*traced]
    assert "blocks.0.attn.w_r" not in traced
    assert len(traced) == len(traced.values) + len(traced.gradients) + 2 * len(traced.params)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.pattern", ["blocks.0.attn.pattern"]),
        ("*.d?attern", ["blocks.0.attn.dpattern"]),
        ("head.*", ["head.x", "head.y", "head.dy", "head.dx", "head.w", "head.b", "head.dw", "head.db"]),
        ("*.dw_[qk]", ["blocks.0.attn.dw_q", "blocks.0.attn.dw_k"]),
        ("loss.loss", ["loss.loss"]),
    ],
)
def test_filters(traced: lens.Trace, pattern: str, names: list[str]) -> None:
    found = traced.match(pattern)
    assert found.names() == names
    assert (found.loss, found.model) == (traced.loss, SMALL)
    for name in names:
        assert np.array_equal(found[name], traced[name])
    assert len(found.table().splitlines()) >= 3 + len(names)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("blocks.0.attn.patern", "'blocks.0.attn.pattern' or 'blocks.0.attn.dpattern'"),
        ("pattern", "'blocks.0.attn.pattern' or 'blocks.0.attn.dpattern'"),
        ("block.0.attn.w_q", "'blocks.0.attn.w_q'"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(traced: lens.Trace, name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        traced[name]
    assert str(error.value).startswith(f"nothing in the trace is called {name!r} (did you mean {nearest}")
    with pytest.raises(UnknownNameError, match=r"nothing in the trace matches '\*\.patern' \(did you mean 'blocks"):
        traced.match("*.patern")
    with pytest.raises(UnknownNameError, match=r"nothing in the trace is called 'zzzzzz'$"):
        traced["zzzzzz"]


@pytest.mark.parametrize(
    ("keywords", "kind", "message"),
    [
        ({"labels": LABELS, "dy": np.ones((3, 5))}, SettingError, "labels and dy came, expected one of them"),
        ({"weights": np.ones(3)}, SettingError, "weights came without labels"),
        ({"kep": 1}, SettingError, r"ViT takes no 'kep' \(did you mean 'key'\?\); it takes key"),
        ({"labels": LABELS[:2]}, ShapeError, r"labels of shape \(2,\) came, expected .* answers: \(3,\)"),
        ({"labels": [1, 5, 0]}, DataError, "labels from 0 to 5 came, the model knows classes 0 to 4"),
        ({"labels": [1, -1, 0]}, DataError, "labels from -1 to 1 came"),
    ],
)
def test_mistakes_are_explained(params: Any, keywords: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        lens.trace(SMALL, params, IMAGES, **keywords)


def test_a_label_that_weighs_nothing_may_be_anything(params: Any) -> None:
    found = lens.trace(SMALL, params, IMAGES, labels=[1, -100, 0], weights=[1, 0, 1])
    assert found.loss == pytest.approx(lens.trace(SMALL, params, IMAGES[[0, 2]], labels=[1, 0]).loss)


def test_a_layer_that_takes_nothing_else_says_so() -> None:
    layer = Linear(2, 2)
    with pytest.raises(SettingError, match="Linear takes no 'mask'; it takes nothing besides params and x"):
        lens.trace(layer, layer.init(jax.random.key(0)), jnp.ones((1, 2)), mask=None)


TINY = MLP(Images((1, 2, 1), classes=2, std=1 / 255), hidden=(2,))  # prepared, a pixel is what it was
TABLE = """\
MLP: 11 values, 9 gradients, loss 0.6931
name         shape       mean  spread    norm
-----------  -------  -------  ------  ------

forward
prepare.y    1x1x2x1      1.5     0.5   2.236
flatten.y    1x2          1.5     0.5   2.236
layers.0.x   1x2          1.5     0.5   2.236
layers.0.y   1x2            1       2   3.162
relu.0.y     1x2          1.5     1.5       3
layers.1.x   1x2          1.5     1.5       3
layers.1.y   1x2            3       0   4.243
loss.log_p   1x2      -0.6931       0  0.9803
loss.labels  1              -       -       -
loss.share   1              1       0       1
loss.loss    -         0.6931       0  0.6931

backward
loss.dloss   -              1       0       1
loss.dlog_p  1x2         -0.5     0.5       1
layers.1.dy  1x2            0     0.5  0.7071
layers.1.dx  1x2          0.5     0.5       1
relu.0.dy    1x2          0.5     0.5       1
layers.0.dy  1x2            0       0       0
layers.0.dx  1x2            0       0       0
flatten.dy   1x2            0       0       0
prepare.dy   1x1x2x1        0       0       0

parameters
layers.0.w   2x2         0.25  0.8292   1.732
layers.0.b   2              0       0       0
layers.1.w   2x2          3.5   2.598   8.718
layers.1.b   2              0       0       0

gradients of the parameters
layers.0.dw  2x2            0       0       0
layers.0.db  2              0       0       0
layers.1.dw  2x2            0   1.061   2.121
layers.1.db  2              0     0.5  0.7071"""


def tiny_params() -> Any:
    params = TINY.init(jax.random.key(0))
    weights = {"w": jnp.array([[1.0, -1.0], [1.0, 0.0]]), "b": jnp.zeros(2)}
    second = {"w": jnp.array([[1.0, 1.0], [5.0, 7.0]]), "b": jnp.zeros(2)}
    return params._replace(layers=tuple(p._replace(**w) for p, w in zip(params.layers, (weights, second), strict=True)))


def test_the_table() -> None:
    """Worked out on paper: pixels 1 2 -> 3 -1 -> 3 0 -> two equal logits 3 3 -> p = 1/2 1/2, dlogits = -1/2 1/2."""
    shown = str(lens.trace(TINY, tiny_params(), np.array([[[[1], [2]]]], np.uint8), labels=[0]))
    assert shown == TABLE, shown


def test_numbers_that_are_not_finite_are_shown() -> None:
    layer = Linear(2, 2)
    found = lens.trace(layer, layer.init(jax.random.key(0)), jnp.array([[jnp.inf, 1.0], [jnp.nan, 1.0]]))
    assert found.table().splitlines()[5].split() == ["x", "2x2", "nan", "nan", "nan"]


class Read(HTMLParser):
    """Text by the tags it stands in; every tag that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1], []).append(data)


def test_in_a_notebook_it_is_the_same_table(traced: lens.Trace) -> None:
    read = Read(traced._repr_html_())
    assert read.texts["caption"] == ["forward", "backward", "parameters", "gradients of the parameters"]
    rows = [cell for section in traced.rows().values() for row in section for cell in row]
    assert read.texts["td"] == rows
    assert read.texts["th"][0] == traced.title()


def test_names_are_shown_not_read_as_html() -> None:
    class Sly(Linear):
        def forward(self, params, x):  # pyright: ignore[reportIncompatibleMethodOverride]
            tag("<script>alert(1)</script>.a & b", x)
            return super().forward(params, x)

    read = Read(lens.trace(Sly(2, 3), Sly(2, 3).init(jax.random.key(0)), jnp.ones((1, 2)))._repr_html_())
    assert "<script>alert(1)</script>.a & b" in read.texts["td"]
    assert "script" not in read.texts


@pytest.mark.parametrize("model", [SMALL, PatchAttention()])
def test_a_model_in_a_notebook_is_its_summary(model: Any) -> None:
    read, summary = Read(model._repr_html_()), summarise(model)
    assert read.texts["code"] == [repr(model)]
    assert read.texts["td"] == [cell for row in summary.rows() for cell in row]
    assert read.texts["th"] == [
        *("part", "output", "parameters", "multiply-adds forward", "backward", "kept for backward"),
        *filter(None, summary.total_row()),
    ]
    assert read.texts["caption"] == [summary.note()]
