"""Conversations: messages with roles, from JSON, and the tokeniser that knows how to make text of them.

    {"messages": [{"role": "user", "content": "2 + 2"}, {"role": "assistant", "content": "4"}]}      one on each line

    {"text": "…"}                                     a plain text among them, of which everything counts

Of a file the last tenth is for testing.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.data.chat_template import CHATML, MOST_TEMPLATE, ChatTemplate, Message
from glassformer.data.text_extra import text_package
from glassformer.data.text_file import read_text
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError, FileError, UnknownNameError
from glassformer.reading import expanded, open_plain, parse_json
from glassformer.reading import read_text as read_plain

ROLES = ("system", "developer", "user", "assistant", "tool")
ONE = '{"role": "user", "content": "…"}'
EXPECTED = f'a conversation on each line: {{"messages": [{ONE}, …]}}'
SNIFFED = 1 << 16  # bytes
FEW = 3  # characters in a message


def load_conversations(name: str, path: Path) -> Texts:
    lines = enumerate(read_text(path, EXPECTED).split("\n"), start=1)
    found = [conversation(line, f"{path}: line {number}") for number, line in lines if line.strip()]
    if len(found) < 2:
        came = "one conversation" if found else "no conversation"
        raise DataError(f"{path}: {came} came, expected two or more, to train and to test")
    held_out = max(round(len(found) / 10), 2 if len(found) > 3 else 1)
    return Texts(name=name, train=tuple(found[:-held_out]), test=tuple(found[-held_out:]))


def conversation(line: str, where: str) -> Example:
    found = parse_json(line, where, DataError)
    if isinstance(found, dict) and found.keys() == {"text"} and isinstance(found["text"], str):
        return Example(text=found["text"])
    if not isinstance(found, dict) or "messages" not in found:
        raise DataError(f"{where} holds {line.strip()[:60]}, expected {EXPECTED}")
    messages = checked_messages(found["messages"], where)
    if not any(message["role"] == "assistant" for message in messages):
        raise DataError(
            f"{where}: the assistant says nothing, so nothing can be learned; add a turn of the role assistant"
        )
    for i, message in enumerate(messages):
        if message["role"] != "system" and not message["content"].strip():
            raise DataError(f"{where}: message {i + 1} is empty; fill it in, or leave the line out")
    asked, said = (
        next((one["content"] for one in messages if one["role"] == role), "") for role in ("user", "assistant")
    )
    return Example(text=asked, target=said, messages=messages)


def checked_messages(found: Any, where: str) -> tuple[Message, ...]:
    """Messages, each with a known role and a text."""
    if not isinstance(found, list | tuple) or not found:
        raise DataError(f"{where}: {shown(found)} came as the messages, expected a list: [{ONE}, …]")
    for i, message in enumerate(found):
        place = f"{where}: message {i + 1}"
        if not isinstance(message, Mapping):
            raise DataError(f"{place} is {shown(message)}, expected {ONE}")
        for key in "role", "content":
            if not isinstance(message.get(key), str):
                came = f"{key} is {shown(message[key])}" if key in message else f"has no {key}"
                raise DataError(f"{place}: {came}, expected a text: {ONE}")
        if (role := message["role"]) not in ROLES:
            close = difflib.get_close_matches(role, ROLES, 1)
            near = f"; did you mean {close[0]}?" if close else ""
            raise DataError(f"{place}: no role is called {shown(role)}{near}; known: {', '.join(ROLES)}")
    return tuple(map(dict, found))


def shown(value: Any) -> str:
    return f"{value!r}"[:60]


def holds_conversations(path: Path) -> bool:
    """Whether JSON lines look like conversations, rather than pairs of texts: by the first line."""
    try:
        with open_plain(path) as file:
            begin = file.read(SNIFFED).decode("utf-8-sig", "ignore")
    except (FileError, OSError):
        return False
    return re.match(r'[^\n]*"messages"\s*:|\{\s*"text"\s*:\s*"([^"\\]|\\.)*"\s*\}', begin.lstrip()) is not None


def template_text(word: str, chat: ChatTemplate | None = None) -> str:
    """The template that is called so: chatml, one of the run's own, a file; or the word is the template."""
    if chat is not None and word in chat.templates:
        return chat.templates[word]
    if word in ("", "chatml"):
        return CHATML if word else ""
    if "{{" in word or "{%" in word:
        return word
    path = expanded(word)
    if not path.is_file():
        own = "".join(f", {name}" for name in chat.templates) if chat else ""
        raise UnknownNameError(f"no chat template is called {shown(word)}; expected a file, or one of: chatml{own}")
    return read_plain(path, MOST_TEMPLATE, DataError)


def with_template(tokeniser: Tokeniser, word: str, where: str) -> Tokeniser:
    """The tokeniser with this chat template; nothing: with its own, which it must have."""
    if not word:
        if tokeniser.chat is None:
            raise DataError(
                f"{where}: there is no chat template, so nothing says how a conversation becomes text; give one: "
                "--template FILE, or --template chatml (train: --set task.template=…)"
            )
        return tokeniser
    template = template_text(word, tokeniser.chat)
    chat = tokeniser.chat or first_template(tokeniser, where)
    library = text_package("tokenizers", where)
    inner = library.Tokenizer.from_str(tokeniser.to_json())
    inner.add_special_tokens([library.AddedToken(one, normalized=False) for one in chat.special_tokens.values()])
    return Tokeniser(inner, replace(chat, templates={**chat.templates, "default": template}))


def first_template(tokeniser: Tokeniser, where: str) -> ChatTemplate:
    """For a tokeniser that has none: ChatML's symbols, or else those that begin and end a text."""
    start, end = map(tokeniser.inner.token_to_id, ("<|im_start|>", "<|im_end|>"))
    if start is None or end is None:
        start, end = map(tokeniser.id_of, ("start", "end"))
    if start is None or end is None:
        raise DataError(
            f"{where}: the tokeniser has no symbols to begin and end a turn with, such as <|im_start|> and <|im_end|>"
        )
    roles = {"unk_token": "unknown", "pad_token": "pad", "mask_token": "mask"}
    found = {"bos_token": start, "eos_token": end, **{name: tokeniser.id_of(role) for name, role in roles.items()}}
    special = {name: tokeniser.inner.id_to_token(number) for name, number in found.items() if number is not None}
    return ChatTemplate({}, special, (end,))


def encode_conversations(tokeniser: Tokeniser, conversations: Sequence[Sequence[Message]]) -> list[list[int]]:
    """Up to where the assistant's next answer begins."""
    assert tokeniser.chat is not None
    return [tokeniser.encode(text) for text in tokeniser.chat.render_prompts(conversations)]
