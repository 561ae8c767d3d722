# ruff: noqa: E501 - lines of the page
"""docs/attention-accuracy.md from the numbers of studies/attention-accuracy/results.json: none is typed by hand.

python scripts/attention_accuracy_page.py [STUDY]     after every `glassformer investigate studies/attention-accuracy`
python scripts/twelve_seeds.py [STUDY]                what its first twelve seeds say by themselves, which the page compares
"""

import json
import math
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import attention_accuracy_grown as grown
from scipy.stats import t

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "studies/attention-accuracy", ROOT / "docs/attention-accuracy.md"
GROUP = "repeat-seed"
FIRST = {  # what the first study had, one seed each, in percent
    (): ("baseline, width 16", 37.73),
    ("first: capacity",): ("width 64", 44.42),
    ("first: capacity", "first: rate 0.001"): ("… rate 0.001", 18.98),
    ("first: capacity", "first: rate 0.003"): ("… rate 0.003", 22.88),
    ("first: capacity", "first: rate 0.005"): ("… rate 0.005", 28.15),
    ("first: capacity", "first: positions ±0.5"): ("… positions ±0.5", 71.86),
    ("first: capacity", "first: positions sinusoidal"): ("… positions sinusoidal", 83.45),
    ("first: capacity", "first: positions zero"): ("… positions zero", 35.65),
    ("first: capacity", "first: positions Xavier"): ("… positions Xavier", 45.63),
}
INSIDE = ("", "width 64", "positions zero", "positions ±0.5", "positions sinusoidal", "rate 0.1", "layer norm")
INSIDE += ("50 epochs", "AdamW")


class Study:
    def __init__(self, folder: Path = FOLDER) -> None:
        self.json = json.loads((folder / "results.json").read_text())
        before = folder / "twelve-seeds.json"
        self.before = json.loads(before.read_text()) if before.exists() else None
        self.cells = {(tuple(one["factors"]), one["group"]): one for one in self.json["cells"]}
        self.ranks = {one["factor"]: one for one in self.json["ranks"]}

    def finding(self, name: str, kind: str = "add", group: str = "") -> Any:
        found = [f for f in self.json["findings"] if (f["factors"], f["kind"], f["group"]) == ([name], kind, group)]
        return found[0] if found else None

    def size(self, name: str, kind: str = "add", group: str = "") -> str:
        """+22.9 points [17.6, 29.0]: contributes"""
        one = self.finding(name, kind, group)
        if one is None or one["effect"] is None:
            return "not run"
        effect = one["effect"]
        places = 1 if effect["high"] - effect["low"] >= 0.5 else 2
        mean, low, high = (round(effect[key], places) + 0.0 for key in ("mean", "low", "high"))
        return f"{mean:+.{places}f} {one['unit']} [{low:.{places}f}, {high:.{places}f}], *{one['word']}*"

    @property
    def coverage(self) -> str:
        """Of the intervals: "97.5 %"."""
        return f"{100 * (1 - self.json['look']['level']):.3g} %"

    def share(self, name: str) -> str:
        """114 % [112, 116]"""
        value, low, high = (100 * end for end in self.finding(name)["share_of_gap"])
        return f"{value:.0f} % [{low:.0f}, {high:.0f}]"

    def words(self, *names: str) -> str:
        return "; ".join(f"{name}: *{self.finding(name)['word']}*" for name in names)

    def rank(self, name: str) -> str:
        one = self.ranks[name]
        places = str(one["best"]) if one["best"] == one["worst"] else f"{one['best']} to {one['worst']}"
        return f"rank {places} of {len(self.ranks)}"

    def stronger(self, name: str) -> list[str]:
        """Factors that the corrected pairwise test puts before it."""
        own = self.ranks[name]
        return [one for one, rank in self.ranks.items() if rank["point"] < own["point"] and one not in own["tied"]]

    def with_word(self, *words: str) -> list[str]:
        return [one for one in self.ranks if self.finding(one)["word"] in words]

    def inside(self, name: str, measure: str) -> float:
        cell = self.cells[(name,) if name else (), ""]
        return fmean(one["inside"][measure] for one in cell["records"] if measure in one["inside"])


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def first_table(study: Study) -> str:
    rows = [
        "| cell | first study, one seed | mean ± spread | a new seed, 95 % | one seed in it |",
        "|---|--:|--:|--:|---|",
    ]
    for factors, (title, one) in FIRST.items():
        cell = study.cells[factors, GROUP]
        n, mean, spread = len(cell["scores"]), cell["mean"], cell["spread"]
        half = float(t.isf(0.025, n - 1)) * spread * math.sqrt(1 + 1 / n)
        held = "yes" if abs(one - mean) <= half else "no"
        rows.append(
            f"| {title} | {one:.2f} | {mean:.1f} ± {spread:.1f} | {mean - half:.1f} to {mean + half:.1f} | {held} |"
        )
    return "\n".join(rows)


