"""glassformer export: a run for others to use."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli.code import Code


def export(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train` or `import`")],
    out: Annotated[Path, typer.Argument(help="folder to write")],
    to: Annotated[Literal["hf"], typer.Option(help="hf: a Hugging Face folder, as transformers loads it")] = "hf",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write the model of a run, with its tokeniser and the names of its classes, in the form of another library.

    Example: `glassformer export runs/gpt-nano-1 --to hf mine`, then `AutoModelForCausalLM.from_pretrained("mine")`
    """
    from glassformer.cli.output import report
    from glassformer.hub.folder import read_config, write_folder
    from glassformer.predict.run import load

    loaded = load(run)
    tokeniser_json = None if loaded.tokeniser is None else loaded.tokeniser.to_json()
    write_folder(out, loaded.model, loaded.params, tokeniser_json=tokeniser_json, classes=loaded.classes)
    (architecture,) = read_config(out)["architectures"]
    files = sorted(file.name for file in out.iterdir())
    result = {"out": str(out), "run": str(loaded.path), "to": to, "architecture": architecture, "files": files}
    text = f'{", ".join(files)}\nwrote {out}: transformers.{architecture}.from_pretrained("{out}")'
    report(result, text, as_json=json)
