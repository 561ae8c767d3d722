"""glassformer generate: text from a trained model, as it is written."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.generate import BeamSearch
    from glassformer.generate.text import OnText, Writing
    from glassformer.predict.run import Run
    from glassformer.predict.writer import Writer


def generate(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train` or `glassformer import`")],
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", help="the text to go on from, or to answer; several are allowed; -: from stdin"),
    ] = None,
    jsonl: Annotated[
        str | None,
        typer.Option("--jsonl", metavar="FILE", help="prompts as JSON lines, texts as JSON lines on stdout; -: stdin"),
    ] = None,
    length: Annotated[int | None, typer.Option("--length", "-n", help="tokens at most (default: 200)")] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", "-t", help="below 1 safer, above 1 wilder (default: 1)")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="draw from the so many likeliest tokens only")] = None,
    top_p: Annotated[float | None, typer.Option(help="draw from the likeliest tokens, up to this share")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="draw from tokens at least so many times as likely as the likeliest: 0.05")
    ] = None,
    repetition_penalty: Annotated[float, typer.Option(help="above 1: what was written is less likely again")] = 1.0,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN=BIAS",
            help="add to the score of a token, by its id or its text: 17=-5, ' the=-inf'; several, or a .json file",
        ),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="always take the likeliest token (of answers: the default)")
    ] = False,
    beams: Annotated[int | None, typer.Option(help="T5: search for the likeliest answer, with so many beams")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="end before this text; several are allowed")] = None,
    seed: Annotated[int, typer.Option(help="another one, another text; of the second prompt it is one more")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="with --jsonl: so many texts are written together")] = 16,
    engine: Annotated[
        Literal["auto", "native", "jax"], typer.Option(help="auto: C on a CPU where it knows the model, else JAX")
    ] = "auto",
    weights: Annotated[
        Literal["float32", "bf16", "int8"],
        typer.Option(
            help="what C reads them as: int8 is a quarter of the bytes, and more than twice the tokens a second"
        ),
    ] = "float32",
    chat: Annotated[
        bool | None,
        typer.Option(
            "--chat/--no-chat", help="answer as in a conversation (default: if it was tuned on conversations)"
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="with --chat: the message that comes before all others")] = None,
    messages: Annotated[
        str | None,
        typer.Option(metavar="FILE", help='with --chat: a conversation, [{"role": …, "content": …}, …]; -: stdin'),
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="with --chat: a file, chatml, or one of the run's own by name (default: its own)")
    ] = None,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Let a trained GPT, Llama or recurrent model go on from a prompt, or answer one, as a T5 does.

    Example: `glassformer generate runs/gpt-nano-1 --prompt "def " --length 40 --temperature 0.8`

    Example: `glassformer generate runs/gpt-nano-1 --jsonl prompts.jsonl > texts.jsonl`

    Example: `glassformer generate runs/gpt2 --prompt "Once" --weights int8`

    Example: `glassformer generate runs/smollm --chat --prompt "Hello!" --system "Be brief."`; without --prompt, at a
    terminal, a conversation

    With --jsonl, each line is an object such as `{"prompt": "def ", "max_tokens": 40, "seed": 3}`; the options
    hold where a line has no setting of its own. One object comes out for each, in their order, as soon as it is known.
    """
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    given: dict[str, Any] = {name: value for name, value in draws.items() if value is not None}
    refuse_together(given, greedy, beams, logit_bias or repetition_penalty != 1)
    refuse_with_lines(jsonl, prompt, beams, json)
    from glassformer.cli.chat import answer, read_messages, talk
    from glassformer.cli.generate_lines import write_lines
    from glassformer.cli.output import note, report
    from glassformer.generate import BeamSearch, answers
    from glassformer.generate.text import Writing
    from glassformer.predict.chat import ChatWriter
    from glassformer.predict.run import load
    from glassformer.predict.writer import Writer, sampling_for

    if greedy:
        given["greedy"] = True
    given |= {"repetition_penalty": repetition_penalty, "logit_bias": read_bias(logit_bias or [])}
    search = None if beams is None else BeamSearch(beams)
    loaded = load(run)
    sampling = sampling_for(loaded, **given)
    if search and not answers(loaded.model):
        raise typer.BadParameter(
            f"{run} goes on from a prompt; beams are for a T5, which reads it first", param_hint="--beams"
        )
    chat = wants_chat(loaded, chat, system=system, messages=messages, template=template)
    if chat:
        refuse_with_chat(messages, prompt, jsonl, beams)
    is_talk = chat and not (prompt or jsonl or messages or json) and sys.stdin.isatty()
    prompts = [] if jsonl or is_talk or messages else read_prompts(prompt)
    writer = (
        ChatWriter(loaded, template or "", system or "", engine, note, weights)
        if chat
        else Writer(loaded, engine, note, weights)
    )
    how = Writing(writer.usual_length if length is None else length, sampling, seed, tuple(stop or ()))
    if jsonl:
        return write_lines(writer, jsonl, how, batch)
    if isinstance(writer, ChatWriter):
        if is_talk:
            return talk(writer, how)
        given_messages = read_messages(messages, system) if messages else writer.asked(prompts[0])
        return answer(writer, loaded.path, given_messages, how, as_json=json)
    stream = Stream(head(prompts[0], writer.answers)) if len(prompts) == 1 and not json else None
    rows = write(writer, prompts, how, search, stream.tell if stream else None)
    if stream:
        return stream.end()
    result = {
        "run": str(loaded.path),
        "engine": writer.engine,
        "weights": writer.weights,
        "length": how.length,
        "texts": rows,
        **(
            asdict(search) if search else {**asdict(sampling), "logit_bias": as_json(sampling.logit_bias), "seed": seed}
        ),
    }
    report(result, as_text(prompts, [row["text"] for row in rows], writer.answers), as_json=json)
    return None


