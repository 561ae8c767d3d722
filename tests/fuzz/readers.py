"""Every reader of files or requests that anybody may have written, with inputs that are right."""

import gzip
import io
import json
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import GlassformerError

from .mutations import ANY, TEXT, Mutation, in_gzip, in_json, in_png, in_safetensors, in_zip

JSON = (*TEXT, in_json, in_json, in_json, in_json)
TENSORS = (*ANY, in_safetensors, in_safetensors, in_safetensors)


@dataclass(frozen=True)
class Reader:
    """What reads a folder, one file of which is put in another's place."""

    folder: str
    file: str
    read: Callable[[Path], Any]  # of the folder
    ways: tuple[Mutation, ...]
    seeds: str = ""  # files of `write_seeds` by pattern; nothing: the file itself
    share: int = 8  # of the inputs: those that take long have fewer
    needs: str = ""  # a package, without which it is left out


def plan(folder: Path) -> Any:
    from glassformer.lab.plan import load_plan

    return load_plan(folder / "plan.toml")


def recipe(folder: Path) -> Any:
    from glassformer.train.run_folder import RunFolder

    return RunFolder(folder).recipe_and_seeds()


def recipe_file(folder: Path) -> Any:
    from glassformer.train.presets import recipe_file
    from glassformer.train.settings import must_survive

    must_survive(found := recipe_file(folder / "recipe.toml"))
    return found


def settings(folder: Path) -> Any:
    from glassformer.train.settings import must_survive, with_changes

    text = (folder / "settings").read_bytes().decode(errors="surrogateescape")
    must_survive(found := with_changes(usual_recipe(), text.split("\n")))
    return found


@cache
def usual_recipe() -> Any:
    from glassformer.train.presets import preset

    return preset("vit-nano")


def results(folder: Path) -> Any:
    from glassformer.lab.record import Results

    return Results(folder).records


def study(folder: Path) -> Any:
    """What a study says by now."""
    from glassformer.lab.analysis import analyse
    from glassformer.lab.folder import plan_of
    from glassformer.lab.record import Results
    from glassformer.lab.report.as_json import as_json

    return as_json(analyse(plan_of(folder), Results(folder), [], ""))


def model(folder: Path) -> Any:
    from glassformer.train.weights import fill, load_arrays, must_be_finite

    arrays, _ = load_arrays(folder / "model.safetensors")
    params = fill(shapes_of(folder)[0], arrays, folder)
    must_be_finite(arrays, folder)
    return params


def state(folder: Path) -> Any:
    from glassformer.train.run_folder import RunFolder

    return RunFolder(folder).load_state(shapes_of(folder)[1])


@cache
def shapes_of(folder: Path) -> Any:
    """Of the weights and of the state, which the recipe says; it takes long."""
    import jax

    from glassformer.train.jax_engine import State
    from glassformer.train.run_folder import RunFolder

    recipe = RunFolder(folder).recipe()
    params = jax.eval_shape(recipe.model.init, jax.random.key(0))
    return params, State(params, jax.eval_shape(recipe.optimiser.transformation(3, 2).init, params))


def run(folder: Path) -> Any:
    """As predict, eval and the lens open it."""
    from glassformer.predict.run import load

    return load(folder)


def log(folder: Path) -> Any:
    from glassformer.lens.studio.runs import rows_of

    return rows_of(folder / "log.csv")


def row_of_the_studio(folder: Path) -> Any:
    """Whatever lies there, it is a row that can be sent; a mistake of ours it must not hide."""
    from glassformer.lens.studio.json_bytes import json_bytes
    from glassformer.lens.studio.runs import Place, described

    found = described(Place(folder, folder))
    json_bytes(found)
    if str(found["error"]).startswith("cannot be read ("):
        raise AssertionError(found["error"])
    return found


def request(folder: Path) -> Any:
    from glassformer.lens.studio.http_errors import HTTPError
    from glassformer.lens.studio.requests import number_in, read_input, read_object, run_name, run_names

    try:
        found = read_object((folder / "request").read_bytes(), "run", "runs", "input", "index")
        names = run_names(found["runs"]) if "runs" in found else run_name(found.get("run"))
        return names, read_input(found.get("input")), number_in(str(found.get("index")))
    except HTTPError as error:
        raise GlassformerError(error.why) from None


def tokeniser(folder: Path) -> Any:
    from glassformer.data.tokeniser import load_tokeniser

    found = load_tokeniser(folder / "tokenizer.json")
    ids = found.encode("A line, and ünknown.\n")
    return found.size, found.decode(ids), found.id_of("mask"), found.unknown_in("xyz")


