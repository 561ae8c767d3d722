"""Folders that transformers writes are read here, folders written here are loaded there: same answers, same bits."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch
import transformers
from safetensors.torch import load_file, save_file

from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.hub import bert, gpt2, t5
from glassformer.hub.folder import read_folder, write_folder
from glassformer.hub.parity import compare
from glassformer.hub.tokeniser_files import read_tokeniser
from glassformer.layers import ReLU
from glassformer.models import GPT, T5, BERTFor, Llama, MaskedHead, Text, ViT
from glassformer.models.t5 import Inputs

from .hugging_face import drawn

pytestmark = pytest.mark.slow

VOCABULARY, CONTEXT, BATCH, TOKENS = 23, 13, 3, 11
NAMES = {0: "cat", 1: "dog", 2: "Löwe, der"}
BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
}
GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_positions": CONTEXT,
    "n_embd": 12,
    "n_head": 3,
    "n_layer": 2,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
T5_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 10,
    "num_heads": 2,
    "d_kv": 3,
    "d_ff": 7,
    "num_layers": 2,
}
V1_1: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
VIT: dict[str, Any] = {
    "image_size": [12, 8],
    "patch_size": 4,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "id2label": NAMES,
}
THEIRS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", transformers.GPT2Config, GPT2),
    "gpt2, own head": ("GPT2LMHeadModel", transformers.GPT2Config, GPT2 | {"tie_word_embeddings": False}),
    "bert, classes": (bert.CLASSES, transformers.BertConfig, BERT | {"id2label": NAMES}),
    "bert, tags": (bert.TAGS, transformers.BertConfig, BERT | {"id2label": NAMES}),
    "bert, spans": (bert.SPANS, transformers.BertConfig, BERT),
    "bert, masked": (bert.MASKED, transformers.BertConfig, BERT),
    "bert, masked, own decoder": (bert.MASKED, transformers.BertConfig, BERT | {"tie_word_embeddings": False}),
    "bert, next sentence": (bert.NEXT, transformers.BertConfig, BERT),
    "t5": ("T5ForConditionalGeneration", transformers.T5Config, T5_SIZES),
    "t5, v1.1": ("T5ForConditionalGeneration", transformers.T5Config, T5_SIZES | V1_1),
    "vit": ("ViTForImageClassification", transformers.ViTConfig, VIT),
}
CLASSES = {
    "bert, classes": NAMES,
    "bert, tags": NAMES,
    "bert, next sentence": dict(enumerate(bert.NEXT_CLASSES)),
    "vit": NAMES,
}
EXACT = {  # what our forward has no use for, and their model draws anew
    "bert, masked, own decoder": {"cls.predictions.bias"},
}


def theirs_for(name: str) -> Any:
    architecture, config, sizes = THEIRS[name]
    theirs = getattr(transformers, architecture)(config(**sizes))
    if name == "t5, v1.1":  # as loaded from a file of v1.1; without one, theirs ties it
        theirs.lm_head.weight = torch.nn.Parameter(torch.empty(VOCABULARY, T5_SIZES["d_model"]))
    theirs = drawn(theirs, "float32")
    with torch.no_grad():
        next(iter(theirs.parameters())).view(-1)[:2] = torch.tensor([1e-42, -0.0])  # bits that sums would lose
    return theirs


def answers(theirs: Any, model: Any, params: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of both, to the same drawn input."""
    draw = np.random.default_rng(0)
    with torch.no_grad():
        if isinstance(model, ViT):
            pixels = draw.integers(256, size=(BATCH, *model.images.shape), dtype=np.uint8)
            expected = theirs(torch.tensor(pixels / 255, dtype=torch.float32).permute(0, 3, 1, 2)).logits
            return np.asarray(model.forward(params, jnp.asarray(pixels))[0]), expected.numpy()
        ids = draw.integers(VOCABULARY, size=(BATCH, TOKENS))
        if isinstance(model, T5):
            expected = theirs(torch.tensor(ids), decoder_input_ids=torch.tensor(ids[:, :5])).logits
            given = Inputs(source=jnp.asarray(ids), target=jnp.asarray(ids[:, :5]))
            return np.asarray(model.forward(params, given)[0]), expected.numpy()
        answer = theirs(torch.tensor(ids))
        expected = answer.logits if "logits" in answer else torch.stack([answer.start_logits, answer.end_logits], dim=1)
        return np.asarray(model.forward(params, jnp.asarray(ids))[0]), expected.numpy()


