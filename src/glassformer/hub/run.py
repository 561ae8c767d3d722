"""An imported model as a run folder, from which everything else starts: predict, generate, attend, train --start."""

from pathlib import Path

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import FileError
from glassformer.hub.format import Imported
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import TASKS


def write_run(path: Path, found: Imported) -> None:
    for name in "recipe.toml", "model.safetensors":
        if (path / name).exists():
            raise FileError(f"{path}: holds {name} already; choose another folder with --out, or remove it")
    folder = RunFolder(path)
    recipe = Recipe(model=found.model, task=TASKS[found.model.tasks[0]](), data="")
    if found.tokeniser_json is not None:
        folder.save_tokeniser(Tokeniser.from_json(found.tokeniser_json, "tokenizer.json"))
    folder.save_model(recipe, found.params, found.classes, epoch=0)
    folder.create(recipe)
