"""The command line: one file per command. Answers go to stdout, progress and notices to stderr.

Only `main` catches the project's errors; JAX is imported inside commands, so that `--help` answers at once.
"""

import sys
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.cli.attend import attend
from glassformer.cli.bench import bench
from glassformer.cli.bench_fine_tuning import fine_tuning
from glassformer.cli.data import data
from glassformer.cli.diagnose import diagnose
from glassformer.cli.eval import eval_
from glassformer.cli.export import export
from glassformer.cli.generate import generate
from glassformer.cli.gradcheck import gradcheck
from glassformer.cli.import_ import import_
from glassformer.cli.info import info
from glassformer.cli.investigate import investigate
from glassformer.cli.predict import predict
from glassformer.cli.studio import studio
from glassformer.cli.template import template
from glassformer.cli.trace import trace
from glassformer.cli.train import train
from glassformer.cli.view import view

app = typer.Typer(
    name="glassformer",
    help="Train, explain and ship small attention models, and hide nothing.",
    epilog="Start with: glassformer train",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command("eval")(eval_)
app.command()(predict)
app.command()(attend)
app.command()(trace)
app.command()(view)
app.command()(studio)
app.command()(generate)
app.command()(info)
app.command()(gradcheck)
app.command()(investigate)
app.command()(diagnose)
app.command("import")(import_)
app.command()(export)
app.command()(template)
bench.command("fine-tuning")(fine_tuning)
app.add_typer(bench, name="bench")
app.add_typer(data, name="data")


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="show the version and stop")
    ] = False,
) -> None:
    pass


def main() -> None:
    from glassformer.errors import GlassformerError

    try:
        app(prog_name="glassformer")
    except GlassformerError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        sys.exit(1)
