"""glassformer gradcheck: prove a layer's gradients, the project's or your own."""

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.check import Case, Report
    from glassformer.layers import Layer


def gradcheck(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="names of layers, losses or models, also registered ones; or your own: my_layers.py:MyLayer(width=6)"
        ),
    ] = None,
    x: Annotated[str, typer.Option(help="shape of the input, where its annotation does not say: 2,5,6")] = "",
    seed: Annotated[int, typer.Option(help="seed of the example that is drawn")] = 0,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Compare backward with autodiff and with finite differences, in float64, with random parameters and a random dy.

    Without a name, everything is checked; with --code, what its files register. The error of a gradient is its largest
    difference from the referee, divided by the largest gradient in the layer. Also checked: declared shapes, and that
    every name says what it shows.

    Example: `glassformer gradcheck attention`, `glassformer gradcheck "my_layers.py:MyLayer(width=6)"`
    """
    from glassformer.check import check
    from glassformer.cli.output import progress, report

    cases = find_cases(names or (own_names() if code else []), x)
    reports = [check(case, seed) for case in progress(cases, len(cases), "checking")]
    result = {"ok": all(r.ok for r in reports), "layers": [asdict(r) | {"ok": r.ok} for r in reports]}
    report(result, table(reports), as_json=json)
    if not result["ok"]:
        raise typer.Exit(1)


def own_names() -> list[str]:
    """What the loaded files have registered, as far as it can be made without settings."""
    from glassformer import registry
    from glassformer.errors import ContractError

    own = {name: cls for what in ("layer", "loss", "model") for name, cls in registry.of_code(what).items()}
    needy = [name for name, cls in own.items() if any(map(is_needed, inspect.signature(cls).parameters.values()))]
    for name in needy:
        typer.echo(f"note: {name} has settings without a default; check it by name: '{name}(width=6)'", err=True)
    if not own.keys() - needy:
        raise ContractError("--code: nothing to check is registered there; name it: my_layers.py:MyLayer(width=6)")
    return [name for name in own if name not in needy]


def is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def find_cases(names: list[str], x: str) -> list["Case"]:
    from glassformer.check import CASES, Case
    from glassformer.check.load import load_layer, registered_layer
    from glassformer.errors import UnknownNameError
    from glassformer.names import nearest

    chosen: dict[str, Case] = {} if names else dict(CASES)
    for name in names:
        if ".py:" in name:
            file, _, title = name.rpartition(":")
            chosen[name] = own_case(title, load_layer(name), x, Path(file).resolve())
            continue
        if layer := registered_layer(name):
            chosen[name] = own_case(name, layer, x, Path(inspect.getfile(type(layer))))
            continue
        matching = {case.name: case for case in CASES.values() if plain(case.name).startswith(plain(name))}
        if not matching:
            known = ", ".join(dict.fromkeys(case.partition(" (")[0] for case in CASES))
            raise UnknownNameError(
                f"no layer is called {name!r}{nearest(name, CASES)}; known: {known}; or your own: file.py:MyLayer"
            )
        chosen |= matching
    return list(chosen.values())


def own_case(title: str, layer: "Layer", x: str, file: Path) -> "Case":
    """The input is as asked for, as a model declares it, or as the annotations say."""
    import jax
    import jax.numpy as jnp

    from glassformer.check import Case
    from glassformer.models import Network

    shape, spread = parse_shape(x), 1.0
    declared = layer.example(2) if isinstance(layer, Network) else None
    if shape is None and isinstance(declared, jax.ShapeDtypeStruct):
        is_bytes = declared.dtype == jnp.uint8
        if is_bytes or jnp.issubdtype(declared.dtype, jnp.floating):
            shape, spread = declared.shape, 100.0 if is_bytes else 1.0
    return Case(title, layer, shape=shape, spread=spread, file=file)


def plain(name: str) -> str:
    """So that LayerNorm, layer_norm and "layer norm" are one name."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def parse_shape(text: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(size) for size in text.split(",")) if text else None
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} came, expected sizes with commas, such as 2,5,6", param_hint="--x"
        ) from None


def table(reports: list["Report"]) -> str:
    from glassformer.check.report import READ

    width = max(len(r.name) for r in reports)
    lines = [f"{'layer':{width}}  parameters  against autodiff  finite differences"]
    lines.append(f"{'-' * width}  ----------  ----------------  ------------------")
    for r in reports:
        mark = "ok" if r.ok else "WRONG"
        lines.append(
            f"{r.name:{width}}  {r.parameters:10,}  {r.against_autodiff:16.1e}  {r.against_differences:18.1e}  {mark}"
        )
    for r in reports:
        lines += [f"\n{r.name}:" if r.problems or r.notes else "", *(f"  - {problem}" for problem in r.problems)]
        lines += [f"  - note: {note}" for note in r.notes]
    wrong = sum(not r.ok for r in reports)
    lines.append(f"\n{len(reports) - wrong} of {len(reports)} keep the contract" + (f"\n{READ}" if wrong else ""))
    return "\n".join(line for i, line in enumerate(lines) if line or i == 0)
