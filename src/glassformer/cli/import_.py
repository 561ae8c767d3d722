"""glassformer import: a Hugging Face folder as a run."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from glassformer.hub.format import Imported
    from glassformer.hub.parity import Row


def import_(
    folder: Annotated[Path, typer.Argument(help="of a Hugging Face model: config.json, model.safetensors, …")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="run folder to write (default: a new one under runs/)")
    ] = None,
    onto: Annotated[
        Path | None, typer.Option(help="FOLDER is an adapter of PEFT (LoRA): the run whose model it was made for")
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(help="BERT, RoBERTa, DistilBERT: put this head on it, such as BertForTokenClassification"),
    ] = None,
    precision: Annotated[
        Literal["float32", "bf16"],
        typer.Option(help="of the weights: bf16 keeps such a file as it is, at half the size, and trains on in bf16"),
    ] = "float32",
    parity: Annotated[
        bool | None, typer.Option(help="compare with transformers, layer by layer (default: if it is installed)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Read a published model with its tokeniser, compare it with transformers, and write a run folder.

    Known: GPT-2, Llama, Mistral, Qwen2, Qwen3, SmolLM, BERT, RoBERTa, DistilBERT, T5, ViT and DeiT.
    Nothing is downloaded, and nothing that can run code is read.

    Example: `glassformer import adapter --onto runs/gpt2 --out runs/tuned`: GPT-2 with an adapter of PEFT

    Example: `hf download gpt2 --local-dir gpt2`, then `glassformer import gpt2 --out runs/gpt2`
    """
    from glassformer.cli.output import report
    from glassformer.errors import CheckpointError
    from glassformer.hub import parity as beside
    from glassformer.hub.folder import read_folder
    from glassformer.hub.run import write_run
    from glassformer.train.fit import new_folder

    if onto is not None:
        if architecture or parity or precision != "float32":
            raise typer.BadParameter(
                "the run has its head and its precision, and is compared already", param_hint="--onto"
            )
        import_adapter(folder, onto, out, as_json=json)
        return
    dtype = "bfloat16" if precision == "bf16" else "float32"
    found = read_folder(folder, architecture=architecture, dtype=dtype)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    rows = beside.compare(folder, found) if parity or (parity is None and beside.is_possible()) else None
    far = [row.name for row in rows or [] if not row.close]
    if far:
        raise CheckpointError(
            f"{folder}: our values are not those of transformers, first at {far[0]}:\n{as_table(rows or [])}\n"
            "nothing was written; --no-parity does without the comparison"
        )
    with nullcontext(out) if out else new_folder(folder.resolve().name) as run:
        write_run(run, found)
    report(as_result(run, found, rows), as_text(run, found, rows), as_json=json)


def import_adapter(folder: Path, onto: Path, out: Path | None, *, as_json: bool) -> None:
    from glassformer.cli.output import report
    from glassformer.hub.peft import read_adapter
    from glassformer.hub.run import write_adapted_run
    from glassformer.train.fit import new_folder
    from glassformer.train.run_folder import RunFolder
    from glassformer.train.settings import to_plain

    base = RunFolder(onto)
    recipe, params, classes = read_adapter(folder, base)
    with nullcontext(out) if out else new_folder(folder.resolve().name) as run:
        write_adapted_run(run, recipe, params, classes, base)
    tune = to_plain(recipe.tune)
    text = f"wrote {run}: {onto} with an adapter of rank {tune['rank']} on {', '.join(tune['targets'])}, merged"
    report({"run": str(run), "onto": str(onto), "tune": tune}, text, as_json=as_json)


def as_result(run: Path, found: "Imported", rows: "list[Row] | None") -> dict[str, Any]:
    return {
        "run": str(run),
        "model": type(found.model).__name__,
        "parameters": count(found),
        "precision": found.precision,
        "classes": list(found.classes),
        "tokeniser": found.tokeniser_json is not None,
        "chat_template": found.chat is not None,
        "notes": found.notes,
        "parity": rows and [{"name": row.name, "difference": row.difference, "relative": row.relative} for row in rows],
    }


def as_text(run: Path, found: "Imported", rows: "list[Row] | None") -> str:
    compared = "not compared with transformers" if rows is None else as_table(rows)
    tokeniser = ", with its tokeniser" if found.tokeniser_json else ""
    tokeniser += " and chat template" if found.chat else ""
    narrow = " in bfloat16" if found.precision == "bf16" else ""
    return f"{compared}\nwrote {run}: {type(found.model).__name__}, {count(found):,} parameters{narrow}{tokeniser}"


def as_table(rows: "list[Row]") -> str:
    head = "beside transformers"
    width = max(len(head), *(len(row.name) for row in rows))
    lines = [f"{head:{width}}  largest difference  of the largest value"]
    lines += [f"{row.name:{width}}  {row.difference:18.2e}  {row.relative:20.2e}" for row in rows]
    return "\n".join(lines)


def count(found: "Imported") -> int:
    from glassformer.names import named_leaves

    return sum(leaf.size for leaf in named_leaves(found.params).values())
