"""The part of glassformer attend that shows runs which read texts, or rows of numbers: tokens on both axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from glassformer.lens.attention_kind import Kind
    from glassformer.lens.token_maps import Place, TokenMap
    from glassformer.predict.run import Run

GRADIENT = "gradient x attention"
SHORTEST = 60  # columns of a terminal
LONGEST = 60  # characters of a text in a title


@dataclass(frozen=True)
class Wanted:
    """What of a run is to be shown."""

    query: str | None = None
    rollout: bool = False
    gradient: bool = False
    kind: "Kind | None" = None
    block: int | None = None
    head: int | None = None


def attend_texts(run: "Run", words: Sequence[str], wanted: Wanted, out: Path) -> tuple[dict[str, Any], str, bytes]:
    """The result, the same for people, and the picture."""
    import numpy as np

    from glassformer.lens.answer_target import answer_target
    from glassformer.lens.attention import patterns
    from glassformer.lens.encode_input import encode_input
    from glassformer.lens.gradient_attention import gradient_attention
    from glassformer.lens.token_maps import chosen, rollout_maps, token_maps
    from glassformer.lens.token_picture import token_picture
    from glassformer.lens.trace import trace

    text, target = texts_of(run, words)
    given = encode_input(run, text, target)
    seen = trace(run.model, run.params, given.x)
    maps = patterns(run.model, seen.values)
    answer = answer_target(run, given, np.asarray(seen.logits))
    if wanted.gradient:
        maps = gradient_attention(trace(run.model, run.params, given.x, dy=answer.dy))
    shown = token_maps(run.model, maps, given.labels)
    if wanted.rollout:
        shown += rollout_maps(rolled_up(run.model, maps, wanted.gradient), given.labels)
    shown = chosen(shown, wanted.kind, wanted.block, wanted.head)
    place = parse_place(wanted.query, shown, run)
    for one in shown:
        one.of(place)  # a place that is not there is refused before anything is drawn
    scale = GRADIENT if wanted.gradient else "attention"
    reads = f"{run.path.name} {verb(run)} {answer.text}{sure(answer.probability)} for {shortened(text)!r}"
    framed = "" if place == "mean" else f"; framed: {whose(place, shown)}"
    about = f"{scale[0].upper()}{scale[1:]}: rows look at columns{framed}"
    png = token_picture(shown, f"{reads}\n{about}", place, scale)
    result = {
        "out": str(out),
        "run": str(run.path),
        "text": text,
        "answer": answer.text,
        "probability": answer.probability,
        "query": place,
        "shows": scale,
        "tokens": list(given.labels.source),
        "target": list(given.labels.target),
        "written": list(given.labels.written),
        "heads": [as_plain(one) for one in shown if one.head is not None],
        "rollout": [as_plain(one) for one in shown if one.head is None] if wanted.rollout else None,
    }
    return result, as_text(reads, shown, place, wanted.gradient, out), png


def texts_of(run: "Run", words: Sequence[str]) -> tuple[str, str | None]:
    """The text, and what a T5 is made to write, where that is given."""
    from glassformer.cli.predict_texts import read
    from glassformer.errors import DataError
    from glassformer.train.tasks import Translate

    most = 2 if isinstance(run.recipe.task, Translate) else 1
    if len(words) > most:
        raise DataError(
            f"attend: {len(words)} texts came ({', '.join(words)}), expected one{', and its target' * (most - 1)}; "
            "a text with spaces stands in quotes"
        )
    found = list(read(run, words[0]))
    if len(found) != 1:
        raise DataError(f"{words[0]}: {len(found)} lines with anything in them came, expected one")
    return found[0].text, words[1] if len(words) > 1 else None


def rolled_up(model: Any, maps: dict[str, Any], gradient: bool) -> Any:
    from glassformer.lens.attention_rollout import rolled
    from glassformer.lens.gradient_attention import averaged, fetched

    return fetched(rolled(model, averaged(maps), s=1)) if gradient else rolled(model, averaged(maps), s=0.5)


def parse_place(query: str | None, shown: "Sequence[TokenMap]", run: "Run") -> "Place":
    """Without a word: of a model that writes on, its last token, which does it; of others the mean."""
    from glassformer.train.tasks import NextToken, Prompted

    if query is None:
        return "last" if isinstance(run.recipe.task, NextToken | Prompted) else "mean"
    if query == "mean" or query == "last":
        return query
    if query == "class":
        return 0
    if not query.strip().isdecimal():
        raise typer.BadParameter(
            f"{query!r} came, expected the number of a token from 0, or last, or mean", param_hint="--query"
        )
    return int(query)


def verb(run: "Run") -> str:
    from glassformer.train.tasks import Answering, Chat, Masked, NextToken, Translate

    verbs = {NextToken: "expects", Answering: "expects", Chat: "expects", Masked: "fills in", Translate: "writes"}
    return verbs.get(type(run.recipe.task), "says")


def sure(probability: float | None) -> str:
    return "" if probability is None else f" ({100 * probability:.1f} %)"


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def whose(place: "Place", shown: "Sequence[TokenMap]") -> str:
    """`token 6, '9'`; where there are several kinds, each has its own tokens."""
    from glassformer.lens.token_maps import by_kind
    from glassformer.lens.token_maps import shown as spelled

    if place == "mean":
        return "the mean over all tokens that look"
    kinds = by_kind(shown)
    rows = [(kind, len(own[0].rows) - 1 if place == "last" else place, own[0].rows) for kind, own in kinds]
    names = [f"{spelled(names[row])!r}" + f" ({kind})" * (len(kinds) > 1) for kind, row, names in rows]
    number = "the last token" if place == "last" and len(kinds) > 1 else f"token {rows[0][1]}"
    return f"{number}, {', '.join(names)}"


def as_text(reads: str, shown: "Sequence[TokenMap]", place: "Place", gradient: bool, out: Path) -> str:
    from rich.console import Console

    from glassformer.lens.token_rows import token_rows

    what = "most from" if gradient else "most at"
    lines = token_rows(shown, place, max(SHORTEST, Console().width), what)
    return "\n".join([reads, f"of {whose(place, shown)}:", "", *lines, "", f"wrote {out}"])


def as_plain(one: "TokenMap") -> dict[str, Any]:
    return {"name": one.name, "kind": one.kind, "head": one.head, "weights": one.weights.tolist()}