def hub(folder: Path) -> Any:
    from glassformer.hub.folder import read_folder

    return read_folder(folder)


def adapter(folder: Path) -> Any:
    from glassformer.hub.peft import read_adapter
    from glassformer.train.run_folder import RunFolder

    return read_adapter(folder, RunFolder(folder))


def idx(folder: Path) -> Any:
    from glassformer.data.idx import read_idx

    return read_idx(folder / "idx")


def npz(folder: Path) -> Any:
    from glassformer.data.npz import load_npz

    return load_npz("npz", folder / "x.npz")


def table(folder: Path) -> Any:
    from glassformer.data.table import load_csv

    with suppress(GlassformerError):
        load_csv(folder / "table.csv", numbers=True)
    return load_csv(folder / "table.csv")


def picture(folder: Path) -> Any:
    from glassformer.data.image_file import read_on_white

    return read_on_white(folder / "picture")


def picture_for_a_model(folder: Path) -> Any:
    from glassformer.data.prepare import read_pictures

    return read_pictures(str(folder / "picture"), (8, 8, 1), "mnist-mini")


def text(folder: Path) -> Any:
    from glassformer.data.text_file import load_text_file

    return load_text_file("text", folder / "text")


def conversations(folder: Path) -> Any:
    from glassformer.data.conversations import holds_conversations, load_conversations

    holds_conversations(folder / "talk.jsonl")
    return load_conversations("talk", folder / "talk.jsonl")


def chat(folder: Path) -> Any:
    from glassformer.data.chat_template import ChatTemplate
    from glassformer.reading import read_text

    return ChatTemplate.from_json(read_text(folder / "chat.json"), "chat.json")


def hub_chat(folder: Path) -> Any:
    from glassformer.hub.chat_files import read_chat

    return read_chat(folder, {})


def pairs(folder: Path) -> Any:
    from glassformer.data.text_pairs import holds_pairs, load_text_pairs

    (found,) = folder.iterdir()
    holds_pairs(found)
    return load_text_pairs("pairs", found)


HUB = ("gpt2", "bert", "t5", "vit")
READERS: dict[str, Reader] = {
    "recipe": Reader("run", "recipe.toml", recipe, TEXT, "recipes/*"),
    "seeds": Reader("seeds", "seeds.toml", recipe, TEXT, share=2),
    "recipe-file": Reader("run", "recipe.toml", recipe_file, TEXT, "recipes/*", share=2),
    "settings": Reader("settings", "settings", settings, TEXT, share=4),
    "plan": Reader("study", "plan.toml", plan, TEXT, "plans/*", share=2),
    "results": Reader("study", "results.jsonl", results, JSON),
    "study": Reader("study", "results.jsonl", study, JSON, share=1),
    "model": Reader("run", "model.safetensors", model, TENSORS),
    "state": Reader("run", "state.safetensors", state, TENSORS),
    "run": Reader("run", "model.safetensors", run, TENSORS, share=1),
    "run-recipe": Reader("run", "recipe.toml", run, TEXT, share=1),
    "log": Reader("run", "log.csv", log, TEXT),
    "studio-metrics": Reader("run", "metrics.json", row_of_the_studio, JSON, share=4),
    "studio-log": Reader("run", "log.csv", row_of_the_studio, TEXT, share=2),
    "studio-model": Reader("run", "model.safetensors", row_of_the_studio, TENSORS, share=2),
    "studio-recipe": Reader("run", "recipe.toml", row_of_the_studio, TEXT, share=2),
    "request": Reader("requests", "request", request, JSON, "requests/*"),
    "tokeniser": Reader("hub-gpt2", "tokenizer.json", tokeniser, JSON, needs="tokenizers"),
    **{f"hub-{kind}-config": Reader(f"hub-{kind}", "config.json", hub, JSON, share=1) for kind in HUB},
    **{f"hub-{kind}-model": Reader(f"hub-{kind}", "model.safetensors", hub, TENSORS, share=1) for kind in HUB},
    "hub-tokeniser": Reader("hub-gpt2", "tokenizer.json", hub, JSON, share=1, needs="tokenizers"),
    "hub-index": Reader("hub-shards", "model.safetensors.index.json", hub, JSON, share=1),
    "hub-pairs": Reader("hub-pairs", "merges.txt", hub, TEXT, share=1, needs="tokenizers"),
    "hub-pair-vocabulary": Reader("hub-pairs", "vocab.json", hub, JSON, share=1, needs="tokenizers"),
    "hub-words": Reader("hub-words", "vocab.txt", hub, TEXT, share=1, needs="tokenizers"),
    "hub-words-config": Reader("hub-words", "tokenizer_config.json", hub, JSON, share=1, needs="tokenizers"),
    "hub-preparation": Reader("hub-vit", "preprocessor_config.json", hub, JSON, share=1),
    "adapter-config": Reader("adapter", "adapter_config.json", adapter, JSON, share=1),
    "adapter-model": Reader("adapter", "adapter_model.safetensors", adapter, TENSORS, share=1),
    "idx": Reader("data", "idx", idx, ANY, "idx/*"),
    "idx-gz": Reader("data", "idx", idx, (*ANY, in_gzip, in_gzip), "idx.gz/*"),
    "npz": Reader("data", "x.npz", npz, (*ANY, in_zip, in_zip, in_zip, in_zip), "npz/*"),
    "table": Reader("data", "table.csv", table, TEXT, "tables/*"),
    "picture": Reader("data", "picture", picture, (*ANY, in_png, in_png), "pictures/*"),
    "picture-for-a-model": Reader(
        "data", "picture", picture_for_a_model, (*ANY, in_png, in_png), "pictures/*", share=1
    ),
    "text": Reader("data", "text", text, TEXT, "texts/*", share=4),
    "pairs": Reader("pairs-csv", "pairs.csv", pairs, TEXT, share=4),
    "pairs-tsv": Reader("pairs-tsv", "pairs.tsv", pairs, TEXT, share=2),
    "pairs-jsonl": Reader("pairs-jsonl", "pairs.jsonl", pairs, JSON, share=2),
    "conversations": Reader("conversations", "talk.jsonl", conversations, JSON, share=2),
    "chat": Reader("chat", "chat.json", chat, JSON, share=2),
    "hub-chat": Reader("hub-chat", "tokenizer_config.json", hub_chat, JSON, share=2),
}
READERS = {name: reader for name, reader in READERS.items() if not reader.needs or find_spec(reader.needs)}


