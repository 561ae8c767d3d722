"""glassformer data: which data sets there are, fetching one, looking at one."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from PIL.Image import Image

    from glassformer.data import Dataset, Samples
    from glassformer.data.texts import Example, Texts

data = typer.Typer(
    help="List, fetch and look at data sets. Example: `glassformer data list`",
    no_args_is_help=True,
)
Name = Annotated[
    str,
    typer.Argument(
        help="a name from `data list`, or the path of an IDX folder, a folder of images, an .npz file or a text file"
    ),
]
LONGEST = 400  # characters of a text that are shown
Json = Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")]


@data.callback()
def data_sets() -> None:
    pass


@data.command("list")
def list_(json: Json = False) -> None:
    """The data sets known by name, and which of them are on this machine.

    The cache folder is the system's, or the one named in GLASSFORMER_DATA.

    Example: `glassformer data list`
    """
    from glassformer.cli.output import report
    from glassformer.data import KNOWN
    from glassformer.data.text_sources import KNOWN_TEXTS

    rows, texts = [about(name) for name in KNOWN], [about_text(name) for name in KNOWN_TEXTS]
    lines = [f"{'name':13}  {'training':>8}  {'test':>6}  {'image':7}  {'':15}  where"]
    lines += [
        f"{r['name']:13}  {r['train']:8,}  {r['test']:6,}  {sizes(r['image']):7}  {r['about']:15}  {where(r)}"
        for r in rows
    ]
    lines += ["", f"{'text':16}  {'':47}  where"]
    lines += [f"{r['name']:16}  {r['about']:47}  {r['where']}" for r in texts]
    report({"data": rows, "texts": texts}, "\n".join(lines), as_json=json)


@data.command()
def get(name: Name, json: Json = False) -> None:
    """Fetch a data set where it is not here yet, and check it: checksums, sizes, labels.

    Example: `glassformer data get mnist`
    """
    from glassformer.cli.output import report
    from glassformer.data import load
    from glassformer.data.text_sources import is_text, load_texts

    if is_text(name):
        result = summary_of_texts(load_texts(name))
        classes = f", {len(result['classes'])} classes" if result["classes"] else ""
        text = (
            f"{name}: {result['train']:,} training and {result['test']:,} test texts, "
            f"{result['characters']:,} characters in all{classes} ({result['where']})"
        )
    else:
        refuse_unknown(name)
        result = summary(load(name))
        text = (
            f"{name}: {result['train']:,} training and {result['test']:,} test images of {sizes(result['image'])}, "
            f"{len(result['classes'])} classes, in {result['folder']}"
        )
    report(result, text, as_json=json)


@data.command()
def show(
    name: Annotated[str, typer.Argument(help="a text from `data list`, or the path of a text file")],
    count: Annotated[int, typer.Option(min=1, max=1000, help="examples, drawn from all")] = 5,
    test: Annotated[bool, typer.Option("--test", help="show test examples, not training examples")] = False,
    json: Json = False,
) -> None:
    """Print a few examples of a text data set: the text, and what is known about it.

    Example: `glassformer data show dates --count 3`
    """
    from glassformer.cli.output import report
    from glassformer.data.text_sources import load_texts

    found = load_texts(name)
    rows = [about_example(each, found.classes) for each in some(found.test if test else found.train, count)]
    report({"name": name, "examples": rows}, "\n\n".join(map(in_lines, rows)), as_json=json)


@data.command()
def tokenise(
    files: Annotated[list[Path], typer.Argument(help="text files in UTF-8, or .jsonl with a `text` in each line")],
    out: Annotated[Path, typer.Option("--out", "-o", help="folder of the tokens")],
    tokeniser: Annotated[
        str, typer.Option(help="byte-pairs or characters, made from the text; a tokenizer.json, or a folder with one")
    ] = "byte-pairs",
    symbols: Annotated[int, typer.Option(min=262, max=1 << 24, help="of new byte pairs")] = 32_768,
    workers: Annotated[int, typer.Option(min=0, max=1024, help="processes (default: one for each core)")] = 0,
    json: Json = False,
) -> None:
    """Make tokens of texts that do not fit in memory: shards to train from. Stopped, it goes on where it was.

    Example: `glassformer data tokenise wiki/*.txt --out wiki-tokens`, then
    `glassformer train gpt-nano --data wiki-tokens --set training.steps=2000`
    """
    from glassformer.cli.output import counted, report
    from glassformer.cores import cores
    from glassformer.data.tokenise import chosen_tokeniser, tokenise

    size = sum(path.stat().st_size for path in files if path.is_file())
    with counted(size, "tokenising") as count:
        made = tokenise(files, out, chosen_tokeniser(tokeniser, symbols), workers=workers or cores(), progress=count)
    unknown = f", {made['unknown']:,} of them unknown" if made["unknown"] else ""
    text = (
        f"{out}: {made['tokens']:,} tokens{unknown} of {made['symbols']:,} symbols, "
        f"{made['bytes'] / made['tokens']:.2f} bytes each, in {made['shards']:,} shards ({made['kept']:,} were there)"
    )
    report(made, text, as_json=json)


@data.command()
def sheet(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="picture to write, .png")] = Path("sheet.png"),
    columns: Annotated[int, typer.Option(min=1, max=100, help="images of each class")] = 10,
    rows: Annotated[int, typer.Option(min=1, max=100, help="classes, at most")] = 10,
    test: Annotated[bool, typer.Option("--test", help="show test images, not training images")] = False,
    augment: Annotated[
        bool, typer.Option("--augment", help="of each class one image, and behind it as training augments it")
    ] = False,
    preset: Annotated[str, typer.Option(help="with --augment: the preset that trains (default: vit-tiny)")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="with --augment: any setting, training.augment.rotate=12")
    ] = None,
    json: Json = False,
) -> None:
    """Draw a contact sheet: one row of images per class.

    Example: `glassformer data sheet mnist-mini --out sheet.png`,
    `glassformer data sheet mnist-mini --augment --set training.augment.rotate=12 --set training.augment.erase=0.5`
    """
    import io

    from glassformer.cli.output import report
    from glassformer.data import load
    from glassformer.data.contact_sheet import contact_sheet
    from glassformer.files import write_whole

    if not augment and (preset or set_):
        raise typer.BadParameter("say --augment, too: it shows what training does to images", param_hint="--set")
    found = load(name)
    samples = found.test if test else found.train
    if augment:
        picture = augmented_sheet(samples, found.classes[:rows], columns, preset or "vit-tiny", set_ or [])
    else:
        picture = contact_sheet(samples, found.classes, columns, rows)
    png = io.BytesIO()
    picture.save(png, "PNG")
    write_whole(out, png.getvalue())
    report({"out": str(out), "width": picture.width, "height": picture.height}, f"wrote {out}", as_json=json)


def augmented_sheet(
    samples: "Samples", classes: tuple[str, ...], columns: int, preset: str, changes: list[str]
) -> "Image":
    """The first image of each class, and draws of its augmentation: those of as many epochs."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from glassformer.data.contact_sheet import sheet_of, some_of
    from glassformer.errors import SettingError
    from glassformer.train import presets
    from glassformer.train.augment import Augment, augmented
    from glassformer.train.jax_engine import key_of
    from glassformer.train.settings import with_changes

    training = with_changes(presets.preset(preset), changes).training
    if training.augment == Augment() and not training.shift:
        raise SettingError(
            f"{preset}: it changes no image (training.augment and training.shift are 0); say how: "
            "--set training.augment.rotate=12"
        )
    firsts = [some_of(samples, label, 1) for label in range(len(classes))]
    images = jnp.asarray(np.concatenate(firsts))
    draw = jax.jit(lambda key: augmented(key, images, training.augment, training.shift))
    drawn = [draw(key_of(training.seed, epoch)) for epoch in range(1, columns)]
    shown = iter(np.stack([images, *drawn], axis=1))  # a row for each class that has images
    return sheet_of(
        {name: next(shown) if len(own) else own for name, own in zip(classes, firsts, strict=True)}, columns
    )


