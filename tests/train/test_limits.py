"""Models and batches too large for this machine are refused with the figure, before anything is built."""

import time
from pathlib import Path

import numpy as np
import pytest

from glassformer import memory
from glassformer.data import make_dataset
from glassformer.data.dataset import Samples
from glassformer.errors import SettingError
from glassformer.models import GPT, MLP, T5, ViT
from glassformer.models.columns import Columns
from glassformer.models.images import Images
from glassformer.models.limits import MOST_BLOCKS
from glassformer.models.text import Text
from glassformer.models.tiny_iris import TinyIris
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.recipe import Recipe, Training, Validation
from glassformer.train.resolve import resolved
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import from_plain, with_changes

IMAGES, LABELS = np.zeros((40, 28, 28), np.uint8), np.arange(40) % 10
DATA = make_dataset("small", Samples(IMAGES, LABELS), Samples(IMAGES, LABELS))
DEEP = '[model]\nkind = "{}"\ndepth = 2000000\n'


@pytest.mark.parametrize("kind", ["vit", "gpt", "bert", "t5", "recurrent", "recurrent-classifier"])
def test_a_run_folder_with_an_endless_model(kind: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(DEEP.format(kind))
    start = time.process_time()
    with pytest.raises(SettingError, match=r"\d,000,000 blocks one after another came, expected 1,024 or fewer"):
        RunFolder(tmp_path).recipe()
    assert time.process_time() - start < 5


def test_blocks_are_counted_together() -> None:
    with pytest.raises(SettingError, match=r"^T5: 1,200 blocks"):
        T5(depth=600, decoder_depth=600)
    with pytest.raises(SettingError, match=r"^MLP: 200,000 blocks"):
        MLP(hidden=(1,) * 200_000)
    with pytest.raises(SettingError, match="ViT: 2,000,000 blocks"):
        with_changes(Recipe(), ["model.depth=2000000"])
    assert GPT(depth=MOST_BLOCKS)
    assert TinyIris(columns=Columns(mean=(0.0,) * 2000, std=(1.0,) * 2000))  # no blocks, and as many as there are


@pytest.mark.parametrize("name", ["width", "hidden", "heads", "images.classes"])
def test_sizes_that_nothing_can_count(name: str) -> None:
    with pytest.raises(SettingError, match=f"ViT: {name} is 1,099,511,627,776, expected 2,147,483,647 or less"):
        with_changes(ViT(), [f"{name}={1 << 40}"])
    with pytest.raises(SettingError, match=r"MLP: images\.shape\[1\] is"):
        MLP(images=Images(shape=(28, 1 << 31, 1)))
    with pytest.raises(SettingError, match=r"GPT: text\.context is"):
        GPT(text=Text(context=1 << 31))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            ViT(width=1 << 24, hidden=1 << 24),
            r"ViT has [\d,]{16,} parameters, which with .* takes [\d,.]+ GiB of memory",
        ),
        (MLP(hidden=((1 << 31) - 1,) * 2), r"MLP has [\d,]{16,} parameters"),
    ],
)
def test_weights_that_do_not_fit(model: ViT | MLP, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        resolved(Recipe(model=model), DATA)


@pytest.mark.parametrize("batch", [41, 200_000_000, (1 << 31) - 1])
def test_a_batch_has_no_more_samples_than_there_are(batch: int) -> None:
    assert resolved(Recipe(training=Training(batch=batch)), DATA).training.batch == 36
    everything = Recipe(training=Training(batch=batch, samples=7), validation=Validation(share=0))
    assert resolved(everything, DATA).training.batch == 7
    assert resolved(Recipe(training=Training(batch=35)), DATA).training.batch == 35


def test_a_batch_that_nothing_can_count() -> None:
    with pytest.raises(SettingError, match=r"training: batch is 9,223,372,036,854,775,807, expected less than 2\^31"):
        from_plain(Recipe, {"training": {"batch": (1 << 63) - 1}})


def test_a_step_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What backward reads counts for each sample, and for each seed."""
    recipe = resolved(Recipe(training=Training(batch=36)), DATA)
    monkeypatch.setattr(memory, "available", lambda: 12 << 20)
    JaxEngine(recipe, DATA.train, (1,))
    with pytest.raises(SettingError, match=r"training: a batch of 36 for each of 4 seeds takes [\d.]+ MiB of memory"):
        JaxEngine(recipe, DATA.train, (1, 2, 3, 4))
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(SettingError, match=r"a batch of 36 takes .* and 1\.0 MiB are free; make it smaller"):
        JaxEngine(recipe, DATA.train, (1,))
