"""glassformer info: what models of images, texts and tables cost; and with --c and --plan, what the native engine makes
of one, for anyone to read."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli import main
from glassformer.models import MLP, Network, PatchAttention
from glassformer.native.lower import plan_for
from glassformer.native.plan import place
from glassformer.native.write import LANES, source_of
from glassformer.train.presets import preset
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.run_folder import RunFolder

from ..train.text_runs import untrained


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`glassformer info ...` in this process: its exit status, what it printed, what it complained about."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["glassformer", "info", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run


def attention_pool() -> Network:
    return preset("attention-pool").model


def test_the_c_of_a_preset_is_printed_as_it_is_compiled(info: Any) -> None:
    code, out, _ = info("attention-pool", "--c")
    assert (code, out) == (0, source_of(attention_pool(), 1))


def test_the_c_of_a_run_has_the_samples_of_its_batch(info: Any, tmp_path: Path) -> None:
    """An MLP takes up to sixteen at once; a run that trains by fives takes five."""
    model = MLP(hidden=(8,))
    RunFolder(tmp_path).create(Recipe(model=model, training=Training(batch=5)))
    assert info(str(tmp_path), "--c")[1] == source_of(model, 5)
    assert info(str(tmp_path), "--c", "--batch", "3")[1] == source_of(model, 3)
    assert info("mlp", "--c", "--set", "hidden=[8]")[1] == source_of(model, 16)


def test_the_c_of_a_run_without_rewrites_is_without(info: Any, tmp_path: Path) -> None:
    RunFolder(tmp_path).create(Recipe(model=PatchAttention(width=8), engine=Engine(rewrites=False)))
    plain = source_of(PatchAttention(width=8), 1, rewrites=False)
    assert info(str(tmp_path), "--c")[1] == plain != source_of(PatchAttention(width=8), 1)
    calls = json.loads(info(str(tmp_path), "--plan", "--json")[1])["forward_only"]["calls"]
    assert calls.index("mean_pool_forward") == len(calls) - 2  # only the head comes after it


def test_c_as_json(info: Any) -> None:
    answer = json.loads(info("patch_attention", "--c", "--set", "width=8", "--json")[1])
    assert answer["source"] == source_of(PatchAttention(width=8), 1)
    assert answer["samples"] == 1
    assert "training" not in answer


def test_the_plan_shows_every_buffer_and_the_arena(info: Any) -> None:
    plan = plan_for(attention_pool(), 1)
    arena = 4 * place(plan, LANES)
    code, out, _ = info("attention-pool", "--plan")
    training, forward_only = out.split("\n\n")
    assert code == 0
    assert f"arena {arena:,} bytes for 1 sample at a time" in training
    assert [line.split()[0] for line in training.splitlines()[3:-2]] == [buffer.name for buffer in plan.buffers]
    row = next(line.split() for line in training.splitlines() if line.startswith("attn.pattern"))
    assert row[:3] == ["attn.pattern", "1x1x49x64", "12,544"]
    assert row[4:] == ["8", "attention_forward", "22", "attention_backward"]
    assert "backward" not in forward_only.replace("attn.turned", "")
    assert "the caller" in next(line for line in forward_only.splitlines() if line.startswith("logits"))


def test_plan_as_json(info: Any) -> None:
    answer = json.loads(info("vit-pico", "--plan", "--json")[1])
    training, forward_only = answer["training"], answer["forward_only"]
    assert forward_only["calls"] == training["calls"][: len(forward_only["calls"])]
    assert forward_only["arena"] < training["arena"]
    for plan in (training, forward_only):
        for buffer in plan["buffers"]:
            assert buffer["offset"] + buffer["bytes"] <= plan["arena"]
            assert 0 <= buffer["from"] <= buffer["to"] <= len(plan["calls"])
        for one in plan["buffers"]:  # alive together: apart in space
            for other in plan["buffers"]:
                if one is not other and one["from"] <= other["to"] and other["from"] <= one["to"]:
                    ends = one["offset"] + one["bytes"], other["offset"] + other["bytes"]
                    assert ends[0] <= other["offset"] or ends[1] <= one["offset"]


@pytest.mark.parametrize("option", ["--c", "--plan"])
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("vit", "--set", "dropout=0.1"), 1, "the native engine has Dropout in models of texts only (blocks.0.drop1)"),
        (("vti",), 1, "is called 'vti' (did you mean 'vit'?)"),
        (("vit", "--set", "widht=3"), 1, "ViT has no setting 'widht' (did you mean 'width'?)"),
        ((), 2, "--c and --plan are about a model"),
    ],
)
def test_what_cannot_be_shown_is_explained(
    info: Any, option: str, arguments: tuple[str, ...], status: int, message: str
) -> None:
    code, out, err = info(*arguments, option)
    assert (code, out) == (status, "")
    assert message in err


def test_a_folder_that_is_no_run(info: Any, tmp_path: Path) -> None:
    code, _, err = info(str(tmp_path), "--c")
    assert code == 1
    assert "not a run folder, it has no recipe.toml" in err


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gpt", 124_439_808),
        ("smollm-135m", 134_515_008),
        ("bert", 109_482_240 - 590_592),  # less its pooler, a head's
        ("t5", 60_506_624),
    ],
)
def test_models_of_texts_have_as_many_parameters_as_was_published(info: Any, name: str, published: int) -> None:
    code, out, err = info(name, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["total"]["parameters"] == published


@pytest.mark.parametrize("name", ["gpt-nano", "llama-nano", "bert-nano", "t5-nano", "lstm-nano"])
def test_a_preset_says_that_its_symbols_are_yet_to_come(info: Any, name: str) -> None:
    code, out, err = info(name)
    assert code == 0
    assert out.splitlines()[-2].startswith("total")
    assert err == (
        "note: how many symbols there are is up to the data; 50,257 are assumed: --set text.vocabulary=100\n"
    )
    code, out, err = info(name, "--set", "model.text.vocabulary=100", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["parts"][-1]["shape"][-1] in (100, 64)  # BERT has no head yet: its width


def test_a_model_of_a_table(info: Any) -> None:
    code, out, err = info("iris", "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["total"]["parameters"] == 475
    assert answer["parts"][-1]["shape"] == [1, 3]


@pytest.mark.parametrize("option", [(), ("--c",), ("--plan",)])
def test_settings_by_their_name_in_the_model_or_in_the_recipe(info: Any, option: tuple[str, ...]) -> None:
    plain = info("attention-pool", "--set", "width=8", "--json", *option)
    assert plain == info("attention-pool", "--set", "model.width=8", "--json", *option)
    assert plain[0] == 0
    assert plain[1] != info("attention-pool", "--json", *option)[1]


def test_an_unknown_setting_of_the_recipe_is_refused(info: Any) -> None:
    code, _, err = info("attention-pool", "--set", "model.widht=8")
    assert code == 1
    assert "PatchAttention has no setting 'widht' (did you mean 'width'?)" in err


@pytest.mark.parametrize(("kind", "model"), [("tag", "BERTFor"), ("iris", "TinyIris")])
def test_a_run_of_texts_or_a_table(info: Any, kind: str, model: str, tmp_path: Path) -> None:
    untrained(tmp_path, kind)
    code, out, _ = info(str(tmp_path), "--json")
    answer = json.loads(out)
    assert (code, answer["model"]) == (0, model)
    assert answer["recipe"]["task"]["kind"] == ("tag" if kind == "tag" else "classify")
    assert info(str(tmp_path))[1].splitlines()[1].split() == ["model", model]
    code, out, err = info(str(tmp_path), "--c")
    if kind == "iris":
        assert (code, out) == (0, source_of(RunFolder(tmp_path).recipe().model, 1))
    else:
        assert (code, err) == (0, "")
        assert "embedding_forward(" in out


def test_a_mesh_needs_no_devices(info: Any) -> None:
    code, out, _ = info("gpt-nano", "--mesh", "data=64,model=2", "--batch", "64", "--set", "text.vocabulary=512")
    assert code == 0
    assert re.search(r"blocks\.\*\.attn\.w_o +A C +128x128 +A on model +4 +131,072\n", out)
    assert "mesh data=64,model=2: 128 devices" in out
    assert re.search(r"data +gradients, reduced +[\d,]+\n", out)
    twice = info("gpt-nano", "--mesh", "data=2", "--set", "training.accumulate=2")[1]
    assert "an update of 2 x 12 samples" in twice
    about = json.loads(
        info("gpt-nano", "--mesh", "fsdp=4", "--json", "--set", "text.vocabulary=512")[1].splitlines()[-1]
    )
    assert about["devices"] == 4
    assert about["rows"][0] == {
        "name": "embed.emb",
        "axes": "V C",
        "shape": [512, 128],
        "on": [None, "fsdp"],
        "times": 1,
        "bytes": 65536,
    }
    assert about["sent"] == sum(one["bytes"] for one in about["traffic"])


def test_a_mesh_of_a_llama(info: Any) -> None:
    """Heads of keys are split as heads of queries are; nine do not divide by two."""
    code, out, _ = info("llama-nano", "--mesh", "data=4,model=2", "--batch", "8", "--set", "text.vocabulary=512")
    assert code == 0
    assert re.search(r"blocks\.\*\.attn\.w_k +C E +128x64 +E on model +4 +65,536\n", out)
    assert re.search(r"blocks\.\*\.ff\.w_gate +C F +128x392 +F on model +4 +401,408\n", out)
    assert "does not divide" not in out
    code, out, _ = info("smollm-135m", "--mesh", "fsdp=4,model=2", "--set", "depth=1")
    assert re.search(r"embed\.emb +V C +49152x576 +V on model, C on fsdp +1 +14,155,776\n", out)
    assert "whole on every device: blocks.*.attn.w_q over model, blocks.*.attn.w_k over model" in out


def test_a_mesh_of_nothing_is_wrong_usage(info: Any) -> None:
    code, _, complaint = info("--mesh", "data=2")
    assert code == 2
    assert "a mesh is about a model" in complaint
    code, _, complaint = info("gpt-nano", "--mesh", "modle=2")
    assert code == 1
    assert "did you mean 'model'?" in complaint