def about(name: str) -> dict[str, Any]:
    from glassformer.data import KNOWN

    known = KNOWN[name]
    return {
        "name": name,
        "about": known.about,
        "train": known.train,
        "test": known.test,
        "image": list(known.image),
        "megabytes": known.megabytes,
        "here": known.is_here(name, None),
        "folder": folder(name),
    }


def summary(found: "Dataset") -> dict[str, Any]:
    return {
        "name": found.name,
        "train": len(found.train.labels),
        "test": len(found.test.labels),
        "image": list(found.train.images.shape[1:]),
        "classes": list(found.classes),
        "folder": folder(found.name),
    }


def about_text(name: str) -> dict[str, Any]:
    from glassformer.data.text_sources import KNOWN_TEXTS

    known = KNOWN_TEXTS[name]
    return {"name": name, "about": known.about, "here": known.is_here(name, None), "where": where_text(name)}


def summary_of_texts(found: "Texts") -> dict[str, Any]:
    return {
        "name": found.name,
        "train": len(found.train),
        "test": len(found.test),
        "characters": sum(len(each.text) for each in (*found.train, *found.test)),
        "classes": list(found.classes),
        "parts": list(found.parts),
        "where": where_text(found.name),
    }


def about_example(example: "Example", classes: tuple[str, ...]) -> dict[str, Any]:
    """What is not known is left out."""
    parts = [{"name": p.name, "text": example.text[p.start : p.end], "start": p.start} for p in example.parts]
    known = {
        "text": example.text,
        "label": classes[example.label] if example.label >= 0 else "",
        "target": example.target,
        "parts": parts,
    }
    return {key: value for key, value in known.items() if value or key == "text"}


