"""Conversations from JSON lines: what is read, and what is said about each line that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.chat_template import CHATML
from glassformer.data.conversations import encode_conversations, with_template
from glassformer.data.text_sources import load_texts
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError, GlassformerError

ASK, ANSWER = {"role": "user", "content": "2 + 2"}, {"role": "assistant", "content": "4"}
OWN = Characters().train(["user assistant system\n2+4hi {%}"])


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_reading(tmp_path: Path) -> None:
    lines = [{"id": i, "messages": [{"role": "system", "content": ""}, ASK, ANSWER]} for i in range(20)]
    found = load_texts(str(write(tmp_path / "talk.jsonl", *lines, "")))
    assert (len(found.train), len(found.test)) == (18, 2)
    assert found.train[0].messages[1] == ASK


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: damaged or cut short: not JSON"),
        ({"texts": "a"}, r'line 2 holds {"texts": "a"}, expected a conversation on each line'),
        ({"messages": []}, r"line 2: \[\] came as the messages, expected a list"),
        ({"messages": ["a"]}, r"line 2: message 1 is 'a', expected {\"role\""),
        ({"messages": [{"content": "a"}]}, "line 2: message 1: has no role, expected a text"),
        ({"messages": [ASK, {"role": "assistant"}]}, "line 2: message 2: has no content"),
        ({"messages": [ASK, {"role": "assistant", "content": None}]}, "message 2: content is None, expected a text"),
        ({"messages": [ASK, {"role": "asistant", "content": "4"}]}, "called 'asistant'; did you mean assistant"),
        ({"messages": [ASK]}, "line 2: the assistant says nothing"),
        ({"messages": [ASK, {"role": "assistant", "content": " "}]}, "line 2: message 2 is empty"),
    ],
)
def test_wrong_lines(line: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "talk.jsonl", {"messages": [ASK, ANSWER]}, line)
    with pytest.raises(DataError, match=message):
        load_texts(str(path))


def test_too_few(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one conversation came, expected two or more"):
        load_texts(str(write(tmp_path / "talk.jsonl", {"messages": [ASK, ANSWER]})))


def test_a_template_for_our_own_tokeniser() -> None:
    """Its symbols for start and end, which it does not look for in texts, it finds in conversations."""
    chat = with_template(OWN, "chatml", "run")
    start, end = OWN.id_of("start"), OWN.id_of("end")
    ids = encode_conversations(chat, [[ASK]])[0]
    assert ids == [start, *OWN.encode("user\n2 + 2"), end, *OWN.encode("\n"), start, *OWN.encode("assistant\n")]
    assert chat.ends == {end}
    assert start not in OWN.encode("<start>")
    assert chat.size == OWN.size


def test_templates_by_word(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{{ messages[0].content }}")
    for word in str(file), file.read_text():
        assert encode_conversations(with_template(OWN, word, "run"), [[ASK]])[0] == OWN.encode("2 + 2")
    own = with_template(OWN, "{{ 'hi' }}", "run")
    assert with_template(own, "", "run") is own
    assert with_template(own, "default", "run").chat == own.chat
    assert with_template(own, "chatml", "run").chat.templates == {"default": CHATML}  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(DataError, match=r"run: there is no chat template, .* give one: --template FILE"):
        with_template(OWN, "", "run")
    with pytest.raises(GlassformerError, match="no chat template is called 'mine'; expected a file, or one of: chatml"):
        with_template(OWN, "mine", "run")
