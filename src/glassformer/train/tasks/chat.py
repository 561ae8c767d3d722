"""Supervised fine-tuning on conversations: a language model learns what the assistant says.

A conversation becomes text by the chat template of the tokeniser. Only the tokens of the assistant's turns count in the
loss, each with the token that ends it; a token that reaches over the edge of a turn belongs to it. Right when all of
them are. A conversation that is longer than the context is left out. A text among them that is no conversation counts
as a whole, in windows of the context: what the model is not to forget.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from glassformer.data.conversations import encode_conversations, template_text, with_template
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError
from glassformer.reading import expanded
from glassformer.train.tasks.answer import Prompted, Rows
from glassformer.train.tasks.sequences import filled, must_have
from glassformer.train.tasks.task import Encoded, Task


class Sample(NamedTuple):
    ids: list[int]
    counts: np.ndarray  # bool: which of them are the assistant's


@dataclass(frozen=True)
class Chat(Prompted):
    template: str = ""  # chatml, or one in Jinja's language, or its file; nothing: that of the run it starts from

    def starting_from(self, before: Task | None) -> Self:
        """With the template itself in place of its file, which may change."""
        is_file = bool(self.template) and expanded(self.template).is_file()
        return replace(self, template=template_text(self.template)) if is_file else self

    def equipped(self, tokeniser: Tokeniser) -> Tokeniser:
        return with_template(tokeniser, self.template, "chat")

    def strings(self, example: Example) -> tuple[str, ...]:
        said = [word for message in example.messages for word in (message["role"], message["content"])]
        return template_text(self.template), *said, example.text

    def prompts(self, tokeniser: Tokeniser, rows: Sequence[list[int]]) -> list[list[int]]:
        messages = [[{"role": "user", "content": tokeniser.decode(ids)}] for ids in rows]
        return encode_conversations(tokeniser, messages)

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        notes: list[str] = []

        def part(examples: tuple[Example, ...]) -> Rows:
            talks = [example for example in examples if example.messages]
            must_have(texts.name, "messages: they are no conversations", bool(talks) or not examples)
            samples = [*conversations(talks, tokeniser)]
            kept = [sample for sample in samples if len(sample.ids) - 1 <= context]
            notes.extend(about_long(texts.name, samples, context) if len(kept) < len(samples) else [])
            plain = [tokeniser.encode(example.text) for example in examples if not example.messages]
            # first, since validation takes the last samples
            return as_rows([*(one for ids in plain for one in windows(ids, context)), *kept], tokeniser)

        return Encoded(part(texts.train), part(texts.test), (), tuple(notes))


def conversations(examples: Sequence[Example], tokeniser: Tokeniser) -> Iterator[Sample]:
    assert tokeniser.chat is not None
    ends = [tokeniser.inner.id_to_token(number) for number in sorted(tokeniser.ends)]
    for rendered in tokeniser.chat.render_whole(
        [example.messages for example in examples], [one for one in ends if one]
    ):
        ids, places = tokeniser.offsets(rendered.text)
        counts = np.zeros(len(ids), bool)
        for start, end in rendered.spans:
            counts |= [first < end and last > start for first, last in places]
        yield Sample(ids, counts)


def windows(ids: list[int], context: int) -> Iterator[Sample]:
    """Of a plain text; a rest that fills no window is left out."""
    for start in range(0, len(ids) - context, context):
        yield Sample(ids[start : start + context + 1], np.ones(context + 1, bool))


def as_rows(samples: Sequence[Sample], tokeniser: Tokeniser) -> Rows:
    ids, keep = filled([sample.ids[:-1] for sample in samples], tokeniser.id_of("pad") or 0)
    labels, _ = filled([sample.ids[1:] for sample in samples], 0)
    counts = np.zeros(ids.shape, bool)
    counts[keep] = np.concatenate([np.zeros(0, bool), *(sample.counts[1:] for sample in samples)])
    return Rows(ids, labels, counts)


def about_long(name: str, samples: Sequence[Sample], context: int) -> Iterator[str]:
    lengths = [len(sample.ids) - 1 for sample in samples]
    long, most = sum(length > context for length in lengths), max(lengths)
    what = f"{name}: {long:,} of {len(lengths):,} conversations are longer than the context of {context:,} tokens"
    advice = f"the longest has {most:,}; a model with --set model.text.context={most} takes all"
    if long == len(lengths):
        raise DataError(f"{what}, and none is left; {advice}")
    yield f"{what}, and are left out; {advice}"
