r"""table.tex: the ranked effects as a table for a paper. It needs \usepackage{booktabs}."""

import unicodedata
from collections.abc import Iterator

from glassformer.lab.report.facts import Line, comparators, coverage, difference_of, on_top, ranked
from glassformer.lab.report.numbers import MINUS, NONE, interval, p_value, points, ranks
from glassformer.lab.study import Study

LATIN = 0x24F  # the last letter of Latin Extended-B
PUNCTUATION = range(0x2010, 0x2027)  # dashes and quotation marks
CAPITALS = ("GAMMA", "DELTA", "THETA", "LAMDA", "XI", "PI", "SIGMA", "UPSILON", "PHI", "PSI", "OMEGA")
NEEDS = r"% needs \usepackage{booktabs}"
OTHER_LETTERS = "; it has letters beyond Latin and Greek: compile it with lualatex or xelatex, and a font that has them"


def greek() -> Iterator[tuple[str, str]]:
    r"""Every letter that LaTeX has a command for: λ is \lambda."""
    for letter in map(chr, range(0x391, 0x3CA)):
        size, _, name = unicodedata.name(letter, "").removeprefix("GREEK ").partition(" LETTER ")
        if name and name not in ("OMICRON", "FINAL SIGMA") and (size == "SMALL" or name in CAPITALS):
            command = name.replace("LAMDA", "LAMBDA").lower()
            yield letter, "\\" + (command.capitalize() if size == "CAPITAL" else command)


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
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "√": r"$\surd$",
    **{letter: f"${command}$" for letter, command in greek()},
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def latex(study: Study) -> str:
    lines, apart = ranked(study), comparators(study)
    rows = [row(one) for one in lines]
    rows += [r"\midrule", *(row(one) for one in apart)] if apart else []
    for title, _, own, _ in on_top(study):
        rows += [
            r"\midrule",
            rf"\multicolumn{{6}}{{p{{0.9\linewidth}}}}{{{safe(title)}}} \\",
            *(row(one) for one in own),
        ]
    seeds, unit = len(study.plan.seeds), safe(study.plan.metric.unit)
    sure = coverage(study).removesuffix(" %")
    about = (
        f"{study.plan.question} Each factor added to the baseline alone, {seeds} paired seeds: mean difference in "
        f"{difference_of(study, '')}, {coverage(study)} interval, p of sign flips, held to skewness, after Holm. "
        + ("Ranks marked =: a tie with some other factor. " if any(one.tied for one in lines) else "")
        + ("Below: added to the first choice, the strongest together." if on_top(study) else "")
    )
    text = "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{safe(about)}}}",
            r"\footnotesize\setlength{\tabcolsep}{4pt}",
            r"\begin{tabular}{lp{0.28\linewidth}rrrl}",
            r"\toprule",
            rf"Ranks & Factor & {unit[:1].upper()}{unit[1:]} & {sure}\,\% interval & $p$ & Verdict \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
    foreign = any(ord(letter) > LATIN and ord(letter) not in PUNCTUATION for letter in text)
    return f"{NEEDS}{OTHER_LETTERS if foreign else ''}\n{text}"


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
