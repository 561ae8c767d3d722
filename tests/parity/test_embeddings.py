"""An encoder's folder in the layout of sentence-transformers gives the vectors that torch computes of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import transformers

from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.parity import compare
from glassformer.hub.run import write_run
from glassformer.predict.run import load

from .hugging_face import drawn

pytestmark = pytest.mark.slow

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", ",", "dog", "##s", "ran"]
RAGGED = [
    "the cat sat on the mat",
    "dogs",
    "a dog ran",
    "the cats, the dogs, a mat, a cat, a dog sat on",
    "mat",
    "cat Zebra",
]
SIZES: dict[str, Any] = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 17, "num_hidden_layers": 2}
FLAGS = ("pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens")


def pooled_mean(states: Any, mask: Any) -> Any:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def pooled_first(states: Any, mask: Any) -> Any:
    return states[:, 0]


@pytest.mark.parametrize(
    ("flag", "pool", "normalise"),
    [(FLAGS[1], pooled_mean, True), (FLAGS[1], pooled_mean, False), (FLAGS[0], pooled_first, True)],
)
def test_vectors_are_those_of_torch(flag: str, pool: Callable[..., Any], normalise: bool, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **SIZES)
    theirs = drawn(transformers.BertModel(config), "float32")
    theirs.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokeniser = transformers.BertTokenizer(str(folder / "vocab.txt"))
    tokeniser.save_pretrained(folder)
    steps = ["Transformer", "Pooling", *["Normalize"][: int(normalise)]]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{step}"}
        for i, (path, step) in enumerate(zip(paths, steps, strict=False))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 12, **{name: name == flag for name in FLAGS}}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": false}')

    found = read_folder(folder)
    assert all(row.relative < 1e-4 for row in compare(folder, found))
    write_run(tmp_path / "run", found)
    run = load(tmp_path / "run")
    inputs = tokeniser(RAGGED, padding=True, return_tensors="pt")
    assert len(set(inputs["attention_mask"].sum(1).tolist())) > 3
    with torch.no_grad():
        expected = pool(theirs(**inputs).last_hidden_state, inputs["attention_mask"])
        expected = torch.nn.functional.normalize(expected) if normalise else expected
    np.testing.assert_allclose(run.embed(RAGGED), expected.numpy(), atol=1e-5)

    write_folder(tmp_path / "ours", run.model, run.params)
    again = transformers.BertModel.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        same = pool(again(**inputs).last_hidden_state, inputs["attention_mask"])
        same = torch.nn.functional.normalize(same) if normalise else same
    assert torch.equal(same, expected)
