"""`glassformer bench embed`: all sides give the same vectors, and the command says what it measured."""

import pytest

from glassformer.bench.embedding import Result

from .bench_command import answer_of, bench, needs_c_compiler

QUICKLY = ("--small", "--rounds", "1", "--seconds", "0")


@needs_c_compiler
@pytest.mark.slow
def test_the_command_beside_its_peers() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("onnxruntime")
    answer = answer_of(bench("embed", *QUICKLY, "--json"))
    installed = ["ctranslate2"] if answer["ctranslate2"] else []
    assert list(answer["sentences_per_s"]) == ["native", "jax", "onnxruntime", *installed, "transformers"]
    assert answer["difference"] < 1e-5
    assert answer["lengths"] == [16, 64, 256]


def test_ratios_and_what_is_left_out() -> None:
    result = Result([16, 64], {"native": [30.0, 12.0], "onnxruntime": [20.0, 10.0]}, 0.0, 1.0)
    assert result.plain()["ratios"] == {"onnxruntime": [1.5, 1.2]}
    assert Result([16], {"jax": [3.0]}, 0.0, 1.0, "no C").ratios == {}


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench embed --rounds 11" in bench("embed", "--help").stdout
