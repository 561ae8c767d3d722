"""glassformer studio: the page, live: draw, type, compare runs, and watch them train."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.code import Code


def studio(
    runs: Annotated[Path, typer.Argument(help="folder of runs, or one run (it may be missing)")] = Path("runs"),
    host: Annotated[str, typer.Option(help="address to listen on; only this machine can reach the usual one")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="port to listen on; 0: that of the last time, 8765, or a free one", show_default="0"
        ),
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="print the address and open no browser")] = False,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Serve a page on this machine: draw a digit or type a text and see what the model sees; watch runs as they train.

    The address it prints holds a token; whoever has it can look at the runs. Ctrl-C ends it. Started again on the same
    folder it has the same address, if its port is still free: pages that are open come back.

    Example: `glassformer studio`, `glassformer studio runs --port 8000 --no-browser`
    """
    from glassformer.cli.output import report
    from glassformer.errors import EngineError

    try:
        from glassformer.lens.studio.serve import is_loopback, open_address, serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise EngineError("studio: needs starlette and uvicorn: pip install 'glassformer[studio]'") from None
    address = open_address(host, port, runs)
    if not is_loopback(host):
        print(
            f"glassformer: {host} can be reached from other machines: anyone who has the address below can look at "
            "the runs and use this machine; nothing is encrypted",
            file=sys.stderr,
        )
    result = {"address": address.url, "host": host, "port": address.port, "runs": str(runs)}

    def ready() -> None:
        report(result, f"studio at {address.url}  (Ctrl-C ends it)", as_json=json)
        sys.stdout.flush()
        if not no_browser:
            open_browser(address.url)

    serve(runs, address, ready)


def open_browser(url: str) -> None:
    """Beside: some browsers keep who started them waiting; and where there is none, the address was printed."""
    import contextlib
    import threading
    import webbrowser

    def attempt() -> None:
        with contextlib.suppress(Exception):
            webbrowser.open(url)

    threading.Thread(target=attempt, daemon=True).start()
