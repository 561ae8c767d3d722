"""An imported model as a run folder, from which everything else starts: predict, generate, attend, train --start."""

from pathlib import Path

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import FileError
from glassformer.hub.folder import Imported
from glassformer.models import GPT, T5, BERTFor, MaskedHead, SpanHead, TagHead
from glassformer.models.model import Network
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Classify, Masked, NextToken, Span, Tag, Task, Translate


def write_run(path: Path, found: Imported) -> None:
    for name in "recipe.toml", "model.safetensors":
        if (path / name).exists():
            raise FileError(f"{path}: holds {name} already; choose another folder with --out, or remove it")
    folder = RunFolder(path)
    recipe = Recipe(model=found.model, task=task_of(found.model), data="")
    if found.tokeniser_json is not None:
        folder.save_tokeniser(Tokeniser.from_json(found.tokeniser_json, "tokenizer.json"))
    folder.save_model(recipe, found.params, found.classes, epoch=0)
    folder.create(recipe)


def task_of(model: Network) -> Task:
    """What the model was trained to do."""
    if isinstance(model, GPT):
        return NextToken()
    if isinstance(model, T5):
        return Translate()
    if isinstance(model, BERTFor):
        heads: dict[type, Task] = {MaskedHead: Masked(), TagHead: Tag(), SpanHead: Span()}
        return heads.get(type(model.head), Classify())
    return Classify()
