"""A conversation with a run, from Python: `python examples/chat.py RUN`, or without one with a small model of its own.

RUN is a folder of `glassformer import` whose model has a chat template, or of `glassformer train --task chat`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import glassformer
from glassformer.data.chat_template import Message
from glassformer.generate.text import Writing
from glassformer.predict.chat import ChatWriter
from glassformer.predict.run import Run, load
from glassformer.predict.writer import sampling_for

GREETINGS = {"hello": "hi there", "who are you": "a small model", "thank you": "you are welcome", "bye": "see you"}


def greeter(out: Path = Path("runs/greeter"), **settings: Any) -> Run:
    """A model that knows four answers by heart."""
    talks = [
        {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]}
        for asked, said in GREETINGS.items()
    ]
    out.mkdir(parents=True, exist_ok=True)
    file = out / "greetings.jsonl"
    file.write_text("".join(f"{json.dumps(talk)}\n" for talk in talks * 25))
    small: dict[str, Any] = {
        "model__width": 48,
        "model__hidden": 96,
        "model__depth": 2,
        "training__epochs": 20,
        "training__samples": 0,
    }
    small |= {"task": "chat", "task__template": "chatml"}
    return glassformer.fit("llama-nano", str(file), **small | settings, out=out / "run")


def main(run: Run | None = None, asked: tuple[str, ...] = ("hello", "who are you", "bye")) -> list[str]:
    run = run or greeter()
    writer = ChatWriter(run)
    how = Writing(length=100, sampling=sampling_for(run, greedy=True))
    messages, answers = list[Message](), list[str]()
    for text in asked:
        messages = writer.fitting([*messages, {"role": "user", "content": text}], how.length)
        print(f"user       {text}\nassistant  ", end="")
        answer = writer.reply(messages, how, lambda piece: print(piece, end="", flush=True)).text
        print()
        messages.append({"role": "assistant", "content": answer})
        answers.append(answer)
    return answers


if __name__ == "__main__":
    main(load(sys.argv[1]) if len(sys.argv) > 1 else None)
