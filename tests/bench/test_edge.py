"""`glassformer bench edge`: a run on an emulated board, and what is refused."""

from pathlib import Path

import jax
import pytest

from glassformer.bench import edge
from glassformer.data.iris import load_iris
from glassformer.errors import EngineError, SettingError, UnknownNameError
from glassformer.predict.run import load
from glassformer.train.presets import preset
from glassformer.train.run_folder import RunFolder

from ..edge.boards import needs
from .bench_command import answer_of, bench


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with random weights."""
    out, recipe, data = tmp_path_factory.mktemp("runs") / "flowers", preset("iris"), load_iris()
    folder = RunFolder(out)
    folder.create(recipe)
    folder.save_model(recipe, recipe.model.init(jax.random.key(3)), data.classes, epoch=1)
    return out


@needs("m4")
def test_a_run_on_a_board(iris: Path) -> None:
    results = answer_of(bench("edge", str(iris), "--target", "m4", "-O", "s", "--json"))["results"]
    found = {row["variant"]: row for row in results}
    assert tuple(found) == edge.VARIANTS
    assert {(row["run"], row["target"]) for row in results} == {("flowers", "m4")}
    for variant, row in found.items():
        assert row["ram"] == row["arena"] + row["stack"]
        assert 50 < row["stack"] < 600
        assert (row["accuracy"] is None) == (variant in ("head", "bias", "lora", "full"))
    whole, int8 = found["float"], found["int8"]
    run = load(iris)
    images, labels = run.arrays(run.load_data().test)
    assert whole["accuracy"] == (run.predict(images) == labels).mean()
    assert abs(int8["accuracy"] - whole["accuracy"]) < 0.1
    weights = 4 * 475
    assert weights + 1000 < whole["flash"] < weights + 4096
    assert int8["arena"] < whole["arena"] < found["head"]["arena"] < found["bias"]["arena"] < found["full"]["arena"]
    assert found["head"]["arena"] < found["lora"]["arena"] < found["full"]["arena"]
    assert 1_432 < whole["instructions"] < 12_000  # of so many multiply-adds
    assert whole["instructions"] < found["head"]["instructions"] < found["full"]["instructions"] < 24_000


@needs("m4")
def test_the_table(iris: Path) -> None:
    output = bench("edge", str(iris), "--target", "m4", "--variant", "int8")
    assert output.exit_code == 0, output.output
    head, _, row, note = output.stdout.splitlines()
    assert head.split() == ["run", "target", "variant", "instructions", "RAM", "arena", "stack", "flash", "accuracy"]
    assert row.split()[:3] == ["flowers", "m4", "int8"]
    assert row.endswith(" %")
    assert note.startswith("emulated by QEMU, gcc -O3 -ffp-contract=fast")


@needs("m4")
def test_an_error_on_the_board_is_one_here(iris: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = edge.program
    monkeypatch.setattr(edge, "program", lambda *given: program(*given).replace("sizeof memory)", "8)"))
    output = bench("edge", str(iris), "--target", "m4", "--variant", "float", "-O", "s")
    assert isinstance(output.exception, EngineError)
    assert str(output.exception).endswith("flowers: float on m4 ended with status 1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--variant", "tiny"), "'tiny' came, expected one of float, int8, head, bias, lora, full"),
        (("-O", "7"), "'7' came, expected s, 2 or 3"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], said: str) -> None:
    output = bench("edge", *words)
    assert output.exit_code == 2
    assert said in " ".join(output.stderr.replace("│", "").split())


def test_what_is_not_emulated() -> None:
    with pytest.raises(UnknownNameError, match="no target is called 'm5'; there are host, m3"):
        edge.boards(["m5"])
    with pytest.raises(SettingError, match="host is not emulated, so nothing is counted; there are m3, m4"):
        edge.boards(["m4", "host"])


def test_what_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    text = load()
    object.__setattr__(text, "recipe", preset("gpt-nano"))
    with pytest.raises(SettingError, match="bench edge measures models that tell classes, not next-token"):
        next(edge.measure(text, [], ("float",), "-O2"))
    monkeypatch.setattr(edge, "missing", lambda target: "no compiler")
    output = bench("edge")
    assert isinstance(output.exception, EngineError)
    assert "no board can be emulated here: install qemu-system-arm" in str(output.exception)
