"""The parts of the page, in order. A part that has nothing to show says so in a sentence."""

from collections.abc import Sequence

from glassformer.lab.dose_response import doses
from glassformer.lab.report import cost_words, dose_words, facts
from glassformer.lab.report.both_ways_plot import both_ways_plot
from glassformer.lab.report.cell_table import cell_table
from glassformer.lab.report.cost_plot import cost_plot, law_plot
from glassformer.lab.report.curve_plot import curve_plot
from glassformer.lab.report.dose_plot import dose_plot
from glassformer.lab.report.in_words import in_words, words_used
from glassformer.lab.report.intervals import interval_plot
from glassformer.lab.report.learning import learning_curves
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.names_inside import about_inside
from glassformer.lab.report.numbers import count, duration, mean_and_spread
from glassformer.lab.report.plot_frame import NARROW, WIDE
from glassformer.lab.report.together import together
from glassformer.lab.scaling import laws
from glassformer.lab.study import Study


def sections(study: Study) -> list[Markup]:
    return [
        causes(study),
        *apart(study),
        curves(study),
        dose_response(study),
        both_ways(study),
        interactions(study),
        costs(study),
        *sizes(study),
        cells(study),
        inside(study),
        notes(study),
        repeat(study),
    ]


def section(title: str, about: str, *inside: Markup | None, name: str) -> Markup:
    return el("section", el("h2", title), el("p", about, class_="about") if about else None, *inside, id=name)


def figure(name: str, *pictures: Markup) -> Markup:
    save = el("button", "Save as SVG", type="button", class_="save", hidden="hidden", data_name=name)
    return el("figure", save, *pictures)


def causes(study: Study) -> Markup:
    title = "What it is, and what it is not"
    lines, apart = facts.ranked(study), facts.comparators(study)
    if not lines and not apart:
        return section(title, "No factor has been compared with the baseline yet.", name="causes")
    known = study.plan.target is not None and len(study.baseline.scores)
    metric = study.plan.metric
    gap = metric.sign * (metric.shown(study.plan.target or 0.0) - study.baseline.mean) if known else None
    measure = f"{facts.difference_of(study, '')}, against the baseline"
    about = (
        f"Each factor is added to the baseline alone, with the same {len(study.plan.seeds)} seeds. The mark is the "
        f"mean difference, the line its {facts.coverage(study)} interval, every dot one seed. p is corrected over all "
        f"factors (Holm). Ranks are those that the data allow; = {facts.TIE}"
    )
    head = effect_head(study)
    plots = (interval_plot(lines, apart, form, measure, head, gap) for form in (WIDE, NARROW))
    shown = [*lines, *apart]
    return section(
        title, about, figure("effects", *plots), words_used(study, shown), in_words(study, shown), name="causes"
    )


def effect_head(study: Study) -> str:
    return f"{study.plan.metric.unit} [{facts.coverage(study)}]"


def apart(study: Study) -> list[Markup]:
    drawn = []
    for i, (title, about, lines, measure) in enumerate(facts.apart(study), 1):
        plots = (interval_plot(lines, [], form, measure, effect_head(study)) for form in (WIDE, NARROW))
        drawn.append(section(title, about, figure(f"effects-{i}", *plots), in_words(study, lines), name=f"apart-{i}"))
    return drawn


def curves(study: Study) -> Markup:
    title, found = "How they learn", learning_curves(study)
    if not found:
        return section(
            title,
            f"No validation {study.plan.metric.name} was recorded by epoch, so there are no curves.",
            name="curves",
        )
    about = (
        f"Validation {study.plan.metric.name} by epoch: the mean over seeds with its 95 % band. A curve ends where its "
        "first seed stops."
    )
    metric, target = study.plan.metric, study.plan.target
    aim = None if target is None or metric.name == "time to target" else metric.shown(target)
    plots = (curve_plot(found, aim, metric, wide=wide) for wide in (True, False))
    return section(title, about, figure("curves", *plots), name="curves")


def dose_response(study: Study) -> Markup:
    title, found = "How much of it", doses(study)
    if not found:
        return section(title, dose_words.NONE, name="dose-response")
    plots = (dose_plot(study, found, wide=wide) for wide in (True, False))
    return section(title, dose_words.DRAWN, figure("dose-response", *plots), name="dose-response")


def both_ways(study: Study) -> Markup:
    title, rows = "Added alone, and taken away from the best", facts.both_ways(study)
    if not rows:
        return section(title, "No factor was taken away from a best combination.", name="both-ways")
    about = (
        "Alone: the factor added to the baseline. With all others: what the best combination loses without it. "
        "Where the two differ, the factors interact."
    )
    measure = f"{facts.difference_of(study, '')} that the factor is worth"
    plots = (both_ways_plot(rows, measure, wide=wide) for wide in (True, False))
    return section(title, about, figure("add-and-remove", *plots), name="both-ways")


