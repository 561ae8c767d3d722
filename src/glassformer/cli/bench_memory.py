"""glassformer bench memory: what a training step takes, by the way of attention."""

from dataclasses import asdict
from typing import Annotated

import typer


def memory(
    ways: Annotated[list[str] | None, typer.Argument(help="plain, blockwise+checkpoint, … (default: all)")] = None,
    tokens: Annotated[int, typer.Option(min=2, help="length of the text")] = 8192,
    width: Annotated[int, typer.Option(min=1, help="of the model")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="of each block")] = 2,
    depth: Annotated[int, typer.Option(min=1, help="number of blocks")] = 2,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """The memory that a training step of a GPT takes on a long text, by the way it attends: measured, on Linux.

    Example: `glassformer bench memory plain blockwise+checkpoint --tokens 4096`
    """
    from glassformer.bench.memory import WAYS, Sizes, measured
    from glassformer.bench.training import check_names
    from glassformer.cli.output import progress, report
    from glassformer.cores import cores

    names = ways or list(WAYS)
    check_names("memory", names, tuple(WAYS))
    sizes = Sizes(tokens, width, heads, depth)
    results = [*progress((measured(name, sizes) for name in names), len(names), "training")]
    most = max(r.megabytes for r in results)
    longest = max(map(len, names))
    lines = [f"{'attend':{longest}}  MB of a step  of the most  s per step    loss"]
    for r in results:
        share = r.megabytes / most
        lines.append(f"{r.way:{longest}}  {r.megabytes:12,.0f}  {share:11.1%}  {r.seconds:10.2f}  {r.loss:.4f}")
    lines += ["", f"a GPT of {depth} blocks of width {width}, {heads} heads, on {tokens:,} tokens; {cores()} cores"]
    answer = {"sizes": asdict(sizes), "cores": cores(), "ways": [asdict(r) for r in results]}
    report(answer, "\n".join(lines), as_json=json)
