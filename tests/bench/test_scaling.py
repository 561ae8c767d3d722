"""`glassformer bench scaling`: the fit is right, every size is the model it says, and the command says what it did."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.bench import scaling
from glassformer.bench.scaling_picture import picture
from glassformer.cli.bench import scaling_table
from glassformer.cores import cores
from glassformer.errors import EngineError, FileError, UnknownNameError
from glassformer.models import ViT

from .bench_command import NO_COMPILER, answer_of, bench, needs_c_compiler, take_the_c_compiler_away

SMALL = scaling.Sweep("batch", "B", (1, 2, 3), scaling.with_batch)
QUICKLY = ("batch", "--rounds", "1", "--seconds", "0")


@pytest.fixture
def small_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "SWEEPS", (SMALL,))
    monkeypatch.setattr(scaling, "steps_for", lambda count: 2)


def test_a_power_is_found_exactly_in_the_upper_half() -> None:
    sizes = (1, 2, 4, 8, 16)
    fit = scaling.fitted(sizes, [50, 50, *(3 * size**1.5 for size in sizes[2:])])
    assert (fit.exponent, fit.factor, fit.error) == pytest.approx((1.5, 3.0, 0.0), abs=1e-9)
    assert fit.start == 4
    assert fit(100) == pytest.approx(3000)


def test_the_standard_error_is_that_of_least_squares() -> None:
    sizes, values = (1, 2, 3, 5, 8, 13, 20), (9, 9, 9, 5.0, 9.5, 12.0, 24.0)
    fit = scaling.fitted(sizes, values)
    (slope, level), covariance = np.polyfit(np.log(sizes[3:]), np.log(values[3:]), 1, cov=True)
    assert (fit.exponent, fit.factor) == pytest.approx((slope, np.exp(level)))
    assert fit.error == pytest.approx(np.sqrt(covariance[0, 0]))


def test_two_points_have_no_error() -> None:
    fit = scaling.fitted((2, 4), (1.0, 8.0))
    assert fit.exponent == pytest.approx(3.0)
    assert fit.error is None


@pytest.mark.parametrize("sweep", scaling.SWEEPS, ids=lambda sweep: sweep.name)
def test_every_size_is_the_one_asked_for_and_nothing_else_changes(sweep: scaling.Sweep) -> None:
    for size in sweep.sizes:
        recipe = sweep.recipe(size)
        model = recipe.model
        assert isinstance(model, ViT)
        expected = {"width": 64, "tokens": 49, "batch": 32, "depth": 1} | {sweep.name: size}
        found = {"width": model.width, "tokens": model.patches.tokens, "depth": model.depth}
        assert found | {"batch": recipe.training.batch} == expected
        assert (model.hidden, model.width) == (2 * model.width, 16 * model.heads)


@needs_c_compiler
@pytest.mark.slow
@pytest.mark.usefixtures("small_sweep")
def test_the_command_on_the_native_engine(tmp_path: Path) -> None:
    picture_file = tmp_path / "scaling.png"
    answer = answer_of(bench("scaling", *QUICKLY, "--threads", "1", "--out", str(picture_file), "--json"))
    assert (answer["engine"], answer["threads"], answer["rounds"], answer["seconds"]) == ("native", 1, 1, 0.0)
    (sweep,) = answer["sweeps"]
    assert (sweep["sweep"], sweep["letter"], sweep["sizes"]) == ("batch", "B", [1, 2, 3])
    assert all(ms > 0 for ms in sweep["step_ms"])
    assert sweep["multiply_adds"] == [sweep["multiply_adds"][0] * size for size in (1, 2, 3)]
    assert sweep["fit"].keys() == sweep["multiply_adds_fit"].keys() == {"exponent", "error", "factor", "start"}
    assert sweep["multiply_adds_fit"]["exponent"] == pytest.approx(1.0)
    assert picture_file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.usefixtures("small_sweep")
def test_the_command_on_the_jax_engine() -> None:
    output = bench("scaling", *QUICKLY, "--engine", "jax")
    assert output.exit_code == 0, output.output
    title, _, head, *rows, growth, _, how = output.stdout.splitlines()
    cores_used = f"{cores()} core{'s' * (cores() > 1)}"
    assert title == f"A training step of a small vision transformer: jax engine, {cores_used}"
    assert head.split()[0] == "batch"
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert growth.startswith("from 2 on: time as B^(")
    assert growth.endswith("multiply-adds as B^1.00")
    assert how == "median of 1 turns of at least 0 s; all sizes of a sweep take turns"


@pytest.mark.usefixtures("small_sweep")
def test_without_a_c_compiler_the_native_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_c_compiler_away(monkeypatch)
    error = bench("scaling", *QUICKLY).exception
    assert isinstance(error, EngineError)
    assert str(error) == f"{NO_COMPILER}; try --engine jax"


@pytest.mark.usefixtures("small_sweep")
def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    error = bench("scaling", *QUICKLY, "--out", str(tmp_path)).exception
    assert isinstance(error, FileError)
    assert str(error) == f"{tmp_path}: a folder came, expected the name of a PNG file"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "torch"), "'torch' came, expected native or jax"),
        (("--engine", "jax", "--threads", "2"), "the jax engine always takes all cores"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    output = bench("scaling", *arguments)
    assert output.exit_code == 2
    assert message in output.stderr


def test_an_unknown_sweep_is_refused() -> None:
    error = bench("scaling", "widht").exception
    assert isinstance(error, UnknownNameError)
    assert str(error) == (
        "bench scaling: 'widht' is not compared (did you mean 'width'?); known: width, tokens, batch, depth"
    )


def result(name: str = "width", letter: str = "C") -> scaling.Result:
    return scaling.Result(name, letter, (16, 32, 64, 128), (1.0, 1.5, 3.0, 12.0), (10**6, 10**7, 10**8, 10**9), 1.1)


def test_the_table() -> None:
    assert scaling_table(result())[1:] == [
        " width  ms per step  million multiply-adds  billion a second",
        "    16        1.000                   1.00               1.0",
        "    32        1.500                  10.00               6.7",
        "    64        3.000                 100.00              33.3",
        "   128       12.000                1000.00              83.3",
        "from 64 on: time as C^(2.00), multiply-adds as C^3.32",
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_picture_takes_any_number_of_sweeps(count: int) -> None:
    results = [result(sweep.name, sweep.letter) for sweep in scaling.SWEEPS]
    assert picture(results[:count], "A title").startswith(b"\x89PNG")


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench scaling tokens --out scaling.png" in bench("scaling", "--help").stdout