def inside_table(study: Study) -> str:
    rows = [
        "| arm | validation accuracy | entropy of attention | positions, over tokens | dead feed-forward units |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in INSIDE:
        mean = study.cells[(name,) if name else (), ""]["mean"]
        entropy, positions, dead = (study.inside(name, one) for one in ("entropy", "positions", "dead units"))
        rows.append(f"| {name or 'baseline'} | {mean:.1f} % | {entropy:.2f} | {positions:.2f} | {100 * dead:.0f} % |")
    return "\n".join(rows)


def page(study: Study) -> str:
    plain = study.json
    runs, seeds = sum(plain["machines"].values()), len(plain["seeds"])
    answer = "\n\n".join(f"> {words}" for words in plain["answer"].split("\n\n"))
    notes = "\n".join(f"- {note}" for note in (*plain["warnings"], *plain["notes"]))
    sinusoids = "positions sinusoidal"
    ahead = study.stronger(sinusoids)
    removed = [f for f in plain["findings"] if f["kind"] == "remove" and f["effect"]]
    among = "; ".join(f"{f['factors'][0]} {study.size(f['factors'][0], 'remove')}" for f in removed)
    best = next((one["title"] for one in plain["cells"] if one["key"] == plain["best"]), "none")
    skewness = fmean(abs(study.finding(name)["effect"]["skewness"]) for name in study.ranks)
    smaller = ("rate 0.001", "rate 0.003", "rate 0.005")
    return f"""\
# Why did patch attention reach only 38 %?

<!-- written by scripts/attention_accuracy_page.py from studies/attention-accuracy/results.json -->

A small classifier, one head of attention over 49 patches of a digit, trained by plain SGD for five epochs, reads about 38 % of MNIST's test
digits. A first study asked why, one change at a time, one seed each, and concluded:

1. **Positions** are the cause: sinusoidal instead of small random ones bring +38.6 points.
2. **Capacity** helps a little: four times as wide, +6.7 points.
3. The **learning rate** is not a cause: 0.001, 0.003 and 0.005 are all worse than 0.01.

[studies/attention-accuracy](../studies/attention-accuracy/report.md) asks again: {runs} runs, {len(plain["cells"])} cells, the same {seeds}
seeds in each, differences taken seed by seed, everything chosen on held-out images and the test set read once:
`glassformer investigate attention-accuracy{"-tuned" if plain.get("tuned") else ""}` ([report.html](../studies/attention-accuracy/report.html)). Effects have a {study.coverage} interval, each
word a test ([which](lab.md#what-is-said)).
{grown.opening(study)}
## The answer

{answer}

## First: the old numbers repeat

All nine cells of the first study, as it ran them: 60,000 images, five epochs, test accuracy at the end; {seeds} seeds each, and where one seed
more would be expected.

{first_table(study)}

## What holds, and what does not

| conclusion | what the study says |
|---|---|
| Positions are the cause | Sinusoids at width 64, as it was tried: {study.size("first: positions sinusoidal", group=GROUP)}. At the \
baseline's own width: {study.size(sinusoids)}, {study.rank(sinusoids)}; surely stronger are {listed(ahead)}. |
| Capacity helps a little | As it was tried: {study.size("first: capacity", group=GROUP)}. In the main study: \
{"; ".join(f"{one} {study.size(one)}" for one in ("width 32", "width 64", "width 128"))}. On top of the first choice: \
width 32 {study.size("width 32", "top")}. |
| The learning rate is not a cause | Only ever made smaller: \
{"; ".join(f"{one} {study.size(f'first: {one}', group=GROUP)}" for one in smaller)}. Made larger: \
{"; ".join(f"{one} {study.size(one)}" for one in ("rate 0.03", "rate 0.1", "rate 0.3"))}. |

What explains the 38 %, each by itself: {listed(study.with_word("explains"))}. What
helps without being shown to close half of the gap: {listed(study.with_word("contributes"))}. What hurts: {listed(study.with_word("hurts"))}.
Fifty epochs in place of five, and nothing else changed, close {study.share("50 epochs")} of the gap to the target{": the model was **undertrained**" if "50 epochs" in study.with_word("explains") else ""}.

## What happens inside

The lens looks into every trained model of the study (means over {seeds} seeds; entropy 1: attention is the same everywhere). These are
descriptions, not tests.

{inside_table(study)}

In the baseline attention is nearly even, and positions are {study.inside("", "positions"):.2f} times as strong as tokens. The arms that train well end with
an entropy of {max(study.inside(n, "entropy") for n in ("rate 0.1", "layer norm", "50 epochs", "AdamW")):.2f} or less and positions of \
{min(study.inside(n, "positions") for n in ("rate 0.1", "layer norm", "50 epochs", "AdamW")):.2f} or more, without being given them. Strength alone is not
enough: random positions of ±0.5 are at {study.inside("positions ±0.5", "positions"):.2f}, and attention stays at {study.inside("positions ±0.5", "entropy"):.2f}.

{grown.tuned(study)}{grown.changed(study)}## What changed since the first report of this study

A second program found every number right and several sentences wrong. Now every sentence follows from a test:

- **Ties** come from the corrected pairwise test, not from rank intervals that overlap. Not told apart from {next(iter(study.ranks))}: \
{listed(study.ranks[next(iter(study.ranks))]["tied"])}. Layer norm had been called a tie{"" if "layer norm" in study.ranks["AdamW"]["tied"] else ", and is surely weaker than AdamW"}.
- **Explains** needs the interval of the share of the gap above one half. {study.words("batch 16", "10 epochs")}; residuals, which
  had been listed with layer norm as closing half of the gap: {study.size("residuals")}.
- **No effect** needs a test of its own. Capacity and schedule had been said not to matter:
  {study.words("width 32", "width 64", "width 128", "0.01 then 0.005")}.
- **Interactions** are in log-odds: on the scale of percent, two effects of 50 points cannot add up.
- **Collapsed seeds** are told: {next((one for one in plain["warnings"] if "no usable model" in one), "none was seen.")}
- **Intervals and p** allow for skewness (without its sign {skewness:.1f} in the mean over the factors), so that some ends lie further out. The best
  combination is {best}.

## What remains open

{notes}
- Not decided alone: {listed(study.with_word("not decided"))}.
- Among the chosen, where all the others are: {among or "not run yet for the combination that is chosen now"}.
"""


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    where = PAGE if folder == FOLDER else folder / PAGE.name
    where.write_text(page(Study(folder)))
    print(where)
