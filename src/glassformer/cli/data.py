"""glassformer data: which data sets there are, fetching one, looking at one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.data import Dataset

data = typer.Typer(
    help="List, fetch and look at data sets. Example: `glassformer data list`",
    no_args_is_help=True,
)
Name = Annotated[
    str,
    typer.Argument(help="a name from `data list`, or the path of an IDX folder, a folder of images or an .npz file"),
]
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

    rows = [about(name) for name in KNOWN]
    lines = [f"{'name':13}  {'training':>8}  {'test':>6}  {'image':7}  {'':15}  where"]
    lines += [
        f"{r['name']:13}  {r['train']:8,}  {r['test']:6,}  {sizes(r['image']):7}  {r['about']:15}  {where(r)}"
        for r in rows
    ]
    report({"data": rows}, "\n".join(lines), as_json=json)


@data.command()
def get(name: Name, json: Json = False) -> None:
    """Fetch a data set where it is not here yet, and check it: checksums, sizes, labels.

    Example: `glassformer data get mnist`
    """
    from glassformer.cli.output import report
    from glassformer.data import load

    result = summary(load(name))
    text = (
        f"{name}: {result['train']:,} training and {result['test']:,} test images of {sizes(result['image'])}, "
        f"{len(result['classes'])} classes, in {result['folder']}"
    )
    report(result, text, as_json=json)


@data.command()
def sheet(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="picture to write, .png")] = Path("sheet.png"),
    columns: Annotated[int, typer.Option(min=1, max=100, help="images of each class")] = 10,
    rows: Annotated[int, typer.Option(min=1, max=100, help="classes, at most")] = 10,
    test: Annotated[bool, typer.Option("--test", help="show test images, not training images")] = False,
    json: Json = False,
) -> None:
    """Draw a contact sheet: one row of images per class.

    Example: `glassformer data sheet mnist-mini --out sheet.png`
    """
    import io

    from glassformer.cli.output import report
    from glassformer.data import load
    from glassformer.data.contact_sheet import contact_sheet
    from glassformer.files import write_whole

    found = load(name)
    picture = contact_sheet(found.test if test else found.train, found.classes, columns, rows)
    png = io.BytesIO()
    picture.save(png, "PNG")
    write_whole(out, png.getvalue())
    report({"out": str(out), "width": picture.width, "height": picture.height}, f"wrote {out}", as_json=json)


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


def folder(name: str) -> str:
    from glassformer.data.download import MIRRORS, cache_folder
    from glassformer.data.sources import BUNDLED, KNOWN

    if name in MIRRORS:
        return str(cache_folder() / name)
    return str(BUNDLED.parent if name in KNOWN else Path(name).resolve())


def where(row: dict[str, Any]) -> str:
    missing = f"not here yet: `glassformer data get {row['name']}` fetches {row['megabytes']} MB"
    return row["folder"] if row["here"] else missing


def sizes(shape: list[int]) -> str:
    return "x".join(map(str, shape))
