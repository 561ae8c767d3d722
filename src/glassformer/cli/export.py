"""glassformer export: a run for others to use."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.code import Code
from glassformer.cli.export_c import to_c
from glassformer.errors import SettingError

if TYPE_CHECKING:
    from glassformer.predict.run import Run

Answer = tuple[dict[str, Any], str]  # what --json has besides out, run and to; the text


def export(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train` or `import`")],
    out: Annotated[
        Path | None, typer.Argument(help="what to write: a folder (hf, peft, c), a file (onnx); nothing with --plan")
    ] = None,
    to: Annotated[
        Literal["hf", "peft", "onnx", "c"],
        typer.Option(
            help="hf: a Hugging Face folder, as transformers loads it; peft: the adapter alone, after --tune lora; "
            "onnx: one file; c: C99 for a device"
        ),
    ] = "hf",
    name: Annotated[str | None, typer.Option(help="c: prefix of all names in C; by default the run's own")] = None,
    train: Annotated[
        Literal["full", "head", "bias", "lora"] | None, typer.Option(help="c: also learn on the device, these weights")
    ] = None,
    optimiser: Annotated[
        Literal["sgd", "momentum", "adamw"] | None, typer.Option(help="c, with --train: by default sgd")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="c, with --train: samples between updates; by default 1")] = None,
    int8: Annotated[bool | None, typer.Option("--int8", help="c: whole numbers, calibrated on training data")] = None,
    keep_float: Annotated[
        list[str] | None, typer.Option(help="c, with --int8: layers that stay float, as in blocks.0.*")
    ] = None,
    data: Annotated[str | None, typer.Option(help="c, with --int8: data to calibrate on (default: the run's)")] = None,
    plan: Annotated[
        bool | None, typer.Option("--plan", help="c: write nothing, print what every variant takes of a device")
    ] = None,
    ram: Annotated[str | None, typer.Option(help="c: what does not fit is refused: 64K, 1M or bytes")] = None,
    flash: Annotated[str | None, typer.Option(help="c: the same of flash: 256K, 1M or bytes")] = None,
    board: Annotated[str | None, typer.Option(help="c: RAM and flash of a known board: stm32f4, rp2040, …")] = None,
    target: Annotated[
        str | None,
        typer.Option(help="c: whose stack and code are measured: m3, m4, m7, m55, rv32; else the board's, or m4"),
    ] = None,
    flags: Annotated[
        str | None, typer.Option(help='c: the compiler\'s for that; by default "-O2 -ffp-contract=off -fno-math-errno"')
    ] = None,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write the model of a run, with the names of its classes, in the form of another library.

    Example: `glassformer export runs/gpt-nano-1 --to hf mine`, then `AutoModelForCausalLM.from_pretrained("mine")`

    Example: `glassformer export runs/vit-nano-1 --to onnx vit.onnx`, then `onnxruntime.InferenceSession("vit.onnx")`

    Example: `glassformer export runs/vit-pico-1 --to c device --int8`, then `make -C device test`

    Example: `glassformer export runs/vit-pico-1 --to c --plan --ram 64K --flash 256K` (or `--board stm32f4`): what fits
    """
    from glassformer.cli.output import report
    from glassformer.predict.run import load

    options = {"name": name, "train": train, "optimiser": optimiser, "batch": batch}
    options |= {"int8": int8, "keep_float": keep_float, "data": data}
    options |= {"plan": plan, "ram": ram, "flash": flash, "board": board, "target": target, "flags": flags}
    given = {option: value for option, value in options.items() if value is not None}
    if given and to != "c":
        names = " and ".join(f"--{option.replace('_', '-')}" for option in given)
        raise SettingError(f"export: {names} would do nothing: --to {to} came, expected --to c")
    if out is None and not plan:
        raise typer.BadParameter("nothing says where to write; name a folder or a file after RUN", param_hint="OUT")
    if out is not None and plan:
        raise typer.BadParameter(f"--plan writes nothing; leave {out} out", param_hint="OUT")
    loaded = load(run)
    result, text = TARGETS[to](loaded, out, **given)
    report({"out": out and str(out), "run": str(loaded.path), "to": to, **result}, text, as_json=json)


def to_hf(run: "Run", out: Path) -> Answer:
    from glassformer.hub.folder import read_config, write_folder
    from glassformer.train.run_folder import WEIGHTS
    from glassformer.train.weights import types_in

    tokeniser_json = None if run.tokeniser is None else run.tokeniser.to_json()
    write_folder(
        out,
        run.model,
        run.params,
        tokeniser_json=tokeniser_json,
        chat=run.tokeniser and run.tokeniser.chat,
        classes=run.classes,
        task=run.recipe.task,
        dtype="bfloat16" if types_in(run.path / WEIGHTS) == {"BF16"} else "float32",
    )
    (architecture,) = read_config(out)["architectures"]
    files = sorted(file.name for file in out.iterdir())
    text = f'{", ".join(files)}\nwrote {out}: transformers.{architecture}.from_pretrained("{out}")'
    return {"architecture": architecture, "files": files}, text


def to_peft(run: "Run", out: Path) -> Answer:
    from glassformer.hub.peft import write_adapter
    from glassformer.train.run_folder import RunFolder

    config = write_adapter(out, RunFolder(run.path))
    files = sorted(file.name for file in out.iterdir())
    modules = config["target_modules"]
    text = (
        f"{', '.join(files)}\nwrote {out}: rank {config['r']}, {len(modules)} modules; "
        f'peft.PeftModel.from_pretrained(model, "{out}")'
    )
    return {"files": files, "target_modules": modules, "modules_to_save": config["modules_to_save"]}, text


def to_onnx(run: "Run", out: Path) -> Answer:
    from glassformer.hub.onnx_file import OPSET, onnxruntime_version, write_onnx

    output = "numbers" if run.gives_numbers else "logits"
    file = write_onnx(out, run.model, run.params, classes=run.classes, output=output)
    version = onnxruntime_version()
    compared = "not compared with onnxruntime, which is not installed"
    if file.difference is not None:
        compared = f"largest difference from our logits in onnxruntime {version}: {file.difference:.1e} of the largest"
    lines = [f"{name}: {what}" for name, what in {**file.inputs, output: file.output}.items()]
    lines += [compared, f"wrote {out}: {file.nodes} nodes, {file.bytes:,} bytes, opset {OPSET}"]
    return {"opset": OPSET, "onnxruntime": version, **vars(file)}, "\n".join(lines)


TARGETS: dict[str, Callable[..., Answer]] = {"hf": to_hf, "peft": to_peft, "onnx": to_onnx, "c": to_c}
