# ruff: noqa: E501 - lines of the page
"""The parts of docs/attention-accuracy.md about what the study grew by: arms at their own best rates, and more seeds."""

from typing import Any

import numpy as np
from scipy.stats import ttest_ind

TUNED = "tuned"
HELPS = ("explains", "contributes")


def opening(study: Any) -> str:
    """What the level of this report is, where it is not the usual one."""
    look = study.json["look"]
    if look["level"] == 0.05:
        return ""
    return (
        f"It was reported on before, so that p after Holm is multiplied by {0.05 / look['level']:.3g} here, and intervals are as wide as that asks for; "
        f"all reports together have a false alarm in at most {100 * look['spent']:.3g} % of studies.\n"
    )


def tuned(study: Any) -> str:
    """Every arm at its own best rate; nothing where the study has none."""
    arms = [one for one in study.json.get("tuned", []) if one["group"] == TUNED]
    if not arms:
        return ""
    rows = [
        "| arm | best rate | in its grid | with the baseline's rate | at its own best rate | seeds that fail there |",
        "|---|--:|---|---|---|---|",
    ]
    rows += [row(study, arm) for arm in arms]
    base = next(one for one in arms if not one["factors"])
    seeds = max(len(point["scores"]) for point in base["points"])
    tried = len({point["key"] for arm in arms for point in arm["points"]}) * seeds
    key = next(one["without"] for one in study.json["findings"] if one["group"] == TUNED)
    cell = next(one for one in study.json["cells"] if one["key"] == key)  # another factor may be the same recipe
    plain = study.cells[(), ""]
    own = next((one["text"] for one in study.json["sentences"] if one["text"].startswith("Each at its own best")), "")
    edge = [named(one) for one in arms if one["at_edge"]]
    beyond = (
        f"At an edge of its grid, so that a better rate may lie beyond: {listed(edge)}."
        if edge
        else "No best rate is at an edge of its grid."
    )
    fail = [
        named(one)
        for one in arms
        if one["factors"] and not failing(study, "with", one["factors"][0]).startswith("0 of")
    ]
    unseen = (
        f"At the rate chosen for {listed(fail)} some seeds fail: {seeds} seeds see nothing of a failure that one seed in ten has with a probability of {100 * 0.9**seeds:.0f} %."
        if fail
        else "No seed fails at a rate that was chosen."
    )
    return f"""\
## Each arm at its own best rate

Where the rate is too small, a factor may help only because it makes up for that. So every arm, the baseline too, was tried at {len(base["points"])} rates with
{seeds} seeds of their own ({tried} runs), took what is best on validation, and was compared with the study's {len(study.json["seeds"])} seeds.
The baseline's own best rate is {rate_of(base)}: {cell["mean"]:.1f} % on validation in place of {plain["mean"]:.1f} %. {beyond}
{unseen}

{chr(10).join(rows)}

{own}

{by_subject(study, arms)}

"""


def row(study: Any, arm: Any) -> str:
    place = (
        f"{'the ' + end(arm) + ' of' if arm['at_edge'] else 'inside'} {listed([f'{value:g}' for value in rates(arm)])}"
    )
    if not arm["factors"]:
        return f"| baseline | {rate_of(arm)} | {place} | | | {failing(study, 'without')} |"
    name = arm["factors"][0]
    twin = name.removeprefix(f"{TUNED}: ")
    return f"| {named(arm)} | {rate_of(arm)} | {place} | {study.size(twin)} | {study.size(name, group=TUNED)} | {failing(study, 'with', name)} |"


def failing(study: Any, side: str, name: str = "") -> str:
    """Of the study's seeds, in the cell that stands on that side."""
    one = study.finding(name, group=TUNED) if name else next(f for f in study.json["findings"] if f["group"] == TUNED)
    cell = next(cell for cell in study.json["cells"] if cell["key"] == one[side])
    return f"{round((cell['failing'] or [0])[0] * len(cell['records']))} of {len(cell['records'])}"


def named(arm: Any) -> str:
    return " + ".join(arm["factors"]).removeprefix(f"{TUNED}: ") or "baseline"


def rates(arm: Any) -> list[float]:
    return sorted(point["changes"]["optimiser.lr"] for point in arm["points"])


def rate_of(arm: Any) -> str:
    return f"{arm['points'][arm['chosen']]['changes']['optimiser.lr']:g}"


def end(arm: Any) -> str:
    return "smallest" if float(rate_of(arm)) == rates(arm)[0] else "largest"


def by_subject(study: Any, arms: list[Any]) -> str:
    """What becomes of positions, capacity, block and the rest."""
    subjects = {one["name"]: one["subject"] for one in study.json["factors"]}
    lines: dict[str, list[str]] = {}
    for arm in arms:
        if arm["factors"]:
            name = arm["factors"][0]
            before, after = study.finding(name.removeprefix(f"{TUNED}: ")), study.finding(name, group=TUNED)
            lines.setdefault(subjects[name], []).append(f"{named(arm)} *{before['word']}* → *{after['word']}*")
    return "Word for word, untuned → tuned:\n\n" + "\n".join(
        f"- **{subject}**: {'; '.join(said)}" for subject, said in lines.items()
    )


