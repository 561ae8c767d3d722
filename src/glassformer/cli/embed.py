"""glassformer embed: texts, pictures or rows of numbers as vectors, and how alike they are."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    import numpy as np

    from glassformer.predict.run import Run

FEW = 12  # inputs: that many a table compares
MOST_POINTS = 40  # that many labels a picture has room for
LONGEST = 48  # characters of a text in the table
LABEL = 32  # and in the picture
APART = 0.045  # of the picture's height: labels that are nearer to each other would overlap


class Given(NamedTuple):
    name: str  # the text itself, the file of a picture
    value: Any  # what the run reads


def embed(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer import` or `glassformer train`")],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help="a text, - for the lines of stdin; PNG, JPEG, … or an IDX file for a run that reads images; a row for "
            "one of a table: 5.1,3.5",
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="one input on each line")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="write the vectors: .npy, or with the inputs .npz, .csv")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="draw them in two dimensions (PCA) into this file")] = None,
    pooling: Annotated[
        Literal["mean", "first"] | None,
        typer.Option(help="of the tokens' vectors: their mean, or the first (default: as the run says, else mean)"),
    ] = None,
    normalise: Annotated[
        bool | None, typer.Option("--normalise/--no-normalise", help="to a length of 1 (default: as the run says)")
    ] = None,
    cut: Annotated[bool, typer.Option("--cut", help="cut texts that are too long, instead of refusing them")] = False,
    engine: Annotated[
        Literal["auto", "native", "jax"], typer.Option(help="auto: C for an encoder on a CPU, else JAX")
    ] = "auto",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write a vector for each text, picture or row of numbers: what the model knows before its head.

    Without --out, and of a handful: how alike they are (cosine similarity).

    Example: `glassformer embed runs/encoder "a cat" "a dog" "the price of oil" --png texts.png`

    Example: `glassformer embed runs/encoder --file sentences.txt --out vectors.npz`
    """
    from glassformer.cli.output import counted, note, report
    from glassformer.files import write_whole
    from glassformer.predict.run import load

    if out and out.suffix not in WRITERS:
        raise typer.BadParameter(f"{out} came, expected a name in {', '.join(WRITERS)}", param_hint="--out")
    loaded = load(run, engine=engine, notice=note)
    given = read_inputs(loaded, [*(inputs or []), *lines_of(file)])
    check_count(len(given), out, png)
    with counted(len(given), "embedding") as listener:
        values: Any = [one.value for one in given]
        vectors = loaded.embed(values, pooling=pooling, normalise=normalise, cut=cut, listener=listener)
    names = [one.name for one in given]
    if out:
        write_whole(out, WRITERS[out.suffix](names, vectors))
    if png:
        write_whole(png, picture(names, vectors, loaded.path.name))
    wrote = [f"wrote {path}" for path in (out, png) if path]
    about = f"{len(vectors):,} vectors of {vectors.shape[1]} numbers"
    few = len(given) <= FEW
    text = [about] if out else [about, "", similarity_table(names, similarity(vectors)), *[""][: len(wrote)]]
    result = {
        "run": str(loaded.path),
        "count": len(vectors),
        "width": vectors.shape[1],
        "out": str(out) if out else None,
        "png": str(png) if png else None,
        "inputs": names if few or not out else None,  # else they are many, and in the file
        "similarity": similarity(vectors).tolist() if few else None,
        "vectors": None if out else vectors.tolist(),
    }
    report(result, "\n".join([*text, *wrote]), as_json=json)


def lines_of(file: Path | None) -> list[str]:
    from glassformer.reading import read_text

    return [] if file is None else lines(str(file), read_text(file))


def lines(name: str, content: str) -> list[str]:
    """Every line is one input, so that vectors and lines have the same numbers."""
    from glassformer.errors import DataError

    found = content.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for i, line in enumerate(found, start=1):
        if not line.strip():
            raise DataError(f"{name}:{i}: there is nothing on the line; expected one input on each")
    return found


def read_inputs(run: "Run", words: list[str]) -> list[Given]:
    from glassformer.data.prepare import read_pictures
    from glassformer.predict.reading import row_of

    words = [one for word in words for one in (lines("-", sys.stdin.read()) if word == "-" else [word])]
    if not words:
        raise typer.BadParameter("nothing came; expected one or more, or --file FILE", param_hint="INPUT")
    reads = run.model.input.reads
    if reads == "images":
        pictures = [one for word in words for one in read_pictures(word, run.images.shape, run.recipe.data)]
        return [Given(one.name, one.image) for one in pictures]
    return [Given(word, word if reads == "texts" else row_of(run, f"row {i}", word)) for i, word in enumerate(words, 1)]


