"""The page: one trace as one HTML file that needs nothing else, neither a server nor the network.

The payload stands in it together with the viewer's style and JavaScript (web/). Whatever comes from outside (file
names, texts, class names) is data to the page, never markup: it is written as JSON without a single `<`, and a content
policy allows only the script whose hash it names.
"""

import base64
import hashlib
import html
import json
import re
from graphlib import TopologicalSorter
from importlib.resources import files
from typing import Any

import numpy as np

from glassformer.errors import ContractError
from glassformer.lens.payload import view
from glassformer.lens.trace_input import image_input
from glassformer.predict.run import Run

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)


def page(shown: dict[str, Any]) -> str:
    """One HTML file."""
    style, script = web("style.css") + web("what_if.css"), bundle()
    policy = (
        f"default-src 'none'; script-src '{hashed(script)}'; style-src '{hashed(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{shown['input']['name']} · {shown['run'] or shown['model']} · glassformer"
    filled = {"policy": policy, "title": html.escape(title), "style": style, "script": script, "trace": as_json(shown)}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], web("page.html"))


def view_image(run: Run, name: str, image: np.ndarray, label: int | None = None) -> str:
    """The page of one image, from Python.

    >>> from glassformer.data import load as load_data
    >>> from glassformer.predict.run import load
    >>> html = view_image(load(), "test:0", load_data("mnist-mini").test.images[0], 7)
    >>> html[:15]
    '<!DOCTYPE html>'
    """
    run.images  # noqa: B018  a run that reads something else says so
    return page(view(run, image_input(run, name, image, label)))


def as_json(shown: dict[str, Any]) -> str:
    """JSON that can stand inside HTML: no `<` could end or open anything."""
    return json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")


def hashed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def web(name: str) -> str:
    return (files("glassformer.lens") / "web" / name).read_text(encoding="utf-8")


def bundle(start: str = "main") -> str:
    """The modules as one script: each becomes a function that returns what it exports, those it imports before it."""
    sources: dict[str, str] = {}
    needs: dict[str, set[str]] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = web(f"{name}.js")
            needs[name] = {found[1] for found in IMPORT.findall(sources[name])}
            waiting += needs[name]
    return "\n".join(wrapped(name, sources[name]) for name in TopologicalSorter(needs).static_order())


def wrapped(name: str, source: str) -> str:
    exported = [found[1] for found in EXPORT.findall(source)]
    body = IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = ${found[2]};\n", source)
    body = EXPORT.sub(r"\1 \2", body)
    left = re.search(r"^(import|export)\b.*", body, re.MULTILINE)
    if left or "</script" in body.lower():
        what = left[0] if left else "</script"
        raise ContractError(f"web/{name}.js: {what!r} cannot be put into a page; import {{names}}, export functions")
    return f"const ${name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"
