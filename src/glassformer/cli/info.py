"""glassformer info: what is installed, what a run gave, or what a model is made of and costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.models.model import Network
    from glassformer.native.plan import Plan
    from glassformer.train.recipe import Recipe


def info(
    what: Annotated[
        str | None, typer.Argument(help="a model (mlp, vit, gpt, …), a preset or a run; nothing: this machine")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", "-b", min=1, help="samples in the batch (default: 1; with --c the recipe's)"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="change a setting of the model: width=32, images.classes=26")
    ] = None,
    c: Annotated[bool, typer.Option("--c", help="the C that the native engine compiles for this model")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="its buffers: shape, bytes, when they are alive")] = False,
    mesh: Annotated[
        str, typer.Option(help="where its parameters lie on a mesh of devices, data=4,model=2, and what a step sends")
    ] = "",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Show a model's parts with their shapes, parameters, multiply-adds and bytes; a run's result; or this machine.

    Example: `glassformer info vit --batch 32 --set depth=2`, `glassformer info runs/vit-nano-1`,
    `glassformer info attention-pool --c`, `glassformer info gpt-nano --mesh data=4,model=2`
    """
    from glassformer.cli.output import report

    if c or plan:
        about = about_native(what, batch, set_ or [], c=c, plan=plan)
        report(about, "\n\n".join(text_of_native(about)), as_json=json)
    elif mesh:
        report_mesh(what, mesh, batch, set_ or [], as_json=json)
    elif what is None:
        about = about_this_machine()
        report(about, in_columns(about), as_json=json)
    elif Path(what).is_dir():
        about = about_run(Path(what))
        report(about, in_columns({name: value for name, value in about.items() if name != "recipe"}), as_json=json)
    else:
        from glassformer.models.summary import summarise

        recipe = find_recipe(what)
        model = changed(recipe.model, set_ or [])
        note_vocabulary(recipe, model)
        summary = summarise(model, batch or 1)
        report(summary.as_dict(), summary.table(), as_json=json)


def report_mesh(what: str | None, mesh: str, batch: int | None, changes: list[str], *, as_json: bool) -> None:
    from dataclasses import fields, replace

    from glassformer.cli.output import report
    from glassformer.train.mesh_report import mesh_report
    from glassformer.train.run_folder import RunFolder
    from glassformer.train.settings import with_changes

    if what is None:
        raise typer.BadParameter("a mesh is about a model: name one, a preset or a run", param_hint="--mesh")
    recipe = RunFolder(Path(what)).recipe() if Path(what).is_dir() else find_recipe(what)
    parts = tuple(f"{field.name}." for field in fields(recipe) if field.name != "model")
    of_model = [change for change in changes if not change.strip().startswith(parts)]
    recipe = with_changes(recipe, [change for change in changes if change not in of_model])
    model = changed(recipe.model, of_model)
    note_vocabulary(recipe, model)
    training = replace(recipe.training, batch=batch or recipe.training.batch)
    about = mesh_report(replace(recipe, model=model, training=training), mesh)
    report(about.as_dict(), about.table(), as_json=as_json)


def changed(model: "Network", changes: list[str]) -> "Network":
    """With settings by their name in the model, or in the whole recipe as `train` takes them: model.width=32."""
    from glassformer.train.settings import with_changes

    return with_changes(model, [change.strip().removeprefix("model.") for change in changes])


