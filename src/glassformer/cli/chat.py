"""glassformer generate --chat: one answer to a conversation, or a conversation at the terminal."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from glassformer.cli.output import note, report
from glassformer.data.chat_template import Message
from glassformer.errors import DataError
from glassformer.generate.text import Writing
from glassformer.predict.chat import ChatWriter, messages_of
from glassformer.reading import parse_json, read_json


def read_messages(name: str, system: str | None) -> list[Message]:
    """From a file, or from stdin."""
    where = "stdin" if name == "-" else name
    found = parse_json(sys.stdin.buffer.read(), where, DataError) if name == "-" else read_json(Path(name), DataError)
    messages = messages_of(found, where)
    if system and messages[0]["role"] == "system":
        raise typer.BadParameter(f"{where} has a message of the system already; leave one out", param_hint="--system")
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def answer(writer: ChatWriter, run: Path, messages: list[Message], how: Writing, *, as_json: bool) -> None:
    """One answer, as it is written; or with the conversation as JSON."""
    if not as_json:
        writer.reply(messages, how, say)
        print()
        return
    found = writer.reply(messages, how)
    result: dict[str, Any] = {
        "run": str(run),
        "engine": writer.engine,
        "weights": writer.weights,
        "messages": [*messages, {"role": "assistant", "content": found.text}],
        "text": found.text,
        "stopped": found.stopped,
        "length": how.length,
        **asdict(replace(how.sampling, logit_bias={})),
        "seed": found.seed,
    }
    report(result, found.text, as_json=True)


def talk(writer: ChatWriter, how: Writing) -> None:
    """Lines in, answers out, until Ctrl-D; Ctrl-C ends an answer, and where there is none, the conversation."""
    note("a line is a message; Ctrl-D ends the conversation")
    messages, turn = list(writer.system), 0
    while (line := read_line()) is not None:
        if not line.strip():
            continue
        asked: list[Message] = [*messages, {"role": "user", "content": line}]
        kept, said = asked, list[str]()

        def hear(piece: str, said: list[str] = said) -> None:
            said.append(piece)
            say(piece)

        try:
            kept = writer.fitting(asked, how.length)
            writer.reply(kept, replace(how, seed=how.seed + turn), hear)
        except DataError as error:  # what was typed cannot be read: the conversation goes on without it
            note(str(error))
            continue
        except KeyboardInterrupt:
            if not said:  # as if it had not been asked
                print()
                continue
        print()
        if dropped := len(asked) - len(kept):
            note(f"the context of {writer.decoder.context} tokens is full: the oldest {dropped} messages are forgotten")
        messages, turn = [*kept, {"role": "assistant", "content": "".join(said)}], turn + 1


def read_line() -> str | None:
    """None: it is over."""
    try:
        return input("> ")
    except (EOFError, KeyboardInterrupt):
        print()
        return None


def say(piece: str) -> None:
    print(piece, end="", flush=True)
