"""glassformer generate: text from a trained model, as it is written."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.data.tokeniser import Tokeniser
    from glassformer.generate import BeamSearch
    from glassformer.predict.run import Run

INSTEAD = {  # what predict does with runs that do not write
    "classify": "which class something belongs to",
    "masked": "what stands in place of <mask>",
    "tag": "which parts a text has",
    "span": "where in a text the part is that it looks for",
}


def generate(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train` or `glassformer import`")],
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", help="the text to go on from, or to answer; several are allowed; -: from stdin"),
    ] = None,
    length: Annotated[int | None, typer.Option("--length", "-n", help="tokens at most (default: 200)")] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", "-t", help="below 1 safer, above 1 wilder (default: 1)")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="draw from the so many likeliest tokens only")] = None,
    top_p: Annotated[float | None, typer.Option(help="draw from the likeliest tokens, up to this share")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="above 1: what was written is less likely again")] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="always take the likeliest token (of answers: the default)")
    ] = False,
    beams: Annotated[int | None, typer.Option(help="T5: search for the likeliest answer, with so many beams")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="end before this text; several are allowed")] = None,
    seed: Annotated[int, typer.Option(help="another one, another text")] = 0,
    engine: Annotated[
        Literal["auto", "native", "jax"], typer.Option(help="auto: C on a CPU where it knows the model, else JAX")
    ] = "auto",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Let a trained GPT or recurrent model go on from a prompt, or answer one, as a T5 does.

    Example: `glassformer generate runs/gpt-nano-1 --prompt "def " --length 40 --temperature 0.8`
    """
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    given: dict[str, Any] = {name: value for name, value in draws.items() if value is not None}
    refuse_together(given, greedy, beams, repetition_penalty)
    from glassformer.cli.output import report
    from glassformer.errors import DataError
    from glassformer.generate import BeamSearch, Sampling, answers, decoder_for
    from glassformer.generate.prompts import usual_length
    from glassformer.native.decoder import NativeDecoder
    from glassformer.predict.run import load
    from glassformer.train.tasks import Answering

    sampling = Sampling(**given, repetition_penalty=repetition_penalty, greedy=greedy)
    search = None if beams is None else BeamSearch(beams)
    loaded = load(run)
    tokeniser = tokeniser_of(loaded)
    task, is_t5 = loaded.recipe.task, answers(loaded.model)
    is_answer = is_t5 or isinstance(task, Answering)
    if search and not is_t5:
        raise typer.BadParameter(
            f"{run} goes on from a prompt; beams are for a T5, which reads it first", param_hint="--beams"
        )
    if is_answer and not given:
        sampling = replace(sampling, greedy=True)
    prompts = read_prompts(prompt)
    behind = task.prompt(tokeniser, []) if isinstance(task, Answering) else []
    if behind and not all(prompts):
        raise DataError("the prompt: it is empty, and there is nothing to answer; write some text")
    decoder = decoder_for(loaded.model, loaded.params, engine, start_token=tokeniser.id_of("pad") or 0, notice=note)
    length = usual_length(decoder) if length is None else length

    stream = Stream(head(prompts[0], is_answer)) if len(prompts) == 1 and not json else None
    texts = write(
        decoder,
        tokeniser,
        prompts,
        search,
        length=length,
        stop=tuple(stop or ()),
        sampling=sampling,
        seed=seed,
        on_text=stream.tell if stream else None,
        behind=behind,
    )
    if stream:
        stream.end()
        return
    result = {
        "run": str(loaded.path),
        "engine": "native" if isinstance(decoder, NativeDecoder) else "jax",
        "length": length,
        "texts": [{"prompt": prompt, "text": text} for prompt, text in zip(prompts, texts, strict=True)],
        **(asdict(search) if search else {**asdict(sampling), "seed": seed}),
    }
    report(result, as_text(prompts, texts, is_answer), as_json=json)


def write(
    decoder: Any,
    tokeniser: "Tokeniser",
    prompts: list[str],
    search: "BeamSearch | None",
    behind: list[int],
    **settings: Any,
) -> list[str]:
    from glassformer.generate import answer_text, answers, best_answers, continue_text

    if not answers(decoder.model):
        return continue_text(decoder, tokeniser, prompts, behind=behind, **settings)
    if search is None:
        return answer_text(decoder, tokeniser, prompts, **settings)
    texts = best_answers(decoder, tokeniser, prompts, search=search, length=settings["length"], stop=settings["stop"])
    if settings["on_text"]:
        settings["on_text"](0, texts[0])
    return texts


class Stream:
    """One text, on stdout as it comes; what stands before it comes with the first piece, when nothing was refused."""

    def __init__(self, before: str) -> None:
        self.before = before

    def tell(self, row: int, piece: str) -> None:
        print(self.before + piece, end="", flush=True)
        self.before = ""

    def end(self) -> None:
        print(self.before)


def head(prompt: str, answers: bool) -> str:
    return f"{prompt} -> " if answers else prompt


def as_text(prompts: list[str], texts: list[str], answers: bool) -> str:
    """Answers a line each; longer texts each under a heading."""
    rows = [head(prompt, answers) + text for prompt, text in zip(prompts, texts, strict=True)]
    if answers:
        return "\n".join(rows)
    return "\n\n".join(f"== prompt {i + 1} ==\n{row}" for i, row in enumerate(rows))


def refuse_together(given: dict[str, Any], greedy: bool, beams: int | None, repetition_penalty: float) -> None:
    """Settings of which one makes the other void."""
    drawn = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if greedy and given:
        raise typer.BadParameter(
            f"with it the likeliest token is always taken; leave out {drawn}", param_hint="--greedy"
        )
    if beams is not None and (given or greedy or repetition_penalty != 1):
        raise typer.BadParameter(
            "it searches and draws nothing; leave out the settings of drawing", param_hint="--beams"
        )


def read_prompts(given: list[str] | None) -> list[str]:
    """Without any: what stdin brings, or, at a terminal, nothing: a text from its beginning."""
    if not given:
        return ["" if sys.stdin.isatty() else from_stdin()]
    return [from_stdin() if text == "-" else text for text in given]


def from_stdin() -> str:
    """All of it as one prompt, less the end of its last line."""
    from glassformer.errors import DataError

    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"stdin: not UTF-8 text: {error}; convert it first") from None


def tokeniser_of(run: "Run") -> "Tokeniser":
    """Of a run that writes text; any other is told what it can do instead."""
    from glassformer.errors import CheckpointError, DataError
    from glassformer.generate.decoder import writes

    if not writes(run.model):
        task = run.recipe.task.name
        raise DataError(
            f"{run.path}: {type(run.model).__name__} (task {task}) does not write text; "
            f"`glassformer predict INPUT --run {run.path}` says {INSTEAD.get(task, 'what it makes of something')}"
        )
    if run.tokeniser is None:
        raise CheckpointError(f"{run.path}: it has no tokenizer.json, so text cannot be read or written; put it there")
    return run.tokeniser


def note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)
