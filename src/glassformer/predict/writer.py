"""Writing text with a run: prompts in, texts out, each by settings of its own."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, DataError
from glassformer.generate.decoder import answers, writes
from glassformer.generate.engines import Engine, decoder_for
from glassformer.generate.prompts import Prompt, to_answer, to_continue, usual_length
from glassformer.generate.sampling import Sampling
from glassformer.generate.text import OnText, Row, Why, Writing, write
from glassformer.native.build import Notice
from glassformer.native.decoder import NativeDecoder
from glassformer.native.packed_weights import Kind
from glassformer.train.tasks import Answering, Prompted

if TYPE_CHECKING:
    from glassformer.predict.run import Run

INSTEAD = {  # what predict does with runs that do not write
    "classify": "which class something belongs to",
    "masked": "what stands in place of <mask>",
    "tag": "which parts a text has",
    "span": "where in a text the part is that it looks for",
}
DRAWING = ("temperature", "top_k", "top_p", "min_p")  # settings that greedy makes void


class Written(NamedTuple):
    prompt: str
    text: str  # without the prompt
    tokens: list[int]  # its ids, less the end token
    stopped: Why  # by the end token, before a stop string, at its length
    seed: int  # gives the same text again, alone or beside others


class Writer:
    """A run that writes, with its weights where the engine wants them."""

    def __init__(self, run: "Run", engine: Engine = "auto", notice: Notice = print, weights: Kind = "float32") -> None:
        self.tokeniser = tokeniser_of(run)
        task, self.answers = run.recipe.task, answers_prompts(run)
        self.behind = task.prompt(self.tokeniser, []) if isinstance(task, Answering) else []
        start = self.tokeniser.id_of("pad") or 0
        self.weights = weights
        self.decoder: Any = decoder_for(
            run.model, run.params, engine, start_token=start, weights=weights, folder=run.path, notice=notice
        )

    @property
    def engine(self) -> str:
        return "native" if isinstance(self.decoder, NativeDecoder) else "jax"

    @property
    def usual_length(self) -> int:
        return usual_length(self.decoder)

    def read(self, prompts: Sequence[str], length: int) -> list[Prompt]:
        """Prompts as the model reads them, if there is room for so many tokens of an answer."""
        if answers(self.decoder.model):
            return to_answer(self.decoder, self.tokeniser, prompts, length)
        if self.behind and not all(prompts):
            raise DataError("the prompt: it is empty, and there is nothing to answer; write some text")
        return to_continue(self.decoder, self.tokeniser, prompts, length, self.behind)

    def write(
        self,
        prompts: Sequence[Prompt],
        how: Sequence[Writing],
        on_text: OnText | None = None,
        on_row: Callable[[int, Row], None] = lambda i, row: None,
    ) -> list[Row]:
        return write(self.decoder, self.tokeniser, prompts, how, on_text, on_row)


def generate(writer: Writer, prompts: Sequence[str], how: Writing, on_text: OnText | None = None) -> list[Written]:
    """What follows each prompt, or answers it; of each, the seed is one higher than of the prompt before it."""
    each = [Writing(how.length, how.sampling, how.seed + i, how.stop) for i in range(len(prompts))]
    rows = writer.write(writer.read(prompts, how.length), each, on_text)
    return [written(*both) for both in zip(prompts, rows, strict=True)]


def written(prompt: str, row: Row) -> Written:
    assert row.why is not None
    return Written(prompt, row.text, row.written, row.why, row.how.seed)


def answers_prompts(run: "Run") -> bool:
    return answers(run.model) or isinstance(run.recipe.task, Prompted)


def sampling_for(run: "Run", **settings: Any) -> Sampling:
    """Answers are greedy unless something says how to draw."""
    return Sampling(**{"greedy": answers_prompts(run) and not settings.keys() & DRAWING, **settings})


def tokeniser_of(run: "Run") -> Tokeniser:
    """Of a run that writes text; any other is told what it can do instead."""
    if not writes(run.model):
        task = run.recipe.task.name
        raise DataError(
            f"{run.path}: {type(run.model).__name__} (task {task}) does not write text; "
            f"`glassformer predict INPUT --run {run.path}` says {INSTEAD.get(task, 'what it makes of something')}"
        )
    if run.tokeniser is None:
        raise CheckpointError(f"{run.path}: it has no tokenizer.json, so text cannot be read or written; put it there")
    return run.tokeniser