def seeds_of(root: Path, name: str) -> tuple[bytes, ...]:
    """Right inputs of a reader."""
    reader = READERS[name]
    own = sorted((root / "right").glob(reader.seeds)) if reader.seeds else [root / reader.folder / reader.file]
    return tuple(path.read_bytes() for path in own)


def write_seeds(root: Path) -> None:
    """Folders that every reader reads without a complaint, and more right inputs in `right`."""
    draw = np.random.default_rng(0)
    for folder in ("run", "seeds", "settings", "study", "requests", "data"):
        (root / folder).mkdir(parents=True)
    write_run(root)
    write_study(root)
    write_hub(root)
    write_adapter(root)
    write_data(root / "right", draw)
    write(
        root / "settings/settings",
        b"model.width=32\nmodel.depth=2\noptimiser.lr=1e-3\noptimiser.schedule.kind=cosine\n"
        b'training.epochs=7\ndata="x.npz"\nmodel.dropout=0.1\nvalidation.share=0.2',
    )
    write(root / "pairs-csv/pairs.csv", 'prompt,answer\n"a, b",ü\nc,"d ""e"""\n'.encode())
    write(root / "pairs-tsv/pairs.tsv", "a\tü\r\nb\tc\r\n".encode())
    write(root / "pairs-jsonl/pairs.jsonl", b'{"prompt": "a", "answer": "b"}\n["c", "d"]\n')
    talk = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    write(root / "conversations/talk.jsonl", talk * 2)
    named = (
        b'{"chat_template": [{"name": "default", "template": "a"}], "eos_token": {"content": "b"}, "bos_token": "c"}'
    )
    write(root / "hub-chat/tokenizer_config.json", named)
    write(
        root / "chat/chat.json", b'{"templates": {"default": "a"}, "special_tokens": {"bos_token": "b"}, "ends": [3]}'
    )
    pixels = "AAECAwQFBgcICQoLDA0ODw=="
    for i, plain in enumerate(
        (
            {"run": "vit-nano-1", "input": {"image": pixels, "label": 7}, "index": 3},
            {"runs": ["a", "b"], "input": {"text": "Once ü", "target": None}, "index": 0},
            {"run": "a/seed-0", "input": {"picture": pixels}, "index": 12},
            {"run": "-", "input": {"sample": 17}, "index": 1},
        )
    ):
        write(root / f"right/requests/{i}", json.dumps(plain).encode())


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_run(root: Path) -> None:
    import jax

    from glassformer.train.jax_engine import State
    from glassformer.train.presets import preset, preset_names
    from glassformer.train.rng import make_order
    from glassformer.train.run_folder import Progress, Row, RunFolder
    from glassformer.train.settings import with_changes

    changes = ["model.hidden=[5]", "model.images.shape=[8,8,1]", "optimiser.name=adam", "data=mnist-mini"]
    recipe = with_changes(preset("mlp"), changes)
    folder = RunFolder(root / "run")
    folder.save_recipe(recipe)
    RunFolder(root / "seeds").save_recipe(recipe, (1, 2, 5))
    shapes = shapes_of(root / "run")
    params, state = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    rows = tuple(Row(i, 1.5 / i, 0.25, 0.5, None if i == 2 else 0.4, 0.01, 1.25, None) for i in (1, 2, 3))
    folder.save_model(recipe, params, tuple("0123456789"), 3)
    order = make_order(recipe.engine.rng, 1)
    folder.save_state(State(*state), order.state(), Progress(epoch=3, best_epoch=2, rows=rows))
    folder.save_metrics({"test_accuracy": 0.5, "val_accuracy": None, "epochs": 3, "task": "classify", "seed": 1})
    for name in preset_names():
        folder = RunFolder(root / f"right/recipes/{name}")
        folder.save_recipe(preset(name))
        (folder.path / "recipe.toml").rename(root / f"right/recipes/{name}.toml")
        folder.path.rmdir()


