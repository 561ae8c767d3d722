"""`glassformer bench memory`: each way is the model it says, measured in a process of its own."""

import pytest

from glassformer.bench import memory
from glassformer.errors import EngineError, UnknownNameError
from glassformer.layers import BandedAttention, BlockwiseAttention

from .bench_command import answer_of, bench

needs_linux = pytest.mark.skipif(not memory.MARK.exists(), reason="the peak of a process is measured on Linux only")


def test_each_way_is_the_model_it_says() -> None:
    sizes = memory.Sizes(tokens=16, width=8, heads=2, depth=3)
    for way in memory.WAYS:
        recipe = memory.recipe_for(way, sizes)
        model = recipe.model
        assert (model.text.context, model.width, model.heads, model.depth) == (16, 8, 2, 3)
        assert model.checkpoint == way.endswith("+checkpoint")
        assert (model.window == 256) == isinstance(model.attend, BandedAttention)
    assert isinstance(memory.recipe_for("blockwise", sizes).model.attend, BlockwiseAttention)


@needs_linux
@pytest.mark.slow
def test_the_command_measures_what_the_patterns_take() -> None:
    answer = answer_of(bench("memory", "plain", "blockwise+checkpoint", "--tokens", "2048", "--depth", "1", "--json"))
    plain, blockwise = answer["ways"]
    assert (plain["way"], answer["sizes"]["tokens"]) == ("plain", 2048)
    assert plain["megabytes"] > 2 * 2 * 2048**2 * 4 / 1e6  # two heads, and at least scores beside their pattern
    assert blockwise["megabytes"] < plain["megabytes"] / 2
    assert blockwise["loss"] == pytest.approx(plain["loss"], abs=1e-5)


def test_a_way_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "executable", "false")
    with pytest.raises(EngineError, match="bench memory: plain could not be measured: it ended with 1"):
        memory.measured("plain", memory.Sizes())


def test_an_unknown_way_is_refused() -> None:
    error = bench("memory", "blockwis").exception
    assert isinstance(error, UnknownNameError)
    assert str(error).startswith("bench memory: 'blockwis' is not compared (did you mean 'blockwise'?); known: plain, ")
