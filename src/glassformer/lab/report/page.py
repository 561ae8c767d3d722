"""report.html: one file that needs nothing else. It reads without JavaScript, which only adds pointing and sorting.

Whatever the plan says (names, hypotheses, its text) is escaped by `markup.el`; a content policy allows the one style
sheet and the one script whose hashes it names.
"""

import re
from importlib.resources import files

from glassformer.lab.report import palette
from glassformer.lab.report.facts import coverage
from glassformer.lab.report.markup import Markup, el
from glassformer.lab.report.opening import opening
from glassformer.lab.report.sections import sections
from glassformer.lab.study import Study
from glassformer.lens.page import hashed


def page(study: Study) -> str:
    style, script = style_sheet(), web("report.js")
    policy = (
        f"default-src 'none'; script-src '{hashed(script)}'; style-src '{hashed(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{study.plan.question or study.plan.name} · glassformer"),
        el("style", Markup(style)),
    )
    body = el(
        "body",
        el("main", opening(study), *sections(study)),
        el(
            "footer",
            f"Written by glassformer. Intervals are {coverage(study)}, of differences seed by seed.",
        ),
        el("div", id="tip", role="status"),
        el("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def style_sheet() -> str:
    filled = {"light": palette.style("light"), "dark": palette.style("dark"), "classes": palette.classes()}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], web("report.css"))


def web(name: str) -> str:
    return (files("glassformer.lab.report") / name).read_text(encoding="utf-8")
