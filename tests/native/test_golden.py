"""The C written for a model, byte for byte: golden/NAME.c.

Where it is meant to change, `python tests/native/test_golden.py` writes the files anew: their difference is to be read
before it is committed.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from glassformer.models import MLP, Network, PatchAttention, PatchBlock, ViT
from glassformer.models.patch_block import Bare, Normed, NormedResidual, WithResidual
from glassformer.native.write import source_of

GOLDEN = Path(__file__).with_name("golden")


class Case(NamedTuple):
    model: Network
    samples: int = 1
    rewrites: bool = True

    def source(self) -> str:
        return source_of(self.model, self.samples, rewrites=self.rewrites)


WITH_HEADS: dict[str, Any] = {"heads": 4, "output": True}
CASES = {
    "vit": Case(ViT()),
    "vit-deep": Case(ViT(depth=4, hidden=256)),
    "vit-class-token": Case(ViT(with_class_token=True)),
    "patch-attention": Case(PatchAttention()),
    "patch-attention-as-written": Case(PatchAttention(), rewrites=False),
    "patch-attention-64": Case(PatchAttention(width=64, hidden=128)),
    "patch-block-bare": Case(PatchBlock(block=Bare())),
    "patch-block-bare-heads": Case(PatchBlock(block=Bare(), **WITH_HEADS)),
    "patch-block-residual": Case(PatchBlock(block=WithResidual())),
    "patch-block-residual-heads": Case(PatchBlock(block=WithResidual(), **WITH_HEADS)),
    "patch-block-normed": Case(PatchBlock(block=Normed())),
    "patch-block-normed-heads": Case(PatchBlock(block=Normed(), **WITH_HEADS)),
    "patch-block-normed-residual": Case(PatchBlock(block=NormedResidual())),
    "patch-block-normed-residual-heads": Case(PatchBlock(block=NormedResidual(), **WITH_HEADS)),
    "mlp": Case(MLP(), samples=16),
    "mlp-two-hidden": Case(MLP(hidden=(32, 16)), samples=16),
}


def path_of(name: str) -> Path:
    return GOLDEN / f"{name}.c"


@pytest.mark.parametrize("name", CASES)
def test_c_is_what_it_was(name: str) -> None:
    assert CASES[name].source() == path_of(name).read_text()


def test_every_golden_file_has_its_case() -> None:
    assert sorted(GOLDEN.glob("*.c")) == sorted(map(path_of, CASES))


if __name__ == "__main__":
    for name, case in CASES.items():
        path_of(name).write_text(case.source())
