"""Conversations with a run: its chat template makes text of the messages, and it writes the assistant's answer.

An answer ends at a token that ends a turn, at its length, or when the context is full: what a chat model has not
learned to go on from, the last half of a conversation, is never given to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassformer.data.chat_template import Message
from glassformer.data.conversations import checked_messages, with_template
from glassformer.errors import DataError
from glassformer.generate.decoder import answers
from glassformer.generate.engines import Engine
from glassformer.generate.prompts import Prompt, check_vocabulary, fits, symbols
from glassformer.generate.text import Writing
from glassformer.native.build import Notice
from glassformer.native.packed_weights import Kind
from glassformer.predict.writer import Writer, Written, written

if TYPE_CHECKING:
    from glassformer.predict.run import Run

ROOM = 4  # the answer's share of the context, when old turns are dropped: a quarter


class ChatWriter(Writer):
    """A run that answers conversations; a prompt is a conversation of one message."""

    def __init__(
        self,
        run: "Run",
        template: str = "",
        system: str = "",
        engine: Engine = "auto",
        notice: Notice = print,
        weights: Kind = "float32",
    ) -> None:
        if answers(run.model):
            raise DataError(
                f"{run.path}: {type(run.model).__name__} reads a prompt and writes an answer, it has no conversations; "
                "leave out --chat"
            )
        super().__init__(run, engine, notice, weights)
        self.tokeniser = with_template(self.tokeniser, template, str(run.path))
        self.behind, self.answers = [], True
        self.system: list[Message] = [{"role": "system", "content": system}] if system else []

    def read(self, prompts: Sequence[str], length: int) -> list[Prompt]:
        return [self.read_messages(self.asked(text)) for text in prompts]

    def asked(self, text: str) -> list[Message]:
        return [*self.system, {"role": "user", "content": text}]

    def read_messages(self, messages: Sequence[Message], where: str = "the conversation") -> Prompt:
        """Up to where the answer begins."""
        checked_messages(messages, where)
        last = messages[-1]
        if last["role"] == "assistant":
            raise DataError(
                f"{where}: it ends with the assistant's answer, so there is nothing to answer; add a message"
            )
        if not last["content"].strip():
            raise DataError(f"{where}: the last message is empty, and there is nothing to answer; write some text")
        assert self.tokeniser.chat is not None
        check_vocabulary(self.decoder, self.tokeniser)
        ids = symbols(self.tokeniser, where, self.tokeniser.chat.render(messages))
        fits(where, len(ids) + 1, self.decoder.context)  # with one token of an answer
        return Prompt(read=ids, before=ids)

    def reply(self, messages: Sequence[Message], how: Writing, on_text: Callable[[str], None] | None = None) -> Written:
        """The assistant's answer."""
        prompt = self.read_messages(messages)
        how = replace(how, length=min(how.length, self.decoder.context - len(prompt.read)))
        (row,) = self.write([prompt], [how], (lambda _, piece: on_text(piece)) if on_text else None)
        return written(messages[-1]["content"], row)

    def fitting(self, messages: Sequence[Message], length: int) -> list[Message]:
        """Without the oldest turns, so that an answer has room; the system's message stays, and so does the last."""
        kept = list(messages)
        first = sum(message["role"] == "system" for message in kept[:1])
        room = min(length, self.decoder.context // ROOM)
        assert self.tokeniser.chat is not None
        while len(self.tokeniser.encode(self.tokeniser.chat.render(kept))) > self.decoder.context - room:
            later = [i for i in range(first + 1, len(kept)) if kept[i]["role"] == "user"]
            if not later:
                break
            del kept[first : later[0]]
        return kept


def messages_of(found: Any, where: str) -> list[Message]:
    """Of JSON: a list of messages, or an object that has it as `messages`."""
    return [*checked_messages(found.get("messages") if isinstance(found, dict) else found, where)]
