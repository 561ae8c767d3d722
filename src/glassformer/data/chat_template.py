"""Chat templates: a conversation as the text that a model was trained on, by a template in Jinja's language.

    [{"role": "user", "content": "hi"}]  ->  <|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n

They come with published weights, so they are rendered in a sandbox with limits (chat_renderer.py).
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data import chat_renderer
from glassformer.data.text_extra import text_package
from glassformer.errors import DataError, UnknownNameError
from glassformer.reading import parse_json

Message = Mapping[str, Any]  # role, content
MOST_TEMPLATE = 1 << 20  # characters; the longest published ones have 20,000
AT_ONCE = 512  # conversations for one process
SECONDS = 30  # on the clock, beside a second of CPU for each conversation
OTHER = "take another one: --template FILE, or --template chatml (train: --set task.template=…)"
SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
CHATML = """\
{%- for message in messages %}
    {{- bos_token + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {{- message.content + eos_token }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + eos_token }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- bos_token + 'assistant\\n' }}
{%- endif %}
"""


class Rendered(NamedTuple):
    text: str
    spans: tuple[tuple[int, int], ...]  # text[start:end] is what the assistant says, with the token that ends its turn


@dataclass(frozen=True)
class ChatTemplate:
    """A template, or several by name, with what they are rendered with."""

    templates: Mapping[str, str]
    special_tokens: Mapping[str, str] = field(default_factory=dict)  # bos_token, eos_token, …: how they are spelled
    ends: tuple[int, ...] = ()  # the tokens that end a turn

    @property
    def default(self) -> str:
        if "default" not in self.templates:
            known = ", ".join(self.templates) or "none"
            raise UnknownNameError(f"the chat template: there is none called default; known: {known}: --template NAME")
        return self.templates["default"]

    def render(self, messages: Sequence[Message], *, prompt: bool = True) -> str:
        """One conversation; `prompt`: with what stands before the assistant's next answer."""
        (found,) = self.in_processes([messages], prompt=prompt)
        return found["text"]

    def render_prompts(self, conversations: Sequence[Sequence[Message]]) -> Iterator[str]:
        """Each with what stands before the assistant's next answer."""
        return (found["text"] for found in self.in_processes(conversations, prompt=True))

    def render_whole(self, conversations: Sequence[Sequence[Message]], ends: Sequence[str]) -> Iterator[Rendered]:
        """With the places of the assistant's turns. `ends`: how the tokens that end a turn are spelled."""
        for found in self.in_processes(conversations, ends, prompt=False, spans=True):
            yield Rendered(found["text"], tuple(map(tuple, found["spans"])))

    def in_processes(
        self, conversations: Sequence[Sequence[Message]], ends: Sequence[str] = (), *, prompt: bool, spans: bool = False
    ) -> Iterator[dict[str, Any]]:
        """What the renderer says of each, many to a process."""
        head = {"template": self.default, "special": dict(self.special_tokens), "ends": list(ends)}
        for start in range(0, len(conversations), AT_ONCE):
            part = conversations[start : start + AT_ONCE]
            answers = run(
                [head, *({"messages": list(map(dict, one)), "prompt": prompt, "spans": spans} for one in part)]
            )
            if "error" in answers[-1]:
                is_one = len(conversations) == 1 or len(answers) == 1  # or it is the template itself
                where = "" if is_one else f", at conversation {start + len(answers) - 1}"
                raise DataError(f"the chat template{where}: {answers[-1]['error']}; {OTHER}")
            yield from answers[1:]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> "ChatTemplate":
        """`where` is the file, for messages."""
        found = parse_json(text, where, DataError)
        fields = {"templates", "special_tokens", "ends"}
        if not isinstance(found, dict) or found.keys() != fields:
            raise DataError(f"{where}: damaged: expected {', '.join(sorted(fields))}; import the model again")
        return checked(found["templates"], found["special_tokens"], found["ends"], where)


def checked(templates: Any, special_tokens: Any, ends: Any, where: str) -> ChatTemplate:
    """Of what a file says."""
    for what, found in ("templates", templates), ("special tokens", special_tokens):
        if not isinstance(found, dict) or not all(isinstance(one, str) for pair in found.items() for one in pair):
            raise DataError(f"{where}: {str(found)[:60]!r} came as its {what}, expected texts by name")
    if not isinstance(ends, list) or not all(type(one) is int and one >= 0 for one in ends):
        raise DataError(f"{where}: {str(ends)[:60]!r} came as the tokens that end a turn, expected their numbers")
    for name, template in templates.items():
        if len(template) > MOST_TEMPLATE:
            raise DataError(
                f"{where}: the chat template {name} has {len(template):,} characters, expected at most "
                f"{MOST_TEMPLATE:,}; leave it out, and use one of your own: --template FILE"
            )
    return ChatTemplate(templates, special_tokens, tuple(ends))


def run(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the renderer answers to each, up to the first error."""
    text_package("jinja2", "the chat template")
    specs = [importlib.util.find_spec(name) for name in ("jinja2", "markupsafe")]
    homes = {str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin}
    command = [sys.executable, "-I", "-S", chat_renderer.__file__, *sorted(homes)]
    lines = "".join(f"{json.dumps(job)}\n" for job in jobs)
    kept = {name: os.environ[name] for name in ("TZ", "LD_LIBRARY_PATH") if name in os.environ}
    seconds = SECONDS + len(jobs)
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=seconds, env=kept)
    except subprocess.TimeoutExpired:
        return [{"error": f"it takes more than {seconds} s; does it loop?"}]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
    if done.returncode == -signal.SIGPROF:
        answers.append({"error": f"it takes more than {chat_renderer.SECONDS:g} s for one conversation; does it loop?"})
    elif len(answers) < len(jobs) and not (answers and "error" in answers[-1]):
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        answers.append({"error": f"it could not be rendered: {said[:200]}"})
    return answers
