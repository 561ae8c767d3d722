"""glassformer compare: which of several runs answers better, on the same test samples."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from glassformer.cli.code import Code
from glassformer.cli.usage import value_of

BETWEEN = "\n"  # the runs of one --with


class CompareCommand(TyperCommand):
    """`--with B-1 B-2 B-3` takes all runs up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, gathered(args))


def gathered(args: list[str]) -> list[str]:
    """
    >>> gathered(["a-1", "a-2", "--with", "b-1", "b-2", "--json"])
    ['a-1', 'a-2', '--with', 'b-1\\nb-2', '--json']
    """
    found: list[str] = []
    i = 0
    while i < len(args):
        found.append(args[i])
        i += 1
        if found[-1] == "--with":
            end = next((j for j in range(i, len(args)) if args[j].startswith("-")), len(args))
            found += [BETWEEN.join(args[i:end])] if end > i else []
            i = end
    return found


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="run folders, or folders of several seeds; each is a side of its own"),
    ],
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="RUN...", help="the runs before it are one side, these another: one recipe, several seeds"
        ),
    ] = None,
    data: Annotated[str, typer.Option("--data", "-d", help="data set name, or a path (default: the runs')")] = "",
    by: Annotated[
        str, typer.Option(help="the score that decides: accuracy, 'exact match' or loss (default: the task's)")
    ] = "",
    margin: Annotated[
        float | None,
        typer.Option(help="a difference that does not matter, in points or nats: tests equivalence, too (TOST)"),
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="only against the first, not all pairs")] = False,
    csv: Annotated[Path | None, typer.Option(help="write the table into this file")] = None,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Say which run answers better on the same test samples: exact McNemar, bootstrap over samples, tests over seeds.

    Sentences follow from tests: better, worse, not decided; with --margin also equivalent. Several pairs are corrected
    by Holm. Runs are paired by what is in their data, not by its name.

    Example: `glassformer compare runs/vit-pico-1 runs/vit-pico-2`,
    `glassformer compare runs/a-1 runs/a-2 runs/a-3 --with runs/b-1 runs/b-2 runs/b-3 --margin 0.5`
    """
    from glassformer.cli.output import counted, report
    from glassformer.files import write_whole
    from glassformer.lab.compare import compare as run
    from glassformer.lab.compare import must_be_margin, must_be_score, must_be_several
    from glassformer.lab.compare_text import as_csv, as_plain, as_text

    sides: list[list[str | Path]] = (
        [[*runs], *([*one.split(BETWEEN)] for one in with_)] if with_ else [[one] for one in runs]
    )
    with value_of("RUN"):
        must_be_several(sides)
    with value_of("--margin"):
        must_be_margin(margin)
    with value_of("--by"):
        must_be_score(by)
    with counted(sum(map(len, sides)), "scoring") as count:
        found = run(sides, data=data, by=by, margin=margin, first_only=first, listener=lambda _: count(1))
    if csv:
        write_whole(csv, as_csv(found))
    text = as_text(found)
    result = {**as_plain(found), "csv": str(csv) if csv else None}
    report(result, f"{text}\n\nwrote {csv}" if csv else text, as_json=json)
