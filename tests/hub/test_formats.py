"""The table of published formats: a further one needs nothing but its own FORMAT in it."""

from pathlib import Path

import jax
import numpy as np
import pytest
from glassformer.train.run import load

from glassformer.hub import formats
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.format import Folder, Format, Given, Imported
from glassformer.hub.run import write_run
from glassformer.hub.tensors import linear, to_ours, to_theirs
from glassformer.models import MLP, Images
from glassformer.names import recording, visiting
from glassformer.train.tasks import Classify

from .builders import MODELS, drawn

TABLE = [*linear("up", "layers.0.w", "layers.0.b"), *linear("down", "layers.1.w", "layers.1.b")]


def read(folder: Folder) -> Imported:
    rows, columns = folder.config["image_size"]
    model = MLP(Images((rows, columns, 1), classes=folder.config["num_labels"]), hidden=(folder.config["hidden_size"],))
    return Imported(model, to_ours(TABLE, folder.tensors, model), [])


OWN = Format(
    model_type="mlp",
    model=MLP,
    architecture="MLPForImageClassification",
    read=read,
    write=lambda model, params, classes: (
        {
            "model_type": "mlp",
            "image_size": model.images.shape[:2],
            "num_labels": model.images.classes,
            "hidden_size": model.hidden[0],
        },
        to_theirs(TABLE, params),
    ),
    draw=lambda model, rng: Given(None, {}),
    states=lambda model: [],
    files=lambda model, config: {"beside.json": {"hidden": config["hidden_size"]}},
)


def test_a_further_format_is_one_line_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(formats.FORMATS, "mlp", OWN)
    model = MLP(Images((4, 3, 1), classes=5), hidden=(7,))
    params = drawn(model)
    write_folder(tmp_path / "theirs", model, params)
    assert (tmp_path / "theirs/beside.json").read_text() == '{\n  "hidden": 7\n}\n'
    found = read_folder(tmp_path / "theirs")
    assert (found.model, found.notes, found.tokeniser_json) == (model, [], None)
    jax.tree.map(np.testing.assert_array_equal, found.params, params)
    write_run(tmp_path / "run", found)
    run = load(tmp_path / "run")
    assert (run.model, run.recipe.task) == (model, Classify())


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_has_the_format_that_its_config_names(kind: str) -> None:
    model = MODELS[kind]
    config, _ = formats.format_of(model).write(model, drawn(model), ())
    assert formats.format_named(config) is formats.format_of(model)


@pytest.mark.parametrize("kind", MODELS)
def test_the_values_that_are_compared_are_there(kind: str) -> None:
    """One for each of their hidden_states: into the first block, out of each."""
    model, seen = MODELS[kind], {}
    known = formats.format_of(model)
    given = known.draw(model, np.random.default_rng(0))
    with visiting(recording(seen)):
        jax.eval_shape(
            lambda params, x, keywords: model.forward(params, x, **keywords)[0],
            drawn(model),
            given.ours,
            given.keywords,
        )
    assert set(known.states(model)) <= set(seen)