def write_study(root: Path) -> None:
    from dataclasses import asdict

    from glassformer.lab.cells import cell
    from glassformer.lab.plan import parse, plan_names, plan_text
    from glassformer.lab.plan_text import TEMPLATE
    from glassformer.lab.record import Record

    for name in plan_names():
        write(root / f"right/plans/{name}.toml", plan_text(name).encode())
    write(root / "right/plans/template.toml", TEMPLATE.encode())
    write(root / "study/plan.toml", SMALL_PLAN.encode())
    plan, lines = parse(SMALL_PLAN, "study"), []
    for i, factors in enumerate(((), ("fast",), ("batch",))):
        for seed in plan.seeds:
            score = 0.5 + 0.1 * i + 0.01 * seed
            record = Record(
                cell(plan, factors).key, seed, "", (1.0, 0.5), (score, score), score, 40, 0.5, 99, "native", "x"
            )
            lines.append(json.dumps(asdict(record)))
    write(root / "study/results.jsonl", "\n".join([*lines, ""]).encode())


SMALL_PLAN = """\
question = "Why?"
seeds = 4

[baseline]
preset = "mlp"
set = { "validation.share" = 0.1 }

[factors.fast]
subject = "rate"
hypothesis = "the learning rate is too small"
set = { "optimiser.lr" = 0.3 }

[factors.batch]
set = { "training.batch" = 5 }
"""


def write_adapter(root: Path) -> None:
    """In one folder with the run that it belongs to."""
    from dataclasses import replace

    import jax

    from glassformer.hub.folder import read_folder
    from glassformer.hub.peft import write_adapter
    from glassformer.hub.run import write_adapted_run, write_run
    from glassformer.train.run_folder import RunFolder
    from glassformer.train.tune import LowRank

    found, base = read_folder(root / "hub-vit"), RunFolder(root / "adapter")
    write_run(base.path, found)
    recipe = replace(base.recipe(), tune=LowRank(rank=2, also=("head.*",)), start=str(base.path))
    params: Any = recipe.network.init(jax.random.key(0))
    tuned = RunFolder(root / "tuned")
    write_adapted_run(tuned.path, recipe, params._replace(base=found.params), found.classes, base)
    write_adapter(base.path, tuned)


