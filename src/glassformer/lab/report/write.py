"""All files of a report, each written whole."""

from pathlib import Path

from glassformer.files import write_whole
from glassformer.lab.report.as_csv import as_csv
from glassformer.lab.report.as_json import as_json
from glassformer.lab.report.latex import latex
from glassformer.lab.report.markdown import markdown
from glassformer.lab.report.page import page
from glassformer.lab.study import Study

FORMATS = {
    "report.html": page,
    "report.md": markdown,
    "results.csv": as_csv,
    "results.json": as_json,
    "table.tex": latex,
}


def write_report(study: Study, folder: Path) -> dict[str, Path]:
    """By name, where each lies. What was there before is replaced."""
    for name, form in FORMATS.items():
        write_whole(folder / name, form(study))
    return {name: folder / name for name in FORMATS}