def interactions(study: Study) -> Markup:
    title, grid = "Two at a time", together(study)
    if grid is None:
        return section(title, "No two factors were tried together.", name="pairs")
    about = (
        "On the diagonal each factor alone; below it what two bring together beyond the sum of both, in "
        f"{facts.pairs(study)[0].unit}, on seeds that had no part in choosing these levels. Blue: less than the sum, "
        "orange: more."
    )
    return section(title, about, grid, name="pairs")


def costs(study: Study) -> Markup:
    title, found = "What it costs", cost_words.main_fronts(study)
    if not found:
        return section(title, cost_words.NONE, name="costs")
    head, rows = cost_words.cost_rows(found)
    plots = (cost_plot(study, found, wide=wide) for wide in (True, False))
    return section(title, cost_words.DRAWN, figure("costs", *plots), cost_table(head, rows), name="costs")


def sizes(study: Study) -> list[Markup]:
    """Where the number of parameters was varied."""
    found = laws(study)
    if not found:
        return []
    plots = (law_plot(found, wide=wide) for wide in (True, False))
    return [section("Error and size", cost_words.SIZES, figure("sizes", *plots), name="sizes")]


def cost_table(head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> Markup:
    """The second column names the row; how a cell stands by a cost is below it."""
    numbers = [""] * 2 + ["number"] * (len(head) - 2)
    top = el("tr", *(el("th", word, scope="col", class_=kind) for word, kind in zip(head, numbers, strict=True)))
    body = []
    for (number, _), (name, _), *values in rows:
        cells = (el("td", word, el("small", more) if more else None, class_="number") for word, more in values)
        body.append(el("tr", el("td", number), el("th", name, scope="row"), *cells))
    return el("div", el("table", el("thead", top), el("tbody", *body)), class_="scroll", tabindex=0)


def cells(study: Study) -> Markup:
    about = (
        "Mean ± standard deviation over seeds, and the 95 % interval of the mean. A run that failed counts as "
        "chance, so that survivors are never averaged alone. Choices are made on "
        "validation; the test set is read once, with the last weights."
    )
    return section("Every cell", about, cell_table(study), name="cells")


def inside(study: Study) -> Markup:
    title = "What changed inside"
    shown, rows = facts.inside(study)
    if not rows:
        return section(title, "The trained models were not looked into.", name="inside")
    head = el(
        "tr", el("th", "measured", scope="col"), *(el("th", one.label, scope="col", class_="number") for one in shown)
    )
    body, said = [], set()
    for name, columns in rows:
        words, more = about_inside(name)
        more = "" if more in said else more  # once is enough
        said.add(more)
        values = (el("td", mean_and_spread(values), class_="number") for values in columns)
        body.append(el("tr", el("th", words, el("small", more) if more else None, scope="row"), *values))
    about = "In the trained models, mean ± standard deviation over seeds: the baseline against the strongest causes."
    table = el("table", el("thead", head), el("tbody", *body))
    return section(title, about, el("div", table, class_="scroll", tabindex=0), name="inside")


def notes(study: Study) -> Markup:
    if not study.notes:
        return section("Notes", "Nothing failed and nothing was skipped.", name="notes")
    return section("Notes", "", el("ul", *(el("li", note) for note in study.notes), class_="notes"), name="notes")


def repeat(study: Study) -> Markup:
    head = el(
        "tr",
        *(el("th", word, scope="col") for word in ("machine", "engine")),
        *(el("th", word, scope="col", class_="number") for word in ("runs", "failed", "time")),
    )
    body = [
        el(
            "tr",
            el("th", one.name or "unknown", scope="row"),
            el("td", ", ".join(one.engines)),
            *(
                el("td", value, class_="number")
                for value in (count(one.runs), count(one.failed), duration(one.seconds))
            ),
        )
        for one in facts.machines(study)
    ]
    table = el("div", el("table", el("thead", head), el("tbody", *body)), class_="scroll", tabindex=0) if body else None
    command = el("pre", el("code", study.command), tabindex=0) if study.command else None
    text = el(
        "details", el("summary", "The plan, as it was written"), el("pre", el("code", study.plan.text), tabindex=0)
    )
    seeds = (
        f"Seeds {', '.join(map(str, study.plan.seeds))} in every cell: the same first weights, the same order of data."
    )
    about = f"{duration(study.seconds)} of computing over all runs. {seeds}"
    said = None if command is None else el("p", "This repeats it:", class_="about again")
    return section(
        "What ran, and how to repeat it",
        about,
        join(table, said, command, text if study.plan.text else None),
        name="repeat",
    )