def in_lines(row: dict[str, Any]) -> str:
    """The beginning of the text, and below it a line for each thing known."""
    text, left = row["text"][:LONGEST], len(row["text"]) - LONGEST
    lines = [f"{text} … and {left:,} characters more" if left > 0 else text]
    lines += [f"  -> {row[known]}" for known in ("label", "target") if known in row]
    lines += [f"  {part['name']}: {part['text']}" for part in row.get("parts", [])]
    return "\n".join(lines)


def some(examples: "tuple[Example, ...]", count: int) -> "list[Example]":
    """Always the same ones, drawn: languages may take turns, and every thousandth be of one."""
    drawn = random.Random(0).sample(range(len(examples)), min(count, len(examples)))
    return [examples[i] for i in sorted(drawn)]


def refuse_unknown(name: str) -> None:
    """A word that is neither of images nor of texts; the nearest is looked for among both."""
    from glassformer.data import KNOWN
    from glassformer.data.sources import ACCEPTED
    from glassformer.data.text_sources import KNOWN_TEXTS, existing
    from glassformer.errors import UnknownNameError
    from glassformer.names import nearest

    names = [*KNOWN, *KNOWN_TEXTS]
    if name not in names and "/" not in name and not Path(name).suffix and existing(name) is None:
        raise UnknownNameError(
            f"no data set is called {name!r}{nearest(name, names)}; known: {', '.join(names)}; "
            f"or a path: {ACCEPTED}, or a text file"
        )


def folder(name: str) -> str:
    from glassformer.data.download import MIRRORS, cache_folder
    from glassformer.data.sources import BUNDLED, KNOWN

    if name in MIRRORS:
        return str(cache_folder() / name)
    return str(BUNDLED.parent if name in KNOWN else Path(name).resolve())


def where_text(name: str) -> str:
    from glassformer.data.text_sources import KNOWN_TEXTS

    known = KNOWN_TEXTS.get(name)
    if known is None or (known.is_here(name, None) and not known.where):
        return folder(name)
    return f"comes with {known.where}" if known.is_here(name, None) else f"not here yet: {known.otherwise}"


def where(row: dict[str, Any]) -> str:
    missing = f"not here yet: `glassformer data get {row['name']}` fetches {row['megabytes']} MB"
    return row["folder"] if row["here"] else missing


def sizes(shape: list[int]) -> str:
    return "x".join(map(str, shape))
