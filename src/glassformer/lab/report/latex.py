r"""table.tex: the ranked effects as a table for a paper. It needs \usepackage{booktabs}."""

from glassformer.lab.report.facts import Line, comparators, measure_of, on_top, ranked
from glassformer.lab.report.numbers import MINUS, NONE, interval, p_value, points, ranks
from glassformer.lab.study import Study

ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    NONE: "--",
    "—": "---",
    "…": r"\dots{}",
    MINUS: "$-$",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "·": r"$\cdot$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def latex(study: Study) -> str:
    lines, apart = ranked(study), comparators(study)
    rows = [row(one) for one in lines]
    rows += [r"\midrule", *(row(one) for one in apart)] if apart else []
    for title, _, own, _ in on_top(study):
        rows += [r"\midrule", rf"\multicolumn{{6}}{{l}}{{{safe(title)}}} \\", *(row(one) for one in own)]
    seeds = len(study.plan.seeds)
    about = (
        f"{study.plan.question} Each factor added to the baseline alone, {seeds} paired seeds: mean difference in "
        f"percentage points of {measure_of(study, '')}, 95 % interval, p of the exact sign-flip test after Holm. "
        + ("Ranks marked = may be another's, too. " if any(one.tied for one in lines) else "")
        + ("Below: added to the first choice, the strongest together." if on_top(study) else "")
    )
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{safe(about)}}}",
            r"\begin{tabular}{llrrrl}",
            r"\toprule",
            r"Ranks & Factor & Points & 95\,\% interval & $p$ & Verdict \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def row(line: Line) -> str:
    rank = "--" if line.rank is None else safe(ranks(line.rank)) + ("=" if line.tied else "")
    effect = line.effect
    numbers = ["--"] * 3 if effect is None else [points(effect), interval(effect), p_value(effect.p_holm)]
    cells = [rank, safe(line.name), *(maths(number) for number in numbers), safe(line.finding.word)]
    return " & ".join(cells) + r" \\"


def maths(number: str) -> str:
    """Signs as signs, not as hyphens."""
    return number if number == "--" else f"${number.replace(MINUS, '-')}$"


def safe(words: str) -> str:
    r"""
    >>> print(safe("50 % of a_b & {c}"))
    50 \% of a\_b \& \{c\}
    """
    kept = "".join(c for c in " ".join(words.split()) if c.isprintable())
    return "".join(ESCAPES.get(c, c) for c in kept)
