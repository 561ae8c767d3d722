"""table.tex is compiled, where LaTeX can be had: the shipped study's, and one whose names try to break it.

Debian: apt-get install --no-install-recommends texlive-latex-recommended (150 MB).
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.lab.analysis import analyse
from glassformer.lab.folder import plan_of
from glassformer.lab.record import Results
from glassformer.lab.report.latex import OTHER_LETTERS, latex, safe
from glassformer.lab.study import Study

from .studies import study

SHIPPED = Path(__file__).parents[2] / "studies/attention-accuracy"
LATEX = next((found for found in map(shutil.which, ("pdflatex", "tectonic")) if found), "")
HOSTILE = r"50 % of a_b & {c} #1 $x$ ~ ^ \input{x} “é” ±·→≤≥≈∞√ λ β Δ Σ <b> |x| -- fi"
needs_latex = pytest.mark.skipif(not LATEX, reason="neither pdflatex nor tectonic is installed")


@pytest.fixture(scope="module")
def shipped() -> Study:
    return analyse(plan_of(SHIPPED), Results(SHIPPED))


def compiled(folder: Path, table: str) -> str:
    """What LaTeX logs, of a document with nothing but the table."""
    text = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + table + "\\end{document}\n"
    (folder / "paper.tex").write_text(text, encoding="utf-8")
    more = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in LATEX else ["--keep-logs"]
    done = subprocess.run([LATEX, *more, "paper.tex"], cwd=folder, capture_output=True, timeout=100)
    log = (folder / "paper.log").read_text(errors="replace") if (folder / "paper.log").exists() else ""
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")
    return log


@needs_latex
@pytest.mark.slow
def test_the_shipped_table_compiles_and_fits(tmp_path: Path, shipped: Study) -> None:
    table = latex(shipped)
    assert OTHER_LETTERS not in table
    assert "Overfull" not in compiled(tmp_path, table)


@needs_latex
@pytest.mark.slow
def test_names_that_try_to_break_it(tmp_path: Path) -> None:
    made = study()
    hostile = replace(made, plan=replace(made.plan, question=HOSTILE))
    compiled(tmp_path, latex(hostile))


def test_greek_is_mathematics_and_other_letters_are_announced() -> None:
    assert safe("λ Δ ω") == r"$\lambda$ $\Delta$ $\omega$"
    made = study()
    foreign = latex(replace(made, plan=replace(made.plan, question="宽")))
    assert OTHER_LETTERS in foreign.partition("\n")[0]
    assert OTHER_LETTERS not in latex(made)
