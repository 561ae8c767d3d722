"""Chat templates: what they are given, where the assistant's turns are, and that none takes time, memory or files."""

import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.data import chat_renderer
from glassformer.data.chat_template import CHATML, ChatTemplate
from glassformer.errors import DataError, GlassformerError

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello </s>"},
    {"role": "user", "content": "2 + 2"},
    {"role": "assistant", "content": "4"},
]


def rendered(template: str, messages: list[dict[str, str]] = TALK[:1], **settings: Any) -> str:
    return ChatTemplate({"default": template}, SPECIAL).render(messages, **settings)


def said(template: str, messages: list[dict[str, str]] = TALK) -> list[str]:
    (found,) = ChatTemplate({"default": template}, SPECIAL).render_whole([messages], ["</s>"])
    return [found.text[start:end] for start, end in found.spans]


def test_chatml() -> None:
    assert rendered(CHATML, TALK[:3]) == (
        "<s>user\nhi</s>\n<s>assistant\nhello </s></s>\n<s>user\n2 + 2</s>\n<s>assistant\n"
    )
    assert rendered(CHATML, TALK, prompt=False).endswith("<s>assistant\n4</s>\n")


def test_what_templates_find() -> None:
    assert rendered("{{ tools is none }}{{ documents is none }}{{ pad_token }}") == "TrueTrue"
    assert rendered("{{ {'é': '<'} | tojson }}") == '{"é": "<"}'
    assert len(rendered("{{ strftime_now('%Y') }}")) == 4
    assert rendered("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "012"
    assert rendered("{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}{{ dict(b=3).b }}") == "23"


def test_turns_of_the_assistant() -> None:
    assert said(CHATML) == ["hello </s></s>", "4</s>"]
    plain = CHATML.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")
    assert said(plain) == ["hello </s></s>", "4</s>"]  # by what each adds, without the line end behind </s>
    no_prompt = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
    assert said(no_prompt) == ["a:hello </s>", "a:4;"]


def test_turns_that_cannot_be_told() -> None:
    last_only = "{% for m in messages %}{{ m.content if loop.last else '…' }}{% endfor %}"
    with pytest.raises(DataError, match=r"message 2 begins and ends is not to be seen.*\{% generation %\}"):
        said(last_only)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 1 s"),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        ("{{ 'a' * 10**9 }}", "more than 512 MiB"),
        ("{{ '%1000000000d' % 1 }}", "more than 512 MiB"),
        ("{{ 3**(10**7) % 7 }}", "more than 1 s"),  # one operation, which no check between operations would end
        ("{% for i in range(9999) %}{{ 'a' * 99 }}{% endfor %}", "writes more than 262,"),
        ("{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}", "more than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "Expected an expression"),
        ("{{ messages[17].content }}", "no element 17"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ namespace(__class__=1) }}", "expected one without _"),
        ("{% include '/etc/passwd' %}", "no loader"),
    ],
)
def test_refused(template: str, message: str) -> None:
    before = time.monotonic()
    with pytest.raises(DataError, match=rf"^the chat template: .*{message}.*--template chatml"):
        rendered(template)
    assert time.monotonic() - before < 10  # about 1 s, where the machine has nothing else to do


def test_which_conversation_fails() -> None:
    picky = "{% if messages[0].content == 'hi' %}{{ raise_exception('no greetings') }}{% endif %}"
    template = ChatTemplate({"default": picky})
    with pytest.raises(DataError, match="at conversation 2: no greetings"):
        list(template.render_whole([TALK[2:], TALK, TALK[2:]], []))


def test_the_process_opens_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where a template has got out of Jinja's sandbox: here, the renderer itself is another one."""
    escaped = "def text(self, *_): return open('/etc/hosts').read()\n\n    def old("
    code = Path(chat_renderer.__file__).read_text().replace("def text(", escaped).replace("    warm_up()\n", "")
    (tmp_path / "escaped.py").write_text(code)
    monkeypatch.setattr(chat_renderer, "__file__", str(tmp_path / "escaped.py"))
    with pytest.raises(DataError, match="Too many open files"):
        rendered("")


def test_names() -> None:
    template = ChatTemplate({"tools": "x"})
    with pytest.raises(GlassformerError, match="there is none called default; known: tools: --template NAME"):
        template.render(TALK)


def test_kept_as_json() -> None:
    template = ChatTemplate({"default": CHATML, "é": "{{ 1 }}"}, SPECIAL, (2, 5))
    assert ChatTemplate.from_json(template.to_json(), "chat.json") == template


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "chat.json: damaged or cut short"),
        ("{}", "chat.json: damaged: expected ends, special_tokens, templates"),
        ('{"templates": {"default": 3}, "special_tokens": {}, "ends": []}', "came as its templates, expected texts"),
        ('{"templates": {}, "special_tokens": {}, "ends": [-1]}', "came as the tokens that end a turn"),
    ],
)
def test_damaged(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ChatTemplate.from_json(text, "chat.json")
