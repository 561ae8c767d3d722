"""A layer of somebody else's in C: registered, found by the plan, compiled with ours, and right."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
import pytest

from glassformer import register, registry
from glassformer.errors import EngineError, SettingError
from glassformer.layers import tied_head
from glassformer.models import GPT, Network
from glassformer.models.text import Text
from glassformer.names import at
from glassformer.native import build, plan
from glassformer.native.engine import NativeEngine
from glassformer.native.lower import plan_for
from glassformer.shapes import Static
from glassformer.train.jax_engine import JaxEngine, loss_of_step
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.tasks import NextToken
from glassformer.train.tasks.next_token import Stream

from .own_kernel import Scale, Scaled, give_kernel, scale
from .test_models import (
    curves,
    error,
    gradient_of,
    native,
    params_for,
    recipe_for,
    samples_for,
    true_gradient,
)

NAME = f"{Scale.__module__}.{Scale.__qualname__}"
HERE = Path(__file__).with_name("own_kernel")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    give_kernel()
    yield
    forget_kernel()


def forget_kernel() -> None:
    registry._registered["kernel"].pop(NAME, None)


def test_its_gradients_are_those_of_jax() -> None:
    recipe = recipe_for(Scaled())
    (loss, gradient), (true_loss, truth) = gradient_of(recipe, 2), true_gradient(recipe, 2)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5


def test_its_own_backward_is_that_of_autodiff() -> None:
    """It is the referee of the test above."""
    model, params, images = Scaled(), params_for(Scaled()), samples_for(Scaled()).images
    y, cache = model.forward(params, images)
    dy = jax.random.normal(jax.random.key(1), y.shape)
    _, vjp = jax.vjp(lambda params: model.forward(params, images)[0], params)
    assert error(model.backward(params, cache, dy)[1], vjp(dy)[0]) <= 1e-5


def test_it_trains_and_scores() -> None:
    recipe, samples = recipe_for(Scaled(), 2), samples_for(Scaled())
    curve, truth = curves(recipe)
    np.testing.assert_allclose(curve, truth, rtol=2e-5)
    ours, theirs = (
        engine.score(params_for(recipe.model), samples) for engine in (native(recipe), JaxEngine(recipe, samples, (1,)))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_is_not_registered_is_named() -> None:
    forget_kernel()
    with pytest.raises(EngineError, match=r"the native engine has no Scale yet \(scale\)"):
        plan_for(Scaled(), 1)


def test_it_is_found_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the layer; the package's other kernels are not imported."""
    forget_kernel()
    about = tmp_path / "their_kernels-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-kernels\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[glassformer.kernels]\n{NAME} = their_kernels:scale\nother.Layer = not_there:x\n"
    )
    (tmp_path / "their_kernels.py").write_text(
        "import sys\n"
        "from glassformer import register\n"
        f"own = sys.modules[{Scale.__module__!r}]\n"
        f"scale = register.kernel(own.Scale, include={str(HERE)!r})(own.scale)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entry_points.cache_clear()
    try:
        assert [call.kernel for call in plan_for(Scaled(), 1).forward].count("scale_forward") == 2
    finally:
        registry._entry_points.cache_clear()


def test_the_header_decides_what_is_built(tmp_path: Path) -> None:
    """Its folder goes to the compiler, and another header makes another library."""
    plan = plan_for(Scaled(), 1)
    assert plan.folders == [HERE]
    (tmp_path / "scale.h").write_text((HERE / "scale.h").read_text() + "/* changed */\n")
    fingerprints = {build.fingerprint("", folders) for folders in ((), (HERE,), (tmp_path,))}
    assert len(fingerprints) == 3


def test_a_header_that_another_folder_has(tmp_path: Path) -> None:
    register.kernel(Scale, include=tmp_path)(scale)
    with pytest.raises(EngineError, match=r"no header \(\*\.h\) lies in"):
        plan_for(Scaled(), 1)
    (tmp_path / "linear.h").write_text("")
    with pytest.raises(EngineError, match=r"linear\.h lies in .* and in .*; rename the new one"):
        plan_for(Scaled(), 1)


def test_a_layer_has_one_kernel() -> None:
    with pytest.raises(SettingError, match=r"register\.kernel\('.*Scale'\): .*other came, and .*scale has this name"):

        @register.kernel(Scale)
        def other(plan: Any, node: Any, x: Any) -> None: ...


class ScaledParams(NamedTuple):
    gpt: Any
    scale: Any


@dataclass(frozen=True)
class ScaledGPT(Network):
    """A language model whose logits somebody scales."""

    tasks: ClassVar[tuple[str, ...]] = ("next-token",)
    gpt: GPT = GPT(text=Text(19, 7), width=12, hidden=10, heads=3, depth=1)

    @property
    def input(self) -> Text:
        return self.gpt.text

    def init(self, key: Any) -> ScaledParams:
        return ScaledParams(gpt=self.gpt.init(key), scale=Scale(19).init(key))

    def forward(self, params: ScaledParams, x: Any) -> Any:
        h, gpt = at("gpt", self.gpt).forward(params.gpt, x)
        y, scale = at("scale", Scale(19)).forward(params.scale, h)
        return y, (gpt, scale)

    def backward(self, params: ScaledParams, cache: Any, dy: Any) -> Any:
        dh, dscale = at("scale", Scale(19)).backward(params.scale, cache[1], dy)
        _, dgpt = at("gpt", self.gpt).backward(params.gpt, cache[0], dh)
        return None, ScaledParams(gpt=dgpt, scale=dscale)


def both_gradients(model: Network, threads: int = 1) -> tuple[float, Any, float, Any]:
    """Of the second step, which has fewer samples: ours, and those of jax."""
    ids = np.random.default_rng(0).integers(19, size=5 * 7 + 1).astype(np.int32)
    engine = Engine(name="native", threads=threads)
    recipe = Recipe(model=model, task=NextToken(), training=Training(batch=3), engine=engine)
    samples, params = Stream(ids, Static(7)), params_for(recipe.model)
    ours, referee = NativeEngine(recipe, samples, pytest.fail), JaxEngine(recipe, samples, (recipe.training.seed,))
    loss, gradient = ours.gradient(params, ours.batches([np.arange(5)], 1), 1)
    true_loss, truth = loss_of_step(recipe, params, referee.batches([np.arange(5)], 1), 1)
    return loss, gradient, float(true_loss), truth


def test_in_a_text_model() -> None:
    """Somebody's kernel among ours, and somebody's model."""
    loss, gradient, true_loss, truth = both_gradients(ScaledGPT())
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5


class TwiceParams(NamedTuple):
    embed: Any
    block: Any
    norm: Any


@dataclass(frozen=True)
class TwiceGPT(Network):
    """A language model whose blocks are one block, run twice: each of its weights has two gradients."""

    tasks: ClassVar[tuple[str, ...]] = ("next-token",)
    gpt: GPT = GPT(text=Text(19, 7), width=12, hidden=10, heads=3, depth=1)

    @property
    def input(self) -> Text:
        return self.gpt.text

    def init(self, key: Any) -> TwiceParams:
        params = self.gpt.init(key)
        return TwiceParams(params.embed, params.blocks[0], params.norm)

    def forward(self, params: TwiceParams, x: Any) -> Any:
        resid, embed = at("embed", self.gpt.embed).forward(params.embed, x)
        resid, first = at("first", self.gpt.block).forward(params.block, resid)
        resid, second = at("second", self.gpt.block).forward(params.block, resid)
        h, norm = at("norm", self.gpt.norm).forward(params.norm, resid)
        y, head = at("head", self.gpt.head).forward(None, tied_head.Inputs(x=h, emb=params.embed.emb))
        return y, (embed, first, second, norm, head)

    def backward(self, params: TwiceParams, cache: Any, dy: Any) -> Any:
        embed, first, second, norm, head = cache
        dread, _ = at("head", self.gpt.head).backward(None, head, dy)
        dresid, dnorm = at("norm", self.gpt.norm).backward(params.norm, norm, dread.x)
        dresid, dlater = at("second", self.gpt.block).backward(params.block, second, dresid)
        dresid, dblock = at("first", self.gpt.block).backward(params.block, first, dresid)
        _, dembed = at("embed", self.gpt.embed).backward(params.embed, embed, dresid)
        dblock = jax.tree.map(jax.numpy.add, dblock, dlater)
        return None, TwiceParams(dembed._replace(emb=dembed.emb + dread.emb), dblock, dnorm)


@pytest.mark.parametrize("large", [True, False])
def test_a_weight_that_is_used_twice(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is: its gradient is cut by columns only where one layer has it."""
    monkeypatch.setattr(plan, "LARGE", 40 if large else plan.LARGE)
    monkeypatch.setattr(plan, "LARGE_TABLE", 1 if large else plan.LARGE_TABLE)
    loss, gradient, true_loss, truth = both_gradients(TwiceGPT(), threads=2)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5