def note_vocabulary(recipe: "Recipe", model: "Network") -> None:
    """A preset takes its symbols from the data it will meet: until then the sizes are those of a guess."""
    from glassformer.models.text import Text

    text: Any = model.input
    if recipe.tokeniser and text.reads == Text.reads and text.vocabulary == Text().vocabulary:
        rounded = -(-text.vocabulary // text.multiple) * text.multiple
        example = f"={rounded}, a multiple of {text.multiple} as in training" if text.multiple > 1 else "=100"
        typer.echo(
            f"note: how many symbols there are is up to the data; {text.vocabulary:,} are assumed: "
            f"--set text.vocabulary{example}",
            err=True,
        )


def find_recipe(name: str) -> "Recipe":
    """A preset; or a model by its name, trained as recipes are that say nothing else."""
    from glassformer import registry
    from glassformer.errors import UnknownNameError
    from glassformer.names import nearest
    from glassformer.train.presets import preset, preset_names
    from glassformer.train.recipe import Recipe
    from glassformer.train.settings import from_plain

    if name in registry.names("model"):
        return from_plain(Recipe, {"model": {"kind": name}})
    if name in preset_names():
        return preset(name)
    known = [*registry.names("model"), *preset_names()]
    raise UnknownNameError(
        f"no model, preset or run folder is called {name!r}{nearest(name, known)}; known: {', '.join(known)}"
    )


def about_native(what: str | None, batch: int | None, changes: list[str], *, c: bool, plan: bool) -> dict[str, Any]:
    """What the native engine makes of a model: the C itself, and the buffers."""
    from glassformer.errors import EngineError
    from glassformer.native.engine import samples_at_once
    from glassformer.native.lower import plan_for
    from glassformer.native.write import source_of
    from glassformer.train.run_folder import RunFolder

    if what is None:
        raise typer.BadParameter("--c and --plan are about a model: name one, a preset or a run", param_hint="WHAT")
    recipe = RunFolder(Path(what)).recipe() if Path(what).is_dir() else find_recipe(what)
    model = changed(recipe.model, changes)
    try:
        samples, rewrites = samples_at_once(model, batch or recipe.training.batch), recipe.engine.rewrites
    except EngineError as error:
        raise EngineError(f"{what}: {error}; leave out --c and --plan") from None
    about: dict[str, Any] = {"model": repr(model), "samples": samples}
    if c:
        about["source"] = source_of(model, samples, rewrites=rewrites)
    if plan:
        about["training"] = placed(plan_for(model, samples, rewrites=rewrites))
        about["forward_only"] = placed(plan_for(model, samples, rewrites=rewrites, training=False))
    return about


def placed(plan: "Plan") -> dict[str, Any]:
    """Every buffer at its place. Rows are padded as for the widest vectors there are, as in the C."""
    from glassformer.native.plan import padded, place
    from glassformer.native.write import LANES

    arena = place(plan, LANES)
    calls = [call.kernel for call in plan.calls]
    buffers = [
        {
            "name": buffer.name,
            "shape": [padded(size, LANES) for size in buffer.shape],
            "bytes": 4 * buffer.floats(LANES),
            "offset": 4 * buffer.offset,
            "from": buffer.born,
            "to": buffer.dies,
        }
        for buffer in plan.buffers
    ]
    return {"arena": 4 * arena, "calls": calls, "buffers": buffers}


def text_of_native(about: dict[str, Any]) -> list[str]:
    parts = [about["source"].removesuffix("\n")] if "source" in about else []
    for name in ("training", "forward_only"):
        if name in about:
            parts.append(plan_table(name.replace("_", " "), about["samples"], about[name]))
    return parts


def plan_table(title: str, samples: int, plan: dict[str, Any]) -> str:
    """The buffers as aligned text."""
    together = sum(buffer["bytes"] for buffer in plan["buffers"])
    head = ["buffer", "shape", "bytes", "offset", "from call", "to call"]
    rows = [
        [
            buffer["name"],
            "x".join(map(str, buffer["shape"])),
            f"{buffer['bytes']:,}",
            f"{buffer['offset']:,}",
            *(call_text(plan["calls"], buffer[end]) for end in ("from", "to")),
        ]
        for buffer in plan["buffers"]
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    numbers = (2, 3)

    def line(row: list[str]) -> str:
        cells = [
            cell.rjust(w) if i in numbers else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    one = "1 sample" if samples == 1 else f"{samples} samples"
    rule = "  ".join("-" * width for width in widths)
    total = f"arena {plan['arena']:,} bytes for {one} at a time; without sharing {together:,}"
    return "\n".join([f"{title}: {len(plan['calls'])} calls", line(head), rule, *map(line, rows), rule, total])


def call_text(calls: list[str], number: int) -> str:
    """After the last call comes whoever reads the logits."""
    return f"{number:>2} {calls[number] if number < len(calls) else 'the caller'}"


def about_run(path: Path) -> dict[str, Any]:
    from glassformer.predict.run import load
    from glassformer.train.settings import to_plain
    from glassformer.train.tasks import Vectors

    run = load(path)
    result = {name: value for name, value in run.metrics.items() if name != "run"}
    state = {} if result else {"state": f"not finished; go on with: glassformer train --resume {path}"}
    if isinstance(run.recipe.task, Vectors):
        task = run.recipe.task
        how = f"{task.pooling} of the tokens{', normalised' if task.normalise else ''}"
        state = {"gives": f"embeddings, {how}: glassformer embed {path}"}
    about = {"run": str(path), "model": type(run.model).__name__, "data": run.recipe.data}
    return {**about, **result, **state, "recipe": to_plain(run.recipe)}


def about_this_machine() -> dict[str, Any]:
    import platform
    from importlib.metadata import version

    import jax

    from glassformer import __version__
    from glassformer.data.download import cache_folder

    return {
        "glassformer": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": version("optax"),
        "devices": ", ".join(f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()),
        "machine": f"{platform.machine()}, {platform.system()}",
        "data cache": str(cache_folder()),
    }


def in_columns(about: dict[str, Any]) -> str:
    width = max(map(len, about))
    return "\n".join(f"{name:{width}}  {value}" for name, value in about.items())