def check_count(count: int, out: Path | None, png: Path | None) -> None:
    """Before anything is computed."""
    if not out and count > FEW and not png:
        raise typer.BadParameter(f"missing; of {count:,} inputs no table is made, only of {FEW}", param_hint="--out")
    if png and not 2 <= count <= MOST_POINTS:
        raise typer.BadParameter(f"{count:,} inputs came, a picture takes 2 to {MOST_POINTS}", param_hint="--png")


def as_npy(names: list[str], vectors: "np.ndarray") -> bytes:
    import io

    import numpy as np

    data = io.BytesIO()
    np.save(data, vectors)
    return data.getvalue()


def as_npz(names: list[str], vectors: "np.ndarray") -> bytes:
    import io

    import numpy as np

    data = io.BytesIO()
    np.savez(data, vectors=vectors, inputs=np.array(names))
    return data.getvalue()


def as_csv(names: list[str], vectors: "np.ndarray") -> bytes:
    """Nine digits give every float back."""
    import csv
    import io

    data = io.StringIO()
    rows = csv.writer(data, lineterminator="\n")
    rows.writerow(["input", *range(vectors.shape[1])])
    rows.writerows([name, *(f"{value:.9g}" for value in vector)] for name, vector in zip(names, vectors, strict=True))
    return data.getvalue().encode()


WRITERS = {".npy": as_npy, ".npz": as_npz, ".csv": as_csv}


def similarity(vectors: "np.ndarray") -> "np.ndarray":
    """The cosine of every two."""
    import numpy as np

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit @ unit.T


def similarity_table(names: list[str], cosines: "np.ndarray") -> str:
    if len(names) > FEW:
        return f"of more than {FEW} no table is made"
    left = len(str(len(names)))
    lines = [" " * left + "".join(f"{i:>7}" for i in range(1, len(names) + 1)) + "   cosine similarity"]
    for i, (name, row) in enumerate(zip(names, cosines, strict=True), start=1):
        lines.append(f"{i:>{left}}" + "".join(f"{value:7.3f}" for value in row) + f"   {shortened(name, LONGEST)}")
    return "\n".join(lines)


def shortened(text: str, most: int) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def principal(vectors: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
    """The two directions in which they vary most: each vector's place, and the share of the variance."""
    import numpy as np

    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    u, s, _ = np.linalg.svd(np.pad(centred, ((0, 0), (0, max(0, 2 - centred.shape[1])))), full_matrices=False)
    return (u * s)[:, :2], s[:2] ** 2 / max((s**2).sum(), 1e-30)


def picture(names: list[str], vectors: "np.ndarray", title: str) -> bytes:
    """A PNG: a point for each, its label at the nearer edge, where none covers another."""
    import io
    import warnings

    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    places, shares = principal(vectors)
    span = np.maximum(np.ptp(places, axis=0), 1e-12)
    places = (places - places.min(axis=0)) / span  # 0 to 1: labels are placed in the same units
    figure = Figure(figsize=(11, max(5.0, 0.3 * len(names))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.scatter(*places.T, s=36, color="#2f6fb0", zorder=3)
    right = places[:, 0] > 0.5
    for side in (False, True):
        of_side = sorted(np.flatnonzero(right == side), key=lambda i: places[i, 1])
        heights = spread([float(places[i, 1]) for i in of_side])
        for i, height in zip(of_side, heights, strict=True):
            axes.annotate(
                shortened(names[i], LABEL),
                tuple(places[i]),
                (1.06 if side else -0.06, height),
                ha="left" if side else "right",
                va="center",
                size=9,
                parse_math=False,
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.7},
            )
    axes.set(xlim=(-0.75, 1.75), ylim=(-0.08, 1.08), xticks=[], yticks=[])
    axes.set_xlabel(f"first principal component: {100 * shares[0]:.0f} % of the variance")
    axes.set_ylabel(f"second: {100 * shares[1]:.0f} %")
    axes.set_title(title, size=11, parse_math=False)
    axes.spines[:].set_color("#dddddd")
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the font lacks some script: boxes stand for it
        figure.savefig(data, format="png", dpi=150)
    return data.getvalue()


def spread(heights: list[float]) -> list[float]:
    """Sorted heights, moved as far up as it takes that no two are too near, and down again by what is too much."""
    apart = min(APART, 1 / max(1, len(heights) - 1))
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + apart)
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], 1 - apart * (len(heights) - 1 - i))
    return heights