def write_hub(root: Path) -> None:
    import jax
    from safetensors.numpy import load, save

    from glassformer.data.tokeniser_training import Characters
    from glassformer.hub.folder import write_folder
    from glassformer.models import BERT, GPT, T5, BERTFor, Images, MaskedHead, Text, ViT

    draw, words = np.random.default_rng(0), Text(vocabulary=40, context=9)
    models: dict[str, Any] = {
        "gpt2": GPT(words, width=6, hidden=7, heads=2, depth=1),
        "bert": BERTFor(BERT(words, segments=3, width=6, hidden=7, heads=2, depth=1), MaskedHead(6, 40)),
        "t5": T5(words, width=6, hidden=7, heads=2, head_width=5, depth=1),
        "vit": ViT(Images((8, 4, 3), classes=3), patch_size=4, width=6, hidden=7, heads=2, with_class_token=True),
    }
    spelled = None
    if find_spec("tokenizers"):
        spelled = Characters().train(["A line, and another line.\n" * 3]).to_json()
    for kind, model in models.items():
        params = jax.tree.map(
            lambda leaf: draw.standard_normal(leaf.shape).astype(np.float32),
            jax.eval_shape(model.init, jax.random.key(0)),
        )
        write_folder(root / f"hub-{kind}", model, params, tokeniser_json=None if kind == "vit" else spelled)
    config, tensors = ((root / "hub-gpt2" / name).read_bytes() for name in ("config.json", "model.safetensors"))
    arrays = [*load(tensors).items()]
    shards = {"1.safetensors": dict(arrays[:5]), "2.safetensors": dict(arrays[5:])}
    for name, shard in shards.items():
        write(root / "hub-shards" / name, save(shard))
    places = {name: file for file, shard in shards.items() for name in shard}
    write(root / "hub-shards/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": places}).encode())
    vocabulary = {word: i for i, word in enumerate(["<|endoftext|>", *"abcdefgh", "ab", "abc"])}
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "line"]
    pairs: dict[str, bytes] = {
        "vocab.json": json.dumps(vocabulary).encode(),
        "merges.txt": b"#version: 0.2\na b\nab c\n",
        "tokenizer_config.json": b'{"add_prefix_space": false}',
    }
    lines: dict[str, bytes] = {
        "vocab.txt": "\n".join([*special, ""]).encode(),
        "tokenizer_config.json": b'{"do_lower_case": true, "strip_accents": null, "tokenize_chinese_chars": true}',
    }
    for folder, files in (("shards", {}), ("pairs", pairs), ("words", lines)):
        write(root / f"hub-{folder}/config.json", config)
        for name, content in files.items():
            write(root / f"hub-{folder}" / name, content)
        if files:
            write(root / f"hub-{folder}/model.safetensors", tensors)


def write_data(right: Path, draw: np.random.Generator) -> None:
    from PIL import Image

    images, labels = draw.integers(0, 256, (20, 5, 4)).astype(np.uint8), (np.arange(20) % 10).astype(np.uint8)
    for name, array in (("images", images), ("labels", labels)):
        content = struct.pack(f">{1 + array.ndim}i", 2051 if array.ndim == 3 else 2049, *array.shape) + array.tobytes()
        write(right / f"idx/{name}", content)
        write(right / f"idx.gz/{name}", gzip.compress(content, mtime=0))
    for keys in (
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("x_train", "y_train", "x_test", "y_test"),
    ):
        for save in (np.savez, np.savez_compressed):
            packed = io.BytesIO()
            save(packed, **dict(zip(keys, (images, labels, images[:10], labels[:10]), strict=True)))  # pyright: ignore
            write(right / f"npz/{keys[0]}-{save.__name__}", packed.getvalue())
    write(
        right / "tables/named",
        b"length,width,kind\n" + b"".join(b"%d.5,%d,%d\n" % (i, i * 3, i % 2) for i in range(12)),
    )
    write(right / "tables/plain", '\ufeff1.5,2,ü\r\n2,3e-4,"b, c"\r\n3,1,ü\r\n4,4,"b, c"\r\n'.encode())
    for i, (mode, size) in enumerate((("L", (9, 7)), ("RGB", (8, 8)), ("RGBA", (6, 6)), ("P", (8, 5)), ("1", (8, 8)))):
        pixels = np.zeros((size[1], size[0], 4), np.uint8)
        pixels[..., 3] = 255 if mode != "RGBA" else 128
        pixels[2:-2, 2:-2, :3] = draw.integers(150, 256, (size[1] - 4, size[0] - 4, 3))  # ink
        for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
            packed = io.BytesIO()
            try:
                Image.fromarray(pixels, "RGBA").convert(mode).save(packed, form)
            except (OSError, ValueError, KeyError):  # not every format has every mode
                continue
            write(right / f"pictures/{i}-{form}", packed.getvalue())
    write(right / "texts/words", b"Once upon a time there was a line.\n" * 10)
    write(right / "texts/ü", "\ufeffÜber alle Zeilen: 😀\r\n".encode() * 12)
