"""Tuned arms, curves, costs and sizes once more: for recompute.py. NumPy and SciPy alone."""

import re
from itertools import permutations
from typing import Any

import numpy as np
from scipy import optimize, stats

from .recompute_numbers import LEVEL, holm, interval

DRAWS = 20_000


def check(checker: Any) -> None:
    for one in checker.json.get("tuned", []):
        check_tuned(checker, one)
    for one in checker.json["dose_response"]:
        check_dose(checker, one)
    for one in checker.json["costs"]["fronts"]:
        check_front(checker, one)
    for one in checker.json["costs"]["scaling"]:
        check_law(checker, one)


def check_tuned(checker: Any, one: Any) -> None:
    """The best mean on validation of the tuning seeds; what is told of it; and that arms are compared with it."""
    name = f"tuned {' + '.join(one['factors']) or 'baseline'}"
    means = []
    for point in one["points"]:
        runs = checker.runs[point["key"]]
        scores = {seed: 100 * run["validation"][-1] for seed, run in runs.items() if str(seed) in point["scores"]}
        checker.close(name, "scores", list(scores.values()), [point["scores"][str(seed)] for seed in scores])
        checker.same(name, "on seeds of their own", any(int(seed) in checker.seeds for seed in point["scores"]), False)
        whole = len(scores) == max(len(other["scores"]) for other in one["points"])
        means.append(np.mean(list(scores.values())) if whole else -np.inf)  # a run that failed is the worst there is
    best = int(np.argmax(means))
    checker.same(name, "best of the grid", best, one["chosen"])
    for setting, value in one["points"][best]["changes"].items():
        grid = [point["changes"][setting] for point in one["points"]]
        checker.same(name, "at the edge", value in (min(grid), max(grid)), setting in one["at_edge"])
        checker.same(name, "told", f"{setting} = {value}" in one["about"], True)
        checker.same(name, "edge told", "at the edge of its grid" in one["about"], setting in one["at_edge"])
        compared = [c for c in checker.json["cells"] if (c["factors"], c["group"]) == (one["factors"], one["group"])]
        for cell in compared:
            recipe: Any = cell["recipe"]
            for part in setting.split("."):
                recipe = recipe[part]
            checker.same(name, f"compared at {setting}", recipe, value)


def by_seed(checker: Any, key: str, group: str) -> dict[int, float]:
    found: dict[int, float] = checker.scores(key, checker.measure(group))
    return found


def check_dose(checker: Any, one: Any) -> None:
    name = f"{one['setting']} {one['group']}"
    scores = [by_seed(checker, key, one["group"]) for key in one["cells"]]
    seeds = [seed for seed in checker.seeds if all(seed in own for own in scores)]
    checker.same(name, "seeds", seeds, one["seeds"])
    table = np.array([[own[seed] for own in scores] for seed in seeds])
    ends = [interval(column, LEVEL) for column in table.T]
    checker.close(name, "means", table.mean(0), one["means"])
    checker.close(name, "intervals", ends, list(zip(one["low"], one["high"], strict=True)))
    values = np.array(one["values"])
    wide = bool(values.min() > 0 and values.max() / values.min() >= 3)
    checker.same(name, "scale", "log" if wide else "linear", one["scale"])
    x = np.log(values) if wide else values
    low, high = (np.log(end) if wide else end for end in one["interval"])
    n = len(seeds)
    drawn = table[np.random.default_rng(5).integers(0, n, (DRAWS, n))].mean(1)
    wider = np.sqrt(n / (n - 1)) * stats.t.isf(0.025, n - 1) / stats.norm.isf(0.025)
    places = [best_place(x, row) for row in table.mean(0) + wider * (drawn - table.mean(0))]
    mine = np.quantile(places, [0.025, 0.975])
    checker.close(name, "interval of the optimum", mine, (low, high), 0.05 * (x[-1] - x[0]))
    best = int(np.argmax(table.mean(0)))
    spans = low <= x[0] + 1e-9 and high >= x[-1] - 1e-9
    place = "open" if spans else "first" if best == 0 else "last" if best == len(x) - 1 else "inside"
    checker.same(name, "place", place, one["place"])
    if place == "inside":
        top = best_place(x, table.mean(0))
        checker.close(name, "optimum", np.exp(top) if wide else top, one["optimum"], 1e-6)
    opening = {"open": "No optimum is told", "first": "At the edge", "last": "At the edge", "inside": "Best at"}[place]
    checker.same(name, "sentence", one["sentence"].startswith(opening), True)
    reaches = low <= x[0] + 1e-9 or high >= x[-1] - 1e-9
    beyond = place in ("first", "last") or (place == "inside" and reaches)
    checker.same(name, "may lie beyond", "may lie beyond" in one["sentence"], beyond)


