"""Renders a chat template in a process of its own: the first line of stdin is the template, then a conversation a line.

A template is a program that came with somebody's weights. Jinja's sandbox keeps it from Python; the kernel keeps this
process from everything else: it may open no file, start no process, take no more than MEMORY (macOS does not count it)
and SECONDS of CPU a conversation, and it writes no more than MOST characters beyond four times what it was given.

This file is run by its path, `chat_template.py` does it, and imports nothing of the package. Settings are those of
transformers' apply_chat_template, so that templates find what they were written for.
"""

import contextlib
import json
import resource
import secrets
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

SECONDS = 1.0  # of CPU, to compile the template, and again for each conversation
MEMORY = 512 << 20  # bytes of address space; Python and Jinja take 60 MiB of it
MOST = 1 << 18  # characters


class TooLongError(Exception):
    pass


def environment(marks: tuple[str, str]) -> Any:
    """Jinja's, with what templates may use. {% generation %} puts marks around what the assistant says."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            self.environment.globals["has_generation"] = True
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

        def marked(self, caller: Any) -> str:
            return marks[0] + caller() + marks[1]

    class PublicNamespace(Namespace):
        """A namespace without names that lead into Python."""

        def __init__(*args: Any, **settings: Any) -> None:
            for name in dict(*args[1:], **settings):
                refuse_private(name)
            Namespace.__init__(*args, **settings)

        def __setitem__(self, name: str, value: Any) -> None:
            refuse_private(name)
            super().__setitem__(name, value)

    def refuse_private(name: Any) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"{name!r} came as a name, expected one without _ in front")

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **settings: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **settings)

    found = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    found.filters["tojson"] = tojson
    found.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": lambda *args, **settings: dict(*args, **settings),  # not the class, which has attributes
        "namespace": PublicNamespace,
        "has_generation": False,
    }
    return found


class Renderer:
    """One template; `special` are the special tokens by name, `ends` those that end a turn."""

    def __init__(self, template: str, special: dict[str, str], ends: list[str]) -> None:
        nonce = secrets.token_hex(16)  # which no message can hold
        self.marks = f"<{nonce}>", f"</{nonce}>"
        self.environment = environment(self.marks)
        self.template = self.environment.from_string(template)
        self.special, self.ends = special, ends

    def render(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        """With marks in it."""
        most, pieces, length = MOST + 4 * len(json.dumps(messages)), [], 0
        given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": prompt}
        for piece in self.template.generate(**self.special, **given):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                raise TooLongError(f"it writes more than {most:,} characters; does it loop?")
        return "".join(pieces)

    def text(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        first, last = self.marks
        return self.render(messages, prompt).replace(first, "").replace(last, "")

    def spans(self, messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
        """Where in the text the assistant's turns are, up to the token that ends each."""
        if self.environment.globals["has_generation"]:
            return [*self.marked(self.render(messages, False))]
        text = self.text(messages, False)
        return [self.turn(messages, i, text) for i, one in enumerate(messages) if one.get("role") == "assistant"]

    def marked(self, text: str) -> Iterator[tuple[int, int]]:
        first, last = self.marks
        place = 0
        before, *turns = text.split(first)
        for turn in turns:
            place += len(before)
            said, _, before = turn.partition(last)
            yield place, place + len(said)
            place += len(said)

    def turn(self, messages: list[dict[str, Any]], i: int, text: str) -> tuple[int, int]:
        """What message i adds to the conversation before it, of which the text must begin with both."""
        before, after = self.text(messages[:i], True), self.text(messages[: i + 1], False)
        if not after.startswith(before) or not text.startswith(after):
            raise ValueError(
                f"where message {i + 1} begins and ends is not to be seen, since it is written differently when others "
                "follow; put {% generation %} and {% endgeneration %} around what the assistant says"
            )
        ends = [at + len(word) for word in self.ends if (at := after.rfind(word, len(before))) >= 0]
        return len(before), max(ends, default=len(after))


def answer(renderer: Renderer, job: dict[str, Any]) -> dict[str, Any]:
    messages = job["messages"]
    found: dict[str, Any] = {"text": renderer.text(messages, job["prompt"])}
    return found | {"spans": renderer.spans(messages)} if job["spans"] else found


def warm_up() -> None:
    """Let Jinja, the codecs and the time zone read their files, before none can be opened any more."""
    renderer = Renderer(
        "{{ '\\n' }}{{ strftime_now('%d %b %Y') }}{{ messages | tojson(indent=1) }}{{ 1 + '' }}", {}, []
    )
    with contextlib.suppress(TypeError):
        renderer.text([], True)


def main() -> None:
    sys.path += sys.argv[1:]
    warm_up()
    limits = {"AS": MEMORY, "CORE": 0, "FSIZE": 0, "NPROC": 0, "NOFILE": 3}
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it ends the process, even within one long operation
    renderer = None
    for line in sys.stdin:
        job = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if renderer is None:
                renderer, found = Renderer(**job), {}
            else:
                found = answer(renderer, job)
        except MemoryError:
            found = {"error": f"it takes more than {MEMORY >> 20} MiB of memory"}
        except Exception as error:
            found = {"error": f"{error or type(error).__name__}"[:500]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), flush=True)
        if "error" in found:
            return


if __name__ == "__main__":
    main()
