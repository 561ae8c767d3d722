"""glassformer attend: the picture is written, and the numbers beside it are the model's."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli.attend import attend, parse_query
from glassformer.data import load as load_data
from glassformer.data.idx import header
from glassformer.errors import DataError, FileError, SettingError, UnknownNameError
from glassformer.files import write_whole
from glassformer.lens.attention import attention_maps, rollout
from glassformer.lens.gradient_attention import gradient_attention, gradient_rollout
from glassformer.lens.trace import trace
from glassformer.models import MLP, Network, PatchBlock, ViT
from glassformer.models.patch_block import NormedResidual
from glassformer.predict.run import Run, load
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import to_plain, to_toml

app = typer.Typer()
app.command()(attend)

TEST = load_data("mnist-mini").test
DEEP = ViT(width=16, hidden=8, heads=2, depth=2, with_class_token=True)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def invoked(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def untrained(folder: Path, model: Network) -> Path:
    """A run folder with first weights."""
    recipe = dataclasses.replace(Recipe(), model=model)
    write_whole(folder / "recipe.toml", to_toml(to_plain(recipe)))
    RunFolder(folder).save_model(recipe, model.init(jax.random.key(1)), tuple("0123456789"), 0)
    return folder


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def image_model(run: Run) -> Network:
    assert run.images
    return run.model


def test_the_shipped_model_over_a_test_image() -> None:
    lines = invoked("test:17", "--rollout", "--out", "made/a.png", "--json").splitlines()
    answer = json.loads(lines[-1])
    run = load()
    pattern = attention_maps(image_model(run), run.params, TEST.images[17:18])["blocks.0.attn.pattern"]
    (head,) = answer["heads"]
    assert (head["name"], head["head"], head["class_share"]) == ("blocks.0.attn.pattern", 0, None)
    np.testing.assert_allclose(head["shares"], pattern[0, 0].mean(axis=0).reshape(7, 7), rtol=1e-5)
    rolled = (np.mean(pattern[0], axis=0) + np.eye(49)).mean(axis=0).reshape(7, 7) / 2
    np.testing.assert_allclose(answer["rollout"]["shares"], rolled, rtol=1e-5)
    assert answer["class"] == "7"
    with Image.open("made/a.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > 2 * picture.height, "image, head and rollout side by side"


def test_text_says_what_was_seen_done_and_drawn() -> None:
    sheet = np.full((90, 70), 255, np.uint8)
    sheet[20:76, 8:64] = 255 - TEST.images[1, ..., 0].repeat(2, axis=0).repeat(2, axis=1)
    Image.fromarray(sheet).save("two.png")
    first, second, third = invoked("two.png", "--query", "3,2").splitlines()
    assert first.startswith("vit-pico sees 2 in two.png (")
    assert second.startswith("inverted: dark ink on light ground, cropped ")
    assert third == "wrote attention.png: attention that each patch receives from the framed patch (3,2)"
    assert Path("attention.png").is_file()


def test_blocks_heads_and_class_token() -> None:
    run = untrained(Path("deep"), DEEP)
    answer = json.loads(invoked("test:3", "--run", run, "--query", "class", "--rollout", "--json").splitlines()[-1])
    loaded = load(run)
    maps = attention_maps(image_model(loaded), loaded.params, TEST.images[3:4])
    assert [(head["name"], head["head"]) for head in answer["heads"]] == [
        (f"blocks.{block}.attn.pattern", head) for block in range(2) for head in range(2)
    ]
    row = maps["blocks.1.attn.pattern"][0, 1, 0]
    np.testing.assert_allclose(np.ravel(answer["heads"][3]["shares"]), row[1:], rtol=1e-5)
    assert answer["heads"][3]["class_share"] == pytest.approx(float(row[0]))
    np.testing.assert_allclose(np.ravel(answer["rollout"]["shares"]), rollout(maps)[0, 0, 1:], rtol=1e-5)


@pytest.mark.parametrize(("model", "query"), [(ViT(width=16, hidden=8, heads=2, depth=2), "mean"), (DEEP, "class")])
def test_gradient_x_attention_is_of_the_class_that_is_seen(model: ViT, query: str) -> None:
    run = untrained(Path("deep"), model)
    loaded = load(run)
    answer = json.loads(invoked(run, "test:3", "--gradient", "--rollout", "--json").splitlines()[-1])
    dy = np.zeros((1, 10), np.float32)
    dy[0, int(answer["class"])] = 1
    seen = trace(loaded.model, loaded.params, TEST.images[3:4], dy=dy)
    assert (answer["shows"], answer["query"]) == ("gradient x attention", query)
    maps, rolled = gradient_attention(seen), gradient_rollout(seen)["self"][0]
    first = int(model.with_class_token)
    for head in answer["heads"]:
        weights = maps[head["name"]][0, head["head"]]
        row = weights[0] if query == "class" else weights.mean(axis=0)
        np.testing.assert_allclose(np.ravel(head["shares"]), row[first:] / row.sum(), atol=1e-5)
    row = (rolled - np.eye(len(rolled)))[0] if query == "class" else (rolled - np.eye(len(rolled))).mean(axis=0)
    np.testing.assert_allclose(np.ravel(answer["rollout"]["shares"]), row[first:] / row.sum(), atol=1e-5)
    text = invoked("test:3", "--run", run, "--gradient")
    assert f"wrote attention.png: how much looking at each patch speaks for {answer['class']}, " in text


def test_a_patch_block_has_its_heads_in_one_block() -> None:
    model = PatchBlock(block=NormedResidual(), heads=2)
    run = untrained(Path("deep"), model)
    answer = json.loads(invoked(run, "test:5", "--query", "3,2", "--rollout", "--json").splitlines()[-1])
    maps = attention_maps(model, load(run).params, TEST.images[5:6])
    pattern = maps["attn.inner.inner.pattern"][0]
    assert [head["name"] for head in answer["heads"]] == ["attn.inner.inner.pattern"] * 2
    for h, head in enumerate(answer["heads"]):
        np.testing.assert_allclose(np.ravel(head["shares"]), pattern[h, 7 * 3 + 2], rtol=1e-5)
    assert Path("attention.png").is_file()


def test_one_block_and_one_head() -> None:
    run = untrained(Path("deep"), DEEP)
    every, one = (
        json.loads(invoked(run, "test:3", *words, "--json").splitlines()[-1])["heads"]
        for words in ([], ["--block", "1", "--head", "0"])
    )
    assert one == [every[2]]
    assert (one[0]["name"], one[0]["head"]) == ("blocks.1.attn.pattern", 0)


def test_a_dash_is_the_model_that_comes_along(tmp_path: Path) -> None:
    alone, named = (
        json.loads(invoke(*words, "--out", tmp_path / "a.png", "--json").stdout.splitlines()[-1])
        for words in (["test:3"], ["-", "test:3"])
    )
    assert named == alone


def test_a_run_folder_may_come_first() -> None:
    run = untrained(Path("deep"), DEEP)
    assert json.loads(invoked(run, "test:3", "--json"))["run"] == "deep"
    assert json.loads(invoked("test:3", "--json"))["run"].endswith("vit-pico")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["test:1", "--run", "plain", "--gradient"], UnknownNameError, "MLP has no attention"),
        (["test:1", "test:2"], DataError, "attend: 2 inputs came .test:1, test:2., expected one"),
        (["test:1", "--block", "1"], SettingError, "block: 1 came, expected 0 to 0"),
        (["test:1", "--head", "-1"], SettingError, "head: -1 came, expected 0 to 0"),
        (["test:1", "--run", "plain"], UnknownNameError, "MLP has no attention"),
        (["test:1", "--query", "class"], SettingError, "this model has no class token; ask for a patch"),
        (["test:1", "--query", "7,0"], SettingError, "query: patch 7,0 came, expected rows 0-6, columns 0-6"),
        (["two-ubyte"], DataError, "two-ubyte: holds 2 images; say which one, such as two-ubyte:0"),
        (["blank.png"], DataError, "blank.png: the image is blank"),
        (["test:1", "--out", "two-ubyte/a.png"], FileError, "two-ubyte/a.png: cannot be written"),
    ],
)
def test_mistakes_are_explained_and_leave_no_picture(
    arguments: list[str], error: type[Exception], message: str
) -> None:
    untrained(Path("plain"), MLP(hidden=(4,)))
    Path("two-ubyte").write_bytes(header(TEST.images[:2, ..., 0]) + TEST.images[:2].tobytes())
    Image.new("L", (60, 40), 230).save("blank.png")
    with pytest.raises(error, match=message):
        raise invoke(*arguments).exception
    assert not Path("attention.png").exists()


@pytest.mark.parametrize("query", ["middle", "3", "3,", "-1,2", "1,2,3"])
def test_a_query_that_is_none_is_wrong_usage(query: str) -> None:
    result = invoke("test:1", "--query", query)
    assert result.exit_code == 2
    assert "expected ROW,COLUMN such as 3,2, or class, distillation or mean" in result.stderr


def test_over_an_image_there_is_only_self_attention() -> None:
    result = invoke("test:1", "--kind", "cross")
    assert result.exit_code == 2
    assert "over an image there is only self" in result.stderr


def test_queries() -> None:
    assert parse_query("mean") == "mean"
    assert parse_query("class") == "class"
    assert parse_query("3, 2") == (3, 2)


def test_help_shows_an_example() -> None:
    assert "Example: `glassformer attend " in invoked("--help")
