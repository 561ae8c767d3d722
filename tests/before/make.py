"""How the run folders beside this file were made: once, at the commit before `structure`, and never again.

Each is a run of two epochs that was stopped after its first, or within its second, with what the code of that day said
about it in expected.json. What later code makes of them is compared in test_before.py: to make them anew would prove
nothing. At that commit it ran as `python -m tests.before.make`.
"""

import json
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import glassformer
from glassformer.train import loop
from glassformer.train.loop import InterruptedRunError, Listener
from glassformer.train.run_folder import Row

from ..test_before import BEFORE, EXPECTED, measured, opened, resumed

IMAGES = {"training__subset": 96, "training__batch": 16, "validation__share": 0.0, "engine__threads": 1}
TEXTS = {"training__subset": 96, "training__batch": 16, "validation__share": 0.0, "engine__name": "jax"}
STREAM = {"training__subset": 1600, "training__samples": 64, "training__batch": 16, "validation__share": 0.0}
SMALL = {"model__width": 8, "model__hidden": 16, "model__depth": 1}
BERT = {**TEXTS, **SMALL, "model__heads": 2}
PLAIN = {  # Adam would make steps of full length of the rounding of a gradient that is zero: that of the keys' bias
    "optimiser": {"name": "momentum", "lr": 0.05, "clip": 1.0, "schedule": {"kind": "cosine"}}
}

RUNS: dict[str, tuple[str, dict[str, Any]]] = {  # name: preset, settings
    "mlp": ("mlp", {**IMAGES, "model__hidden": (8,), "validation__share": 0.1, "engine__name": "native"}),
    "patch-attention": ("attention-pool", {**IMAGES, "model__width": 8, "model__hidden": 16, "engine__name": "native"}),
    "patch-block": (
        "attention-pool-adamw",
        {
            **IMAGES,
            "model": {
                "kind": "patch_block",
                "width": 8,
                "hidden": 16,
                "heads": 2,
                "output": True,
                "block": "normed-residual",
            },
            "engine__name": "jax",
        },
    ),
    "vit": ("vit-pico", {**IMAGES, "model__width": 8, "model__hidden": 16, "engine__name": "native"}),
    "vit-class-token": (
        "vit-pico",
        {**IMAGES, **SMALL, "model__with_class_token": True, "training__shift": 0, "engine__name": "jax"},
    ),
    "tiny-iris": ("iris", {"engine__name": "jax"}),
    "gpt": ("gpt-nano", {**STREAM, **SMALL, "model__heads": 2, "model__text__context": 16, **PLAIN}),
    "bert-masked": ("bert-nano", {**BERT, **PLAIN, "data": "pydoc", "model__text__context": 16}),
    "bert-classify": ("bert-nano", {**BERT, **PLAIN, "data": "places", "task": "classify", "model__dropout": 0.1}),
    "bert-tag": ("bert-nano", {**BERT, **PLAIN, "task": "tag"}),
    "bert-span": ("bert-nano", {**BERT, **PLAIN, "task": {"kind": "span", "part": "year"}}),
    "t5": ("t5-nano", {**TEXTS, **SMALL, "model__heads": 2, "model__head_width": 4, "model__buckets": 8}),
    "lstm": ("lstm-nano", {**STREAM, **SMALL, "model__text__context": 16}),
    "recurrent-classifier": (
        "lstm-nano",
        {
            **TEXTS,
            "training__samples": 0,
            "data": "places",
            "task": "classify",
            "model": {
                "kind": "recurrent-classifier",
                "cell": "gru",
                "width": 8,
                "hidden": 8,
                "depth": 1,
                "text": {"context": 64},
            },
        },
    ),
}
WITHIN = "tiny-iris"  # stopped after three steps of its second epoch; the others after their first


class Stop(Listener):
    def __init__(self, within: bool) -> None:
        self.within, self.stop = within, False

    def epoch(self, row: Row) -> None:
        self.stop = not self.within

    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None:
        self.stop |= self.within and (epoch, step) == (2, 3)

    def interrupted(self) -> bool:
        return self.stop


def make(name: str) -> dict[str, Any]:
    """One folder, and what is expected of it."""
    preset, settings = RUNS[name]
    loop.CHUNK_SECONDS = 0.0 if name == WITHIN else 0.5  # one step at a time
    try:
        glassformer.fit(preset, out=BEFORE / name, training__epochs=2, listener=Stop(name == WITHIN), **settings)
    except InterruptedRunError as error:
        print(error)
    run, data = opened(name)
    with tempfile.TemporaryDirectory() as folder:
        return {"kept": measured(run, data), "resumed": resumed(BEFORE / name, Path(folder) / name, data)}


if __name__ == "__main__":
    for name in RUNS:
        shutil.rmtree(BEFORE / name, ignore_errors=True)
    versions = {"python": platform.python_version(), "babel": version("babel")}
    expected = {"versions": versions, "runs": {name: make(name) for name in RUNS}}
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")