@pytest.mark.parametrize("name", THEIRS)
def test_from_theirs_and_back(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name)
    theirs.save_pretrained(tmp_path / "theirs")
    found = read_folder(tmp_path / "theirs")
    assert found.classes == tuple(CLASSES.get(name, {}).values())
    ours, expected = answers(theirs, found.model, found.params)
    assert np.abs(ours - expected).max() < 1e-4 * np.abs(expected).max()

    write_folder(tmp_path / "ours", found.model, found.params, classes=found.classes)
    again, about = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert about["unexpected_keys"] == set()
    assert about["missing_keys"] == EXACT.get(name, set())
    assert json.loads((tmp_path / "ours/config.json").read_text())["architectures"] == [THEIRS[name][0]]
    for key, value in theirs.state_dict().items():
        if key not in EXACT.get(name, set()):
            assert same_bits(again.state_dict()[key], value), key
    if name not in EXACT:
        written, expected_file = (load_file(tmp_path / side / "model.safetensors") for side in ("ours", "theirs"))
        assert set(written) == set(expected_file)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("name", ["gpt2", "bert, masked", "t5", "vit"])
def test_in_several_files(name: str, tmp_path: Path) -> None:
    theirs = theirs_for(name)
    theirs.save_pretrained(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    whole, shards = read_folder(tmp_path / "whole"), read_folder(tmp_path / "shards")
    assert whole.model == shards.model
    jax.tree.map(np.testing.assert_array_equal, whole.params, shards.params)


@pytest.mark.parametrize(("kind", "word"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")])
def test_half_precision_is_widened(kind: torch.dtype, word: str, tmp_path: Path) -> None:
    theirs = theirs_for("gpt2").to(kind)
    theirs.save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    assert f"{word} in the file, float32 here" in found.notes
    ours = gpt2.to_tensors(found.model, found.params)
    for key, value in load_file(tmp_path / "model.safetensors").items():
        assert same_bits(torch.tensor(np.asarray(ours[key])), value.float()), key


def test_a_file_of_both_heads_of_pretraining(tmp_path: Path) -> None:
    theirs = drawn(transformers.BertForPreTraining(transformers.BertConfig(**BERT)), "float32")
    theirs.save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    (left,) = [note for note in found.notes if note.startswith("left out")]
    assert set(left.removeprefix("left out, of other heads: ").split(", ")) == {
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
    }
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    with torch.no_grad():
        answer = theirs(torch.tensor(ids))
    logits, _ = found.model.forward(found.params, jnp.asarray(ids))
    np.testing.assert_allclose(logits, answer.prediction_logits, rtol=1e-4, atol=1e-4)
    second = read_folder(tmp_path, architecture=bert.NEXT)  # the other head of the same file
    logits, _ = second.model.forward(second.params, jnp.asarray(ids))
    np.testing.assert_allclose(logits, answer.seq_relationship_logits, rtol=1e-4, atol=1e-4)


def test_names_as_they_were_of_old(tmp_path: Path) -> None:
    """The published bert-base-uncased says gamma and beta, names BertForMaskedLM and holds the other head as well."""
    theirs = drawn(transformers.BertForPreTraining(transformers.BertConfig(**BERT)), "float32")
    theirs.save_pretrained(tmp_path)
    read = read_folder(tmp_path)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(tmp_path / "model.safetensors").items()
    }
    assert any("gamma" in name for name in old)
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text()) | {"architectures": [bert.MASKED]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = read_folder(tmp_path)
    assert found.notes == read.notes
    jax.tree.map(np.testing.assert_array_equal, found.params, read.params)


def test_a_bare_model_takes_a_head(tmp_path: Path) -> None:
    theirs = drawn(transformers.BertModel(transformers.BertConfig(**BERT, id2label=NAMES)), "float32")
    theirs.save_pretrained(tmp_path)
    found = read_folder(tmp_path, architecture=bert.CLASSES)
    assert "new, to be trained before use: classifier.weight, classifier.bias" in found.notes
    assert found.classes == tuple(NAMES.values())
    ids = np.random.default_rng(0).integers(VOCABULARY, size=(BATCH, TOKENS))
    with torch.no_grad():
        pooled = theirs(torch.tensor(ids)).pooler_output
    new = found.params.head.classify
    logits, _ = found.model.forward(found.params, jnp.asarray(ids))
    np.testing.assert_allclose(logits, pooled.numpy() @ new.w + new.b, rtol=1e-4, atol=1e-4)
    masked = read_folder(tmp_path, architecture=bert.MASKED)
    assert any(note.startswith("new, to be trained before use: cls.predictions.transform") for note in masked.notes)


def test_the_spread_of_pixels_goes_along(tmp_path: Path) -> None:
    theirs = theirs_for("vit")
    theirs.save_pretrained(tmp_path / "theirs")
    given = {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": 12}
    (tmp_path / "theirs/preprocessor_config.json").write_text(json.dumps(given))
    found = read_folder(tmp_path / "theirs")
    assert (found.model.images.mean, found.model.images.std) == (0.5, 0.25)
    write_folder(tmp_path / "ours", found.model, found.params, classes=found.classes)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "ours")
    images = np.random.default_rng(0).integers(256, size=(BATCH, 12, 8, 3), dtype=np.uint8)
    pixels = processor(list(images), return_tensors="pt", input_data_format="channels_last")["pixel_values"]
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "ours")
    assert again.config.id2label == NAMES
    with torch.no_grad():
        expected = again(pixels).logits.numpy()
    logits, _ = found.model.forward(found.params, jnp.asarray(images))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


TEXTS = ["Hello, wörld! naïve café", "  two  spaces\nand lines 12345", "日本語 text", "", "it's <|endoftext|> done"]


def test_byte_pairs_in_two_files_are_put_together_as_theirs(tmp_path: Path) -> None:
    trained = BytePairs(300).train(TEXTS * 3)
    inner = json.loads(trained.to_json())["model"]
    numbers = {**inner["vocab"], "<|endoftext|>": len(inner["vocab"])}
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in inner["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    drawn(transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)), "float32").save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    assert found.tokeniser_json is not None
    ours = Tokeniser.from_json(found.tokeniser_json, "test")
    assert [ours.encode(text) for text in TEXTS] == [theirs(text)["input_ids"] for text in TEXTS]
    assert f"the tokeniser has {len(numbers) - VOCABULARY} symbols more than the model" in " ".join(found.notes)


def test_byte_pairs_of_roberta_are_framed_as_theirs(tmp_path: Path) -> None:
    inner = json.loads(BytePairs(300).train(TEXTS * 3).to_json())["model"]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words = [*special, *(word for word in inner["vocab"] if word not in (*special, "<start>", "<end>"))]
    (tmp_path / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in inner["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    ours = read_tokeniser(tmp_path)
    assert ours is not None
    for text in [*TEXTS[:4], "a <mask> b"]:
        assert ours.inner.encode(text).ids == theirs(text)["input_ids"]
    assert ours.inner.encode("Hello", "two").ids == theirs("Hello", "two")["input_ids"]
    assert [ours.id_of(role) for role in ("start", "pad", "end", "unknown", "mask")] == [0, 1, 2, 3, 4]


WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "hello",
    "Hello",
    "wor",
    "##ld",
    "naive",
    "naïve",
    "cafe",
    ",",
    "!",
    "日",
]


@pytest.mark.parametrize("config", [{}, {"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False}])
def test_pieces_of_words_are_put_together_as_theirs(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **config}))
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    drawn(transformers.BertForMaskedLM(transformers.BertConfig(**BERT)), "float32").save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    assert found.tokeniser_json is not None
    ours = Tokeniser.from_json(found.tokeniser_json, "test")
    for text in (*TEXTS, "Hello [MASK] naïve CAFÉ world日"):
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text
        assert ours.inner.encode(text).ids == theirs(text)["input_ids"], text


READER = BERTFor(bert.BERT(Text(40, 20), width=8, hidden=9, heads=2, depth=1), MaskedHead(8, 40))
WRITER = Llama(Text(40, 20), width=8, hidden=9, heads=2, key_heads=1, depth=1)
COUNTED = replace(READER, bert=replace(READER.bert, first_position=1))  # our tokenisers pad with 0
UNSEGMENTED = replace(READER, bert=replace(READER.bert, segments=0, pooler=ReLU()))
WRITERS = [
    ("llama", WRITER, lambda own, ids: ids),
    ("roberta", COUNTED, lambda own, ids: [own.id_of("start"), *ids, own.id_of("end")]),
    ("distilbert", UNSEGMENTED, lambda own, ids: [own.id_of("start"), *ids, own.id_of("end")]),
    ("gpt2", GPT(Text(40, 20), width=8, hidden=9, heads=2, depth=1), lambda own, ids: ids),
    ("bert", READER, lambda own, ids: [own.id_of("start"), *ids, own.id_of("end")]),
    (
        "t5",
        T5(Text(40, 20), width=8, hidden=9, heads=2, head_width=4, depth=1),
        lambda own, ids: [*ids, own.id_of("end")],
    ),
]


CAUSAL, MASKED = dict.fromkeys(("gpt2", "llama"), "AutoModelForCausalLM"), ("bert", "roberta", "distilbert")
AUTO = CAUSAL | dict.fromkeys(MASKED, "AutoModelForMaskedLM") | {"t5": "AutoModelForSeq2SeqLM"}


@pytest.mark.parametrize(("kind", "model", "framed"), WRITERS, ids=[kind for kind, _, _ in WRITERS])
def test_our_tokeniser_is_theirs(kind: str, model: Any, framed: Callable[..., list[int]], tmp_path: Path) -> None:
    own = Characters().train(["hello world", "abc xyz"], ("<de>",))
    write_folder(tmp_path, model, model.init(jax.random.key(0)), tokeniser_json=own.to_json())
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in "hello xyz", "<de> a<mask>b", "  Q":
        ids = own.encode(text)
        assert theirs(text)["input_ids"] == framed(own, ids), text
        assert theirs.decode(ids) == own.decode(ids), text
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.mask_token_id) == (0, 1, 4)
    start, end = (theirs.cls_token, theirs.sep_token) if kind in MASKED else (theirs.bos_token, theirs.eos_token)
    assert (start, end, theirs.model_max_length) == ("<start>", "<end>", 20)
    given = theirs(["hello xyz", "abc"], padding=True, return_tensors="pt")
    assert ("token_type_ids" in given) == (kind == "bert")  # GPT-2 would add them to the tokens, T5 refuse them
    again = read_folder(tmp_path)
    assert again.model == model
    auto: Any = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path)
    ids, keep = jnp.asarray(given["input_ids"].numpy()), jnp.asarray(given["attention_mask"].numpy() == 1)
    begun = {"decoder_input_ids": torch.tensor([[0, 5, 7]] * 2)} if kind == "t5" else {}
    with torch.no_grad():
        expected = auto(**given, **begun).logits.numpy()
    x = Inputs(ids, jnp.asarray([[0, 5, 7]] * 2)) if kind == "t5" else ids
    logits, _ = again.model.forward(again.params, x, keep=keep)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    assert again.tokeniser_json is not None
    assert Tokeniser.from_json(again.tokeniser_json, "test").encode("hello xyz") == own.encode("hello xyz")


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_what_they_go_on_writing_is_what_ours_would(kind: str, tmp_path: Path) -> None:
    """Greedy: at every place the best of our logits, given all before it."""
    own = Characters().train(["hello world", "abc xyz"])
    _, model, _ = next(writer for writer in WRITERS if writer[0] == kind)
    params = jax.tree.map(lambda leaf: leaf * 5, model.init(jax.random.key(2)))
    write_folder(tmp_path, model, params, tokeniser_json=own.to_json())
    theirs = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path)
    ids = own.encode("hello")
    with torch.no_grad():
        written = theirs.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=6)[0].tolist()
    before = [0] if kind == "t5" else ids
    assert written[: len(before)] == before
    assert len(written) > len(before)
    for i in range(len(before), len(written)):
        so_far = jnp.asarray([written[:i]])
        logits, _ = model.forward(params, so_far if kind == "gpt2" else Inputs(jnp.asarray([ids]), so_far))
        assert int(logits[0, -1].argmax()) == written[i]


