"""A second program, NumPy and SciPy alone, no lab: does a study's results.json follow from its runs?

    python -m tests.lab.recompute studies/attention-accuracy

It reads results.jsonl and the plan, computes every interval, p and rank again by other ways (roots are searched, flips
are counted one by one, skewed values are drawn anew), and holds every sentence of the answer against its rule.
What does not fit is printed, and is the exit status.
"""

import json
import math
import re
import sys
import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from . import recompute_beside as beside
from . import recompute_looks as looks
from . import recompute_words as words
from .recompute_numbers import LEVEL, flip_p, holm, interval, noise, odds_of, same_p, seen_skewness, skewed_p

HALF, OFTEN, FOLDS = 0.5, 0.1, 3


class Checker:
    def __init__(self, folder: Path) -> None:
        self.json = json.loads((folder / "results.json").read_text())
        self.plan = tomllib.loads(self.json["plan"])
        self.data = json.loads((folder / "data.json").read_text()) if (folder / "data.json").exists() else {}
        looked = folder / "looks.jsonl"
        self.looks = [json.loads(line) for line in looked.read_text().splitlines()] if looked.exists() else []
        self.runs: dict[str, dict[int, Any]] = {}
        for line in (folder / "results.jsonl").read_text().splitlines():
            run = json.loads(line)
            self.runs.setdefault(run["key"], {}).setdefault(run["seed"], run)
        self.seeds: list[int] = self.json["seeds"]
        self.factors = {one["name"]: one for one in self.json["factors"]}
        self.known: dict[tuple[str, ...], dict[int, float]] = {}
        self.pairs: dict[str, Any] = {}
        self.problems: list[str] = []
        self.checked = 0

    # ---- what the runs say

    def measure(self, group: str) -> str:
        return self.plan["groups"][group].get("measure", "validation") if group else "validation"

    def score(self, run: Any, measure: str) -> float:
        if run["failed"]:
            return 100 * self.data["chance"][measure]["share"]
        return 100 * (run["test"] if measure == "test" else run["validation"][-1])

    def scores(self, key: str, measure: str) -> dict[int, float]:
        there = self.runs.get(key, {})
        return {seed: self.score(there[seed], measure) for seed in self.seeds if seed in there}

    def failed(self, key: str) -> set[int]:
        """No number, or no more right answers than always giving the commonest class."""
        found = set()
        for seed, run in self.runs.get(key, {}).items():
            part = "validation" if run["validation"] else "test"
            chance = self.data["chance"][part]
            right = round(self.score(run, part) / 100 * chance["answers"])
            if run["failed"] or right <= round(chance["share"] * chance["answers"]):
                found.add(seed)
        return found & set(self.seeds)

    def tried(self, key: str) -> set[int]:
        """Seeds of the comparison, none of those that an arm was tuned with."""
        return set(self.runs.get(key, {})) & set(self.seeds)

    def differences(self, one: Any) -> dict[int, float]:
        place = one["kind"], one["group"], *one["factors"]
        if place not in self.known:
            self.known[place] = self.computed(one)
        return self.known[place]

    def computed(self, one: Any) -> dict[int, float]:
        measure = self.measure(one["group"])
        with_, without = (self.scores(one[side], measure) for side in ("with", "without"))
        if one["kind"] != "pair":
            return {seed: with_[seed] - without[seed] for seed in with_ if seed in without}
        alone = [self.scores(self.added(name)["with"], measure) for name in one["factors"]]
        sides = [with_, *alone, without]
        out = self.chose(one["factors"])
        odds = [{seed: odds_of(value) for seed, value in side.items()} for side in sides]
        both = [seed for seed in self.seeds if all(seed in side for side in odds) and seed not in out]
        return {seed: odds[0][seed] - odds[1][seed] - odds[2][seed] + odds[3][seed] for seed in both}

    def added(self, name: str) -> Any:
        return next(one for one in self.json["findings"] if one["kind"] == "add" and one["factors"] == [name])

    def chose(self, names: list[str]) -> set[int]:
        """Folds of seeds without which another level of a subject would have the best mean."""
        out: set[int] = set()
        for fold in range(FOLDS):
            mine = self.seeds[fold::FOLDS]
            for name in names:
                own = self.factors[name]
                levels = [
                    one
                    for one in self.factors.values()
                    if one["subject"] == own["subject"] and one["combine"] and not (one["on"] or one["group"])
                ]
                means = {}
                for level in levels:
                    scores = self.scores(self.added(level["name"])["with"], "validation")
                    means[level["name"]] = np.mean([value for seed, value in scores.items() if seed not in mine])
                if max(means, key=lambda one: means[one]) != name:
                    out |= set(mine)
        return out

    # ---- what follows

    def family(self, one: Any) -> list[Any]:
        def of(other: Any) -> tuple[str, str, bool]:
            comparator = other["kind"] == "add" and self.factors[other["factors"][0]]["comparator"]
            return other["kind"], other["group"], comparator

        return [other for other in self.json["findings"] if of(other) == of(one)]

    def check_finding(self, one: Any) -> None:
        name = f"{one['kind']} {' + '.join(one['factors'])}"
        values = self.differences(one)
        effect = one["effect"]
        if effect is None:
            self.same(name, "too few seeds", len(values) < 3, True)
            return
        d = np.array(list(values.values()))
        self.close(name, "differences", d, effect["differences"])
        self.close(name, "mean", d.mean(), effect["mean"])
        self.close(name, "interval", interval(d, self.level()), (effect["low"], effect["high"]))
        self.close(name, "size", d.mean() / d.std(ddof=1), effect["size"])
        family = [other for other in self.family(one) if other["effect"]]
        others = [np.array(list(self.differences(other).values())) for other in family]
        skew = float(np.median([seen_skewness(other) for other in others]))
        flips = flip_p(d)
        self.close(name, "sign flips", flips, effect["p_flip"])
        expected = max(flips, skewed_p(d, skew))
        self.close(
            name, "p", expected, effect["p"], noise(expected) if max(expected, effect["p"]) > flips + 1e-9 else 1e-7
        )
        place = family.index(one)
        share = LEVEL / self.level()
        self.close(name, "Holm", min(1, share * holm([f["effect"]["p"] for f in family])[place]), effect["p_holm"])
        same = [max(same_p(other, one["margin"], skew), 0.5 ** len(other)) for other in others]
        expected, times = min(1, share * holm(same)[place]), share * len(family)
        self.close(name, "equivalence", expected, effect["p_same"], times * noise(expected / times))
        self.check_typical(name, d, effect)
        self.check_gap(one, name, values)
        self.check_failing(one, name)
        self.same(name, "verdict", self.word(one), one["word"])

    def level(self) -> float:
        return self.json["look"]["level"] or LEVEL

    def check_typical(self, name: str, d: np.ndarray, effect: Any) -> None:
        cut = len(d) // 4
        middle = np.sort(d)[cut : len(d) - cut]
        if effect["typical"]:
            drawn_in = np.concatenate([[middle[0]] * cut, middle, [middle[-1]] * cut])
            h = len(middle)
            half = stats.t.isf(0.025, h - 2) * math.sqrt(((drawn_in - drawn_in.mean()) ** 2).sum() / (h * (h - 1)))
            self.close(
                name, "middle half", (middle.mean(), middle.mean() - half, middle.mean() + half), effect["typical"]
            )
        up, moved = int((d > 0).sum()), int((d != 0).sum())
        exact = stats.binomtest(up, moved).proportion_ci(0.95, "exact")
        self.close(name, "improvement", (up / moved, exact.low, exact.high), effect["improves"])

    def baseline_of(self, group: str) -> str:
        """What factors of the group are added to that name nothing they are added to."""
        found = [one for one in self.json["findings"] if one["kind"] == "add" and one["group"] == group]
        return str(next(one["without"] for one in found if not self.factors[one["factors"][0]]["on"]))

    def check_gap(self, one: Any, name: str, values: dict[int, float]) -> None:
        if one["share_of_gap"] is None:
            return
        measure = self.measure(one["group"])
        base = self.scores(self.baseline_of(one["group"]), measure)
        both = [seed for seed in values if seed in base]
        d = np.array([values[seed] for seed in both])
        gap = np.array([100 * self.json["target"] - base[seed] for seed in both])

        def touches(share: float) -> float:
            rest = d - share * gap
            return rest.mean() ** 2 / rest.var(ddof=1) * len(d) - stats.t.isf(self.level() / 2, len(d) - 1) ** 2

        middle = d.mean() / gap.mean()
        low, high = optimize.brentq(touches, middle - 5, middle), optimize.brentq(touches, middle, middle + 5)
        self.close(name, "share of the gap", (middle, low, high), one["share_of_gap"], 1e-6)

    def check_failing(self, one: Any, name: str) -> None:
        with_, without = self.failed(one["with"]), self.failed(one["without"])
        self.same(name, "failures", len(with_), one["failures"])
        self.same(name, "failing", bool(with_ or without), one["failing"] is not None)
        if one["failing"]:
            only = len(with_ - without), len(without - with_)
            p = stats.binomtest(only[0], sum(only)).pvalue if sum(only) else 1.0
            self.close(name, "McNemar", p, one["failing"]["p"])
            exact = stats.binomtest(len(with_), len(self.tried(one["with"]))).proportion_ci(0.95, "exact")
            self.close(name, "failure rate", (exact.low, exact.high), one["failing"]["rate"][1:])

    def word(self, one: Any) -> str:
        effect, failed, tried = one["effect"], len(self.failed(one["with"])), len(self.tried(one["with"]))
        if failed and stats.binomtest(failed, tried).proportion_ci(0.95, "exact").low > OFTEN:
            return "diverges"
        if effect["p_holm"] <= LEVEL and (effect["low"] > 0 or effect["high"] < 0):
            if one["kind"] == "pair":
                return "more than the sum" if effect["low"] > 0 else "less than the sum"
            if effect["high"] < 0:
                return "hurts"
            return "explains" if one["share_of_gap"] and one["share_of_gap"][1] > HALF else "contributes"
        return "no effect" if effect["p_same"] <= LEVEL and one["kind"] != "pair" else "not decided"

    def apart(self, group: str) -> tuple[dict[str, float], dict[frozenset[str], tuple[float, float]]]:
        """Means, and of every two the corrected p and the difference."""
        found = {
            one["factors"][0]: self.differences(one)
            for one in self.json["findings"]
            if one["kind"] == "add" and one["group"] == group and one["effect"] and one["word"] != "diverges"
            if not self.factors[one["factors"][0]]["comparator"]
        }
        pairs = list(combinations(found, 2))
        p, sizes = [], []
        for a, b in pairs:
            apart = [found[a][seed] - found[b][seed] for seed in found[a] if seed in found[b]]
            p.append(float(np.asarray(stats.ttest_1samp(apart, 0.0))[1]))
            sizes.append(float(np.mean(apart)))
        corrected = holm(p)
        both = {frozenset(pair): (corrected[i], sizes[i]) for i, pair in enumerate(pairs)}
        return {name: float(np.mean(list(values.values()))) for name, values in found.items()}, both

    def check_ranks(self, ranks: list[Any], group: str) -> None:
        means, apart = self.apart(group)
        self.same("ranks", "factors", {one["factor"] for one in ranks}, set(means))
        for one in ranks:
            name = one["factor"]
            sure = [other for other in means if other != name and apart[frozenset((name, other))][0] <= self.level()]
            stronger = sum(means[other] > means[name] for other in sure)
            weaker = sum(means[other] < means[name] for other in sure)
            self.same(name, "ranks", (1 + stronger, len(means) - weaker), (one["best"], one["worst"]))
            self.same(name, "ties", set(means) - {name, *sure}, set(one["tied"]))
            self.same(name, "point", sorted(means, key=lambda other: -means[other]).index(name) + 1, one["point"])

    def check_cell(self, one: Any) -> None:
        values = np.array(list(self.scores(one["key"], one["measure"].split()[0]).values()))
        self.close(one["title"], "cell", (values.mean(), values.std(ddof=1)), (one["mean"], one["spread"]))
        self.close(one["title"], "interval", interval(values, LEVEL), (one["low"], one["high"]))
        failed = self.failed(one["key"])
        self.same(one["title"], "failing", len(failed) / len(values) if failed else None, (one["failing"] or [None])[0])

    # ---- every sentence

    def check_sentence(self, sentence: Any) -> None:
        text = sentence["text"]
        self.same(text, "has claims", bool(sentence["claims"]), True)
        for claim in sentence["claims"]:
            self.check_claim(text, claim)
        told = {name for claim in sentence["claims"] for name in claim["factors"]}
        for name in self.factors:
            if re.search(rf"(?<![\w:+] ){re.escape(name)} \([+-]", text):
                self.same(text, f"{name} is claimed", name in told, True)
        for name, mean, low, high in re.findall(
            r"(?:^|, | and |: )([^,()]*?) \(([+-][\d.]+) [a-z-]+ \[([-\d.]+), ([-\d.]+)\]", text
        ):
            self.check_numbers(text, name, sentence["claims"], (float(mean), float(low), float(high)))

        words.check(self, text)
        for points in re.findall(r"half of the ([\d.]+) points to the target", text):
            base = next(c for c in self.json["cells"] if c["key"] == self.json["baseline"])
            self.close(text, "gap", 100 * self.json["target"] - base["mean"], float(points), 0.051)
        for name, best, worst, of in re.findall(r"([^,()]+) \([^()]*rank (\d+)-?(\d*) of (\d+)\)", text):
            own = [one for one in self.json["ranks"] if name.endswith(one["factor"])]
            own = max(own, key=lambda one: len(one["factor"]))
            said = (int(best), int(worst or best), int(of))
            self.same(text, f"rank of {name}", (own["best"], own["worst"], len(self.json["ranks"])), said)

    def check_numbers(self, text: str, name: str, claims: list[Any], said: tuple[float, ...]) -> None:
        """What stands behind a name is what its claim has, as rounded."""
        own = [
            one
            for one in claims
            if one["numbers"].get("mean") is not None
            and (name.endswith(" and ".join(one["factors"])) or " and ".join(one["factors"]).endswith(name))
        ]
        numbers = [tuple(one["numbers"][key] for key in ("mean", "low", "high")) for one in own]
        fits = [all(abs(a - b) <= 0.0501 for a, b in zip(said, one, strict=True)) for one in numbers]
        self.same(text, f"numbers of {name}", any(fits), True)

    def check_claim(self, text: str, claim: Any) -> None:
        kind, factors, numbers = claim["kind"], claim["factors"], claim["numbers"]
        if claim["where"] == "cell":
            self.check_cell_claim(text, claim)
        elif kind == "counted":
            self.same(text, kind, numbers["there"], float(sum(self.json["machines"].values())))
            self.same(text, "incomplete", numbers["there"] < numbers["asked"], True)
            said = f"{numbers['there']:,.0f} of the {numbers['asked']:,.0f} runs"
            self.same(text, said, said in text, True)
        elif claim["where"] == "rank":
            if claim["group"] not in self.pairs:
                self.pairs[claim["group"]] = self.apart(claim["group"])
            means, apart = self.pairs[claim["group"]]
            p, _ = apart[frozenset(factors)]
            self.same(text, kind, "tied" if p > self.level() else "stronger", kind)
            self.same(text, "in this order", kind == "tied" or means[factors[0]] > means[factors[1]], True)
        elif kind.startswith("none"):
            words = ("explains",) if kind == "none explains" else ("explains", "contributes")
            self.same(text, kind, any(self.added(name)["word"] in words for name in factors), False)
        else:
            found = [
                o
                for o in self.json["findings"]
                if (o["kind"], o["group"], o["factors"]) == (claim["where"], claim["group"], factors)
            ]
            self.same(text, f"one finding of {factors}", len(found), 1)
            effect = found[0]["effect"]
            self.close(
                text,
                "claimed numbers",
                [effect[key] for key in ("mean", "low", "high", "p_holm")],
                [numbers[key] for key in ("mean", "low", "high", "p_holm")],
            )
            if kind == "small":
                self.same(text, "small", effect["p_same"] <= LEVEL, True)
            elif kind == "not sure":
                self.same(text, f"{factors} {kind}", self.word(found[0]) in ("explains", "contributes"), False)
            elif kind != "compared":
                self.same(text, f"{factors} {kind}", self.word(found[0]), kind)

    def check_cell_claim(self, text: str, claim: Any) -> None:
        kind, numbers = claim["kind"], claim["numbers"]
        cell = next(c for c in self.json["cells"] if c["factors"] == claim["factors"] and c["group"] == claim["group"])
        if kind == "failing":
            failed, of = len(self.failed(cell["key"])), len(self.tried(cell["key"]))
            exact = stats.binomtest(failed, of).proportion_ci(0.95, "exact")
            self.close(
                text,
                kind,
                (failed, of, exact.low, exact.high),
                [numbers[key] for key in ("failed", "of", "low", "high")],
            )
            said = f"({failed} of {of} seeds failed [{100 * exact.low:.0f}, {100 * exact.high:.0f} %])"
            self.same(text, said, said in text, True)
            return
        values = np.array(list(self.scores(cell["key"], "test" if numbers.get("test") else "validation").values()))
        low, high = interval(values, self.level())
        self.close(text, kind, (values.mean(), low, high), [numbers[key] for key in ("mean", "low", "high")])
        self.same(text, f"{values.mean():.1f} %", f"{values.mean():.1f} %" in text, True)
        target = 100 * (self.json["target"] or 0)
        held = {
            "above the target": low > target,
            "below the target": high < target,
            "about the target": low <= target <= high,
        }
        self.same(text, kind, held.get(kind, True), True)

    def check(self) -> list[str]:
        for one in self.json["findings"]:
            self.check_finding(one)
        self.check_ranks(self.json["ranks"], "")
        for group, ranks in self.json["group_ranks"].items():
            self.check_ranks(ranks, group)
        for one in self.json["cells"]:
            self.check_cell(one)
        for one in self.json["sentences"]:
            self.check_sentence(one)
        looks.check(self)
        beside.check(self)
        texts = " ".join(one["text"] for one in self.json["sentences"])
        said = self.json["answer"].split("\n\n")
        self.same("answer", "is its sentences", " ".join(said), texts)
        return self.problems

    def same(self, where: str, what: str, mine: Any, theirs: Any) -> None:
        self.checked += 1
        if mine != theirs:
            self.problems.append(f"{where[:70]}: {what}: {mine!r}, and it says {theirs!r}")

    def close(self, where: str, what: str, mine: Any, theirs: Any, within: float = 1e-7) -> None:
        self.checked += 1
        a, b = np.asarray(mine, float), np.asarray(theirs, float)
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-7, atol=within):
            self.problems.append(f"{where[:70]}: {what}: {mine}, and it says {theirs}")


if __name__ == "__main__":
    checker = Checker(Path(sys.argv[1]))
    found = checker.check()
    print("\n".join(found) or f"{checker.checked:,} numbers and sentences follow from the runs")
    sys.exit(bool(found))