def best_place(x: np.ndarray, means: np.ndarray) -> float:
    """The top of the parabola through the best and its neighbours, if it is not at an end."""
    best = int(np.argmax(means))
    if best in (0, len(x) - 1):
        return float(x[best])
    a, b, _ = np.polyfit(x[best - 1 : best + 2] - x[best], means[best - 1 : best + 2], 2)
    return float(np.clip(x[best] - b / (2 * a), x[best - 1], x[best + 1])) if a < 0 else float(x[best])


def check_front(checker: Any, one: Any) -> None:
    """Who costs no more and is surely better."""
    name = f"costs, {one['cost']} {one['group']}"
    cells = {cell["key"]: cell for cell in checker.json["cells"] if cell["group"] == one["group"]}
    scores = {p["cell"]: by_seed(checker, p["cell"], one["group"]) for p in one["points"]}
    cost = {point["cell"]: point["cost"] for point in one["points"]}
    known = {"parameters": "parameters", "multiply-adds": "multiply_adds"}
    for key in cost:
        runs = [run for run in checker.runs[key].values() if run["seed"] in scores[key] and not run["failed"]]
        if one["cost"] in known:
            told = [run[known[one["cost"]]] for run in runs if run.get(known[one["cost"]])]
            checker.same(name, "cost", {float(value) for value in told} <= {cost[key]}, True)
        else:
            seconds = [run["seconds"] - run.get("compile_seconds", 0.0) for run in runs]
            checker.close(name, "seconds", np.mean(seconds), cost[key])
            checker.same(name, "one machine", len({(run["machine"], run["engine"]) for run in runs}), 1)
    pairs, p, better = [], [], []
    for worse, rival in permutations(cost, 2):
        both = [seed for seed in scores[worse] if seed in scores[rival]]
        if cost[rival] <= cost[worse] and len(both) >= 3:
            apart = [scores[rival][seed] - scores[worse][seed] for seed in both]
            pairs.append((worse, rival))
            p.append(float(np.asarray(stats.ttest_1samp(apart, 0.0))[1]))
            better.append(np.mean(apart) > 0)
    checker.same(name, "pairs", len(pairs), one["pairs_tested"])
    by: dict[str, list[str]] = {}
    for (worse, rival), corrected, up in zip(pairs, holm(p), better, strict=True):
        if corrected <= LEVEL and up:
            by.setdefault(worse, []).append(rival)
    mean = {key: np.mean(list(own.values())) for key, own in scores.items()}
    for point in one["points"]:
        key = point["cell"]
        beaten = any(cost[other] <= cost[key] and mean[other] > mean[key] for other in cost)
        standing = "dominated" if key in by else "undecided" if beaten else "front"
        checker.same(name, f"standing of {cells[key]['title']}", standing, point["standing"])
        best = max(by.get(key, []), key=lambda rival: mean[rival], default="")
        checker.same(name, "dominated by", cells[best]["title"] if best else "", point["dominated_by"])


def check_law(checker: Any, one: Any) -> None:
    """The power, by a search instead of a grid; and what is said of it."""
    name = f"size, {one['setting']} {one['group']}"
    sizes, errors = np.array(one["parameters"]), np.array(one["errors"])
    known = {round(100 - cell["mean"], 9) for cell in checker.json["cells"] if cell["group"] == one["group"]}
    checker.same(name, "errors", {round(error, 9) for error in errors.tolist()} <= known, True)
    offset = one["c"] if one["offset_identifiable"] else 0.0

    def wrong(b: float) -> float:
        shape = (sizes / sizes[0]) ** -b / errors
        a = (shape @ (1 - offset / errors)) / (shape @ shape)
        return float(((a * shape - (1 - offset / errors)) ** 2).sum())

    best: Any = optimize.minimize_scalar(wrong, bounds=(0, 3), method="bounded")
    checker.close(name, "power", best.x, one["b"], 0.03)
    low, high = one["b_interval"]
    checker.same(name, "falls", low > 0, one["falls"])
    checker.same(name, "no law is claimed", "no law is claimed" in one["sentence"], low <= 0)
    if one["falls"]:
        checker.same(name, "offset", "not identifiable" in one["sentence"], not one["offset_identifiable"])
    told = [float(end) for end in re.findall(r"\[(-?[\d.]+), (-?[\d.]+)\]", one["sentence"])[0]]
    checker.close(name, "interval told", told, (low, high), 0.0051)