@pytest.mark.parametrize("name", [*THEIRS, "bert, both heads", "bert, none"])
def test_compared_layer_by_layer(name: str, tmp_path: Path) -> None:
    special = {"bert, both heads": "BertForPreTraining", "bert, none": "BertModel"}
    if name in special:
        theirs = drawn(getattr(transformers, special[name])(transformers.BertConfig(**BERT)), "float32")
    else:
        theirs = theirs_for(name)
    theirs.save_pretrained(tmp_path)
    found = read_folder(tmp_path, architecture=bert.TAGS if name == "bert, none" else None)
    rows = compare(tmp_path, found)
    assert all(row.relative < 1e-4 for row in rows)
    assert len({row.name for row in rows}) == len(rows)
    assert len(rows) == (6 if name.startswith("t5") else 3) + (name != "bert, none")
    if name.startswith("t5"):
        broken = t5.from_tensors(found.model, {**t5.to_tensors(found.model, found.params)})
        broken = broken._replace(
            decoder=broken.decoder._replace(norm=jax.tree.map(lambda g: 1.01 * g, broken.decoder.norm))
        )
        wrong = [row.name for row in compare(tmp_path, replace(found, params=broken)) if row.relative > 1e-3]
        assert wrong == [rows[-2].name, rows[-1].name]