def write(
    writer: "Writer", prompts: list[str], how: "Writing", search: "BeamSearch | None", on_text: "OnText | None"
) -> list[dict[str, Any]]:
    from glassformer.generate import best_answers
    from glassformer.predict.writer import generate

    if search is None:
        return [written._asdict() for written in generate(writer, prompts, how, on_text)]
    found = best_answers(writer.decoder, writer.tokeniser, prompts, search=search, length=how.length, stop=how.stop)
    if on_text:
        on_text(0, found[0])
    return [{"prompt": prompt, "text": text} for prompt, text in zip(prompts, found, strict=True)]


def as_json(bias: Mapping[Any, float]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {str(token): "-inf" if value == -math.inf else value for token, value in bias.items()}


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


def read_bias(given: list[str]) -> dict[str, float]:
    """Of tokens, each TOKEN=BIAS or a file of them."""
    from glassformer.errors import DataError
    from glassformer.generate.logit_bias import split
    from glassformer.reading import read_json

    found: dict[str, float] = {}
    for one in given:
        read = read_json(Path(one), DataError) if one.endswith(".json") else dict([split(one)])
        if not isinstance(read, dict):
            raise DataError(f'{one}: {read!r:.60} came, expected biases by token: {{"17": -5, " the": -1.5}}')
        found |= read
    return found


def refuse_together(given: dict[str, Any], greedy: bool, beams: int | None, shaped: Any) -> None:
    """Settings of which one makes the other void."""
    drawn = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if greedy and given:
        raise typer.BadParameter(
            f"with it the likeliest token is always taken; leave out {drawn}", param_hint="--greedy"
        )
    if beams is not None and (given or greedy or shaped):
        raise typer.BadParameter(
            "it searches and draws nothing; leave out the settings of drawing", param_hint="--beams"
        )


def refuse_with_lines(jsonl: str | None, prompt: list[str] | None, beams: int | None, json: bool) -> None:
    clashes = {"--prompt": prompt, "--beams": beams, "--json": json}
    if jsonl and (without := [name for name, value in clashes.items() if value]):
        raise typer.BadParameter(
            f"prompts are in its lines, and texts come as JSON lines; leave out {', '.join(without)}",
            param_hint="--jsonl",
        )


def wants_chat(run: "Run", chat: bool | None, **settings: str | None) -> bool:
    """What only a conversation has asks for one; else it is the task of the run that says."""
    from glassformer.train.tasks import Chat

    given = ", ".join(f"--{name}" for name, value in settings.items() if value is not None)
    if chat is False and given:
        raise typer.BadParameter(f"{given} belongs to a conversation; leave one of them out", param_hint="--no-chat")
    return bool(given) or (isinstance(run.recipe.task, Chat) if chat is None else chat)


def refuse_with_chat(messages: str | None, prompt: list[str] | None, jsonl: str | None, beams: int | None) -> None:
    if beams is not None:
        raise typer.BadParameter("it is for a T5, which has no conversations", param_hint="--beams")
    if messages and (prompt or jsonl):
        raise typer.BadParameter(
            f"the conversation is in it; leave out {'--prompt' if prompt else '--jsonl'}", param_hint="--messages"
        )
    if prompt and len(prompt) > 1:
        raise typer.BadParameter(
            f"{len(prompt)} came, and a conversation goes on from one message; give several as --messages FILE, or "
            "each by itself with --jsonl",
            param_hint="--prompt",
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
