"""glassformer info: what is installed, or what a model is made of and costs."""

from typing import Annotated, Any

import typer


def info(
    model: Annotated[
        str | None, typer.Argument(help="mlp, patch_attention or vit; nothing: about this machine")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="images in the batch that is costed")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="change a setting: width=32, images.classes=26")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Show a model's parts with their shapes, parameters, multiply-adds and bytes; or versions and devices.

    Example: `glassformer info vit --batch 32 --set depth=2 --set heads=8`
    """
    from glassformer.cli.output import report

    if model is None:
        about = about_this_machine()
        width = max(map(len, about))
        report(about, "\n".join(f"{name:{width}}  {value}" for name, value in about.items()), as_json=json)
        return
    from glassformer.errors import UnknownNameError
    from glassformer.models import MODELS
    from glassformer.models.summary import summarise
    from glassformer.names import nearest
    from glassformer.train.settings import with_changes

    if model not in MODELS:
        raise UnknownNameError(f"no model is called {model!r}{nearest(model, MODELS)}; known: {', '.join(MODELS)}")
    summary = summarise(with_changes(MODELS[model](), set_ or []), batch)
    report(summary.as_dict(), summary.table(), as_json=json)


def about_this_machine() -> dict[str, Any]:
    import platform
    from importlib.metadata import version

    import jax

    from glassformer import __version__

    return {
        "glassformer": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": version("optax"),
        "devices": ", ".join(f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()),
        "machine": f"{platform.machine()}, {platform.system()}",
    }
