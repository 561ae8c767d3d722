"""The layout of sentence-transformers: what is kept of it, and what is said of one that is damaged or asks for more."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import CheckpointError, GlassformerError, SettingError
from glassformer.hub import pooling
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.run import write_run
from glassformer.models import BERTFor, VectorHead
from glassformer.models.bert import TaskParams
from glassformer.predict.run import load
from glassformer.train.tasks import Contrast, Embed

from .builders import MODELS, build, write_json

MEAN = {"word_embedding_dimension": 6, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
STEPS = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}


def layout(path: Path, steps: Any = ("Transformer", "Pooling", "Normalize"), how: Any = MEAN, **files: Any) -> Path:
    path.mkdir(exist_ok=True)
    if isinstance(steps, tuple):
        steps = [{"type": f"sentence_transformers.models.{one}", "path": STEPS.get(one, one)} for one in steps]
    write_json(path / "modules.json", steps)
    if how is not None:
        (path / "1_Pooling").mkdir(exist_ok=True)
        write_json(path / "1_Pooling/config.json", how)
    for name, content in files.items():
        write_json(path / f"{name}.json", content)
    return path


def test_it_is_kept_with_the_run(tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs", "masked")  # whatever head there is, the layout asks for none
    layout(folder, how={"pooling_mode": "cls"}, sentence_bert_config={"max_seq_length": 7, "do_lower_case": True})
    found = read_folder(folder)
    assert found.model == MODELS["masked"].bert
    assert found.notes[1] == "do_lower_case: the case of letters is left to the tokeniser"
    write_run(tmp_path / "run", found)
    run = load(tmp_path / "run")
    assert run.recipe.task == Embed("first", normalise=True, longest=7)
    for task in (run.recipe.task, Embed("mean")):
        out = tmp_path / f"out-{task}"
        write_folder(out, run.model, run.params, task=task)
        again = read_folder(out)
        assert (again.model, again.task) == (run.model, task)
    assert read_folder(folder, architecture="BertForMaskedLM").task is None


def test_a_run_of_contrast_goes_out_as_an_encoder(tmp_path: Path) -> None:
    """Its head has no tensors: the files say how to pool, and that vectors have a length of 1."""
    found = read_folder(layout(build(tmp_path / "theirs", "masked")))
    for by in ("mean", "first"):
        model = BERTFor(found.model, VectorHead()).pooled(by)
        task = Contrast(pooling=by, longest=7)  # pyright: ignore[reportArgumentType]
        write_folder(tmp_path / by, model, TaskParams(bert=found.params, head=None), task=task)
        again = read_folder(tmp_path / by)
        assert (again.model, again.task) == (found.model, Embed(by, normalise=True, longest=7))  # pyright: ignore[reportArgumentType]
        jax.tree.map(np.testing.assert_array_equal, again.params, found.params)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, pooling.Layout("mean", normalise=True, width=6)),
        ({"steps": ("Transformer", "Pooling")}, pooling.Layout("mean", width=6)),
        ({"steps": ("Transformer",)}, pooling.Layout("mean")),
        (
            {"how": MEAN | {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}},
            pooling.Layout("first", True, 0, 6),
        ),
        ({"sentence_bert_config": {"max_seq_length": None}}, pooling.Layout("mean", True, 0, 6)),
        (
            {"config_sentence_transformers": {"prompts": {"q": "find: "}, "default_prompt_name": "q"}},
            pooling.Layout(
                "mean", True, 0, 6, ["every text begins with 'find: ' there, and not here: write it yourself"]
            ),
        ),
    ],
)
def test_what_is_read(changes: Any, expected: pooling.Layout, tmp_path: Path) -> None:
    assert pooling.read_layout(layout(tmp_path, **changes)) == expected


def test_a_pooling_file_alone_and_none(tmp_path: Path) -> None:
    assert pooling.read_layout(tmp_path) is None
    layout(tmp_path)
    (tmp_path / "modules.json").unlink()
    assert pooling.read_layout(tmp_path) == pooling.Layout("mean", width=6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"how": MEAN | {"pooling_mode_max_tokens": True}},
            "pooling_mode_max_tokens came, which is not supported; mean",
        ),
        ({"how": {"pooling_mode_weightedmean_tokens": True}}, "pooling_mode_weightedmean_tokens came, which is not"),
        ({"how": {"pooling_mode": "max"}}, "pooling_mode: 'max' came, which is not supported"),
        ({"how": {"pooling_mode": ["mean"]}}, r"pooling_mode: \['mean'\] came"),
        ({"how": MEAN | {"pooling_mode_mean_tokens": False}}, r"no pooling_mode_… is true"),
        ({"how": {}}, r"1_Pooling.config\.json: no pooling_mode_… is true"),
        (
            {"how": MEAN | {"pooling_mode_mean_tokens": "yes"}},
            "pooling_mode_mean_tokens: 'yes' came, expected true or false",
        ),
        ({"how": MEAN | {"word_embedding_dimension": -1}}, "word_embedding_dimension: -1 came"),
        ({"how": [1]}, r"1_Pooling.config\.json: \[1\] came, expected settings by name"),
        ({"how": None}, r"1_Pooling.config\.json: is missing, and modules\.json names it"),
        ({"steps": {}}, r"modules\.json: {} came, expected a list of steps"),
        ({"steps": []}, r"modules\.json: the steps '' came, supported: Transformer"),
        ({"steps": [3]}, "3 came as a step, expected"),
        ({"steps": [{"type": "Pooling"}]}, "came as a step, expected"),
        ({"steps": ("Transformer", "Pooling", "Dense", "Normalize")}, "'Transformer, Pooling, Dense, Normalize' came"),
        (
            {"steps": [{"type": "a.Transformer", "path": "0_T"}]},
            "the Transformer lies in '0_T', expected the folder itself",
        ),
        (
            {"steps": [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "../x"}]},
            r"'\.\./x' came as the name",
        ),
        ({"sentence_bert_config": {"max_seq_length": "9"}}, "max_seq_length: '9' came"),
        ({"sentence_bert_config": {"max_seq_length": 0}}, "max_seq_length: 0 came"),
        (
            {"config_sentence_transformers": {"prompts": 3, "default_prompt_name": "q"}},
            "prompts has no text of that name",
        ),
        ({"config_sentence_transformers": {"default_prompt_name": 3}}, "default_prompt_name: 3 came, expected a word"),
    ],
)
def test_what_is_refused(changes: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=message) as raised:
        pooling.read_layout(layout(tmp_path, **changes))
    assert isinstance(raised.value, CheckpointError | SettingError)
    assert str(raised.value).startswith(str(tmp_path))


def test_it_belongs_to_the_model_and_stays_in_the_folder(tmp_path: Path) -> None:
    folder = layout(build(tmp_path / "wide", "masked"), how=MEAN | {"word_embedding_dimension": 8})
    with pytest.raises(CheckpointError, match="vectors of 8 numbers, and the model gives 6"):
        read_folder(folder)
    outside = layout(tmp_path / "outside")
    folder = layout(tmp_path / "linked", how=None)
    (folder / "1_Pooling").symlink_to(outside / "1_Pooling")
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        pooling.read_layout(folder)


def test_the_cache_of_downloads(tmp_path: Path) -> None:
    """Its files are links into blobs/, those of a folder inside as well."""
    snapshot = layout(tmp_path / "made")
    (tmp_path / "hub/snapshots").mkdir(parents=True)
    (tmp_path / "hub/blobs").mkdir()
    snapshot = snapshot.rename(tmp_path / "hub/snapshots/abc")
    for i, file in enumerate([snapshot / "modules.json", snapshot / "1_Pooling/config.json"]):
        file.symlink_to(file.rename(tmp_path / f"hub/blobs/{i}"))
    assert pooling.read_layout(snapshot) == pooling.Layout("mean", normalise=True, width=6)
