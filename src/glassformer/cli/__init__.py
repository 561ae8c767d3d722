"""The command line: one file per command. Answers go to stdout, progress and notices to stderr.

Only `main` catches the project's errors; JAX is imported inside commands, so that `--help` answers at once.
"""

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.cli.attend import attend
from glassformer.cli.bench import bench
from glassformer.cli.bench_edge import edge
from glassformer.cli.bench_embed import embed as bench_embed
from glassformer.cli.bench_fine_tuning import fine_tuning
from glassformer.cli.bench_generate import generate as bench_generate
from glassformer.cli.bench_gpu import context
from glassformer.cli.bench_memory import memory
from glassformer.cli.compare import CompareCommand, compare
from glassformer.cli.data import data
from glassformer.cli.diagnose import diagnose
from glassformer.cli.embed import embed
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
from glassformer.user_cache import keep_programs

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)  # no mistake of the program's

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
app.command(cls=CompareCommand)(compare)
app.command()(predict)
app.command()(embed)
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
bench.command()(edge)
bench.command()(memory)
bench.command("embed")(bench_embed)
bench.command("generate")(bench_generate)
bench.command()(context)
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
    keep_programs()


def main() -> None:
    from glassformer.errors import GlassformerError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # on a terminal of ASCII ± is ?, and not the end of the command
    try:
        try:
            app(prog_name="glassformer")
        finally:
            sys.stdout.flush()  # what cannot be written is noticed here, not when Python is gone
    except GlassformerError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        if error.errno == errno.EPIPE:  # `| head` has seen enough
            fail("")
        fail(f"{error.filename or 'the output'}: cannot be written: {error.strerror}; free some space")


def fail(message: str) -> None:
    with contextlib.suppress(OSError):
        if message:
            print(f"glassformer: {message}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # what is left in it would be tried once more at the very end
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(1)