def changed(study: Any) -> str:
    """What more seeds say otherwise; nothing where there are no more."""
    before, now = study.before, study.json
    if before is None or len(now["seeds"]) <= before["seeds"]:
        return ""
    there = {place(one): one for one in now["findings"]}
    known = [(one, there[place(one)]) for one in before["findings"] if place(one) in there]
    other = [(old, new) for old, new in known if old["word"] != new["word"]]
    rows = [
        "| comparison | 12 seeds | 20 seeds | what decides |".replace("12", str(before["seeds"])).replace(
            "20", str(len(now["seeds"]))
        ),
        "|---|---|---|---|",
    ]
    rows += [f"| {title(new)} | {size(old)} | {size(new)} | {decides(old, new)} |" for old, new in other]
    gone = [one for one in before["findings"] if place(one) not in there]
    best = next((one["title"] for one in now["cells"] if one["key"] == now["best"]), "none")
    choice = f"The best combination was {before['best']}" + (
        " and still is" if best == before["best"] else f", and is {best} now"
    )
    table = "\n".join(rows) if other else "No word has changed."
    return f"""\
## What changed between {before["seeds"]} and {len(now["seeds"])} seeds, and why

The {before["seeds"]} seeds analysed by themselves, by the same rules ([twelve-seeds.json](../studies/attention-accuracy/twelve-seeds.json)), against all {len(now["seeds"])}: of {len(known)} comparisons
that both have, {len(known) - len(other)} have the word that they had. {choice}; {len(gone)} comparisons that the choices of then asked for are not asked for now.
{level(before, now)}

{table}

{machines(study)}

"""


def place(one: Any) -> tuple[Any, ...]:
    """A comparison on top of another first choice is another one."""
    against = one.get("against") or one.get("without")
    return one["kind"], one["group"], tuple(one["factors"]), against if one["kind"] in ("top", "remove") else ""


def level(before: Any, now: Any) -> str:
    look = now["look"]
    if look["level"] == before["level"]:
        return ""
    return (
        f"The first report had used {100 * before['level']:g} % already; this one is held to {100 * look['level']:g} %, so that some words rest on more seeds "
        "and on a stricter test at once."
    )


def title(one: Any) -> str:
    kinds = {
        "add": "",
        "top": ", on top of the first choice",
        "remove": ", where all the others are",
        "pair": " together",
    }
    return " and ".join(one["factors"]) + kinds[one["kind"]]


def size(one: Any) -> str:
    effect = one["effect"]
    if effect is None:
        return f"*{one['word']}*"
    places = 1 if effect["high"] - effect["low"] >= 0.5 else 2
    mean, low, high = (round(effect[key], places) + 0.0 for key in ("mean", "low", "high"))
    return f"{mean:+.{places}f} {one['unit']} [{low:.{places}f}, {high:.{places}f}], *{one['word']}*"


def decides(old: Any, new: Any) -> str:
    """The numbers of the test that either word rests on."""
    words, parts = {old["word"], new["word"]}, []
    effects = old["effect"], new["effect"]
    if all(effects):
        helps = words & {"hurts", *HELPS} and not words <= set(HELPS)
        if helps or any("sum" in word for word in words):
            parts.append(f"p after Holm {p(effects[0]['p_holm'])} → {p(effects[1]['p_holm'])}")
            zero = ["with" if effect["low"] <= 0 <= effect["high"] else "without" for effect in effects]
            parts += [f"interval {zero[0]} → {zero[1]} zero"] if zero[0] != zero[1] else []
        if "no effect" in words:
            parts.append(f"p of being within the margin {p(effects[0]['p_same'])} → {p(effects[1]['p_same'])}")
        if "explains" in words and old["share_of_gap"] and new["share_of_gap"]:
            shares = [f"{100 * one['share_of_gap'][1]:.0f} %" for one in (old, new)]
            parts.append(f"lower end of the share of the gap {shares[0]} → {shares[1]}")
    if "diverges" in words:
        parts.append("the exact interval of its failure rate")
    return "; ".join(parts)


def p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def machines(study: Any) -> str:
    """Whether the machine makes a difference: seeds are exchangeable, so that each cell's may be compared across machines."""
    cells = [one for one in study.json["cells"] if len({record["machine"] for record in one["records"]}) > 1]
    by = study.json["machines"]
    ran = listed([f"{count:,} on {name}" for name, count in by.items()])
    if len(by) < 2:
        return f"All runs: {ran}."
    mixed, pairs = crossing(study)
    found = []
    for cell in cells:
        sides: dict[str, list[float]] = {}
        for record, score in zip(cell["records"], cell["scores"], strict=True):
            sides.setdefault(record["machine"], []).append(score)
        first, second = list(sides.values())[:2]
        if min(len(first), len(second)) >= 3 and np.std([*first, *second]) > 0:
            found.append((float(np.asarray(ttest_ind(first, second, equal_var=False))[1]), cell["title"]))
    sure = [name for value, name in found if value * len(found) <= 0.05]
    verdict = f"in {len(sure)} it surely does ({listed(sure)})" if sure else "in none does it surely"
    return (
        f"The runs: {ran}. Of {pairs:,} paired differences {mixed:,} have one side from each machine. Seeds are exchangeable, so that it can be tested whether the machine "
        f"makes a difference: of {len(found)} cells with three runs or more on both, {verdict} (Welch, p times the number of cells at most 0.05)."
    )


def crossing(study: Any) -> tuple[int, int]:
    """Differences whose sides are of two machines, and all of them."""
    by = {
        (cell["key"], record["seed"]): record["machine"] for cell in study.json["cells"] for record in cell["records"]
    }
    mixed = pairs = 0
    for one in study.json["findings"]:
        for seed in study.json["seeds"]:
            two = by.get((one["with"], seed)), by.get((one["without"], seed))
            pairs += None not in two
            mixed += None not in two and two[0] != two[1]
    return mixed, pairs


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"
