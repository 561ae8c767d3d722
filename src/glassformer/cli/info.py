"""glassformer info: what is installed, what a run gave, or what a model is made of and costs."""

from pathlib import Path
from typing import Annotated, Any

import typer


def info(
    what: Annotated[
        str | None, typer.Argument(help="a model (mlp, patch_attention, vit), a preset or a run; nothing: this machine")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="images in the batch that is costed")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="change a setting: width=32, images.classes=26")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Show a model's parts with their shapes, parameters, multiply-adds and bytes; a run's result; or this machine.

    Example: `glassformer info vit --batch 32 --set depth=2`, `glassformer info runs/vit-nano-1`
    """
    from glassformer.cli.output import report

    if what is None:
        about = about_this_machine()
        report(about, in_columns(about), as_json=json)
    elif Path(what).is_dir():
        about = about_run(Path(what))
        report(about, in_columns({name: value for name, value in about.items() if name != "recipe"}), as_json=json)
    else:
        from glassformer.models.summary import summarise
        from glassformer.train.settings import with_changes

        summary = summarise(with_changes(find_model(what), set_ or []), batch)
        report(summary.as_dict(), summary.table(), as_json=json)


def find_model(name: str) -> Any:
    from glassformer.errors import UnknownNameError
    from glassformer.models import MODELS
    from glassformer.names import nearest
    from glassformer.train.presets import preset, preset_names

    if name in MODELS:
        return MODELS[name]()
    if name in preset_names():
        return preset(name).model
    known = [*MODELS, *preset_names()]
    raise UnknownNameError(
        f"no model, preset or run folder is called {name!r}{nearest(name, known)}; known: {', '.join(known)}"
    )


def about_run(path: Path) -> dict[str, Any]:
    from glassformer.train.run import load
    from glassformer.train.settings import to_plain

    run = load(path)
    result = {name: value for name, value in run.metrics.items() if name != "run"}
    state = {} if result else {"state": f"not finished; go on with: glassformer train --resume {path}"}
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
