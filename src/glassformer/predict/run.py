"""A finished (or interrupted) run, ready to use: arrays in, arrays out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data import Dataset
from glassformer.data import load as load_data
from glassformer.data.chat_template import Message
from glassformer.data.dataset import IMAGES, ROWS, TEXTS
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, DataError
from glassformer.generate.engines import Engine
from glassformer.generate.text import OnText, Writing
from glassformer.models.images import Images
from glassformer.models.model import Network
from glassformer.native.build import Notice
from glassformer.native.encoder import NativeEncoder
from glassformer.native.packed_weights import Kind
from glassformer.predict.answers import Answer
from glassformer.predict.chat import ChatWriter
from glassformer.predict.embed import embed
from glassformer.predict.reading import must_answer, tokeniser_of
from glassformer.predict.texts import predict_texts
from glassformer.predict.writer import Writer, Written, generate, sampling_for
from glassformer.probabilities import softmax
from glassformer.reading import read_json
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import load_for
from glassformer.train.run_folder import RunFolder
from glassformer.train.score import Score, score_in_parts, score_of_logits, tally
from glassformer.train.tasks.embed import Pooling
from glassformer.train.tasks.task import label_weights

SHIPPED = "vit-pico"  # trained weights that come with the package
AT_ONCE = 1000  # images evaluated together; a smaller last part is padded, so that one program serves all


@dataclass(frozen=True)
class Evaluation:
    """How a run does on labelled images, rows, texts or tokens."""

    accuracy: float  # 0..1
    loss: float  # mean cross-entropy
    confusion: np.ndarray  # (K, K): rows are labels, columns what was predicted
    classes: tuple[str, ...]

    @property
    def per_class(self) -> list[dict[str, Any]]:
        """Of each class: how many there are, recall and precision (None where nothing was predicted)."""
        rows = []
        for i, name in enumerate(self.classes):
            right, there, said = self.confusion[i, i], self.confusion[i].sum(), self.confusion[:, i].sum()
            rows.append(
                {
                    "class": name,
                    "count": int(there),
                    "recall": float(right / there) if there else None,
                    "precision": float(right / said) if said else None,
                }
            )
        return rows


@dataclass(frozen=True)
class Run:
    """A trained model with its recipe. `load` makes one from a run folder."""

    path: Path
    recipe: Recipe
    params: Any
    classes: tuple[str, ...]
    tokeniser: Tokeniser | None = None  # None: it reads no texts
    engine: Engine = "auto"  # that embeds and answers texts; auto: C for an encoder on a CPU
    notice: Notice = print  # hears what is worth knowing of it

    @property
    def model(self) -> Network:
        return self.recipe.model

    @property
    def images(self) -> Images:
        """The images it reads; a run that reads something else says so."""
        images: Any = self.model.input
        if images.reads != IMAGES:
            task = self.recipe.task.name
            raise DataError(f"{self.path}: {type(self.model).__name__} reads {images.reads} (task {task}), not images")
        return images

    @property
    def gives_numbers(self) -> bool:
        """A regression; `classes` are then the names of the numbers."""
        return self.recipe.output_axis == "numbers"

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The result as training wrote it; empty while training has not finished."""
        file = self.path / "metrics.json"
        found = read_json(file, CheckpointError) if file.exists() else {}
        if not isinstance(found, dict):
            raise CheckpointError(f"{file}: damaged: {found!r:.60} came, expected results by name")
        return found

    @cached_property
    def encoder(self) -> NativeEncoder:
        """In C; refuses, by name, what has no C twin."""
        return NativeEncoder(cast(Any, self.model), self.params, notice=self.notice)

    @cached_property
    def compiled_logits(self) -> Any:
        return jax.jit(lambda params, images: self.model.forward(params, images)[0])

    def logits(self, x: np.ndarray) -> np.ndarray:
        """The model's output, (N, K), of images (N, rows, columns[, channels]) or of rows of numbers (N, columns)."""
        return self.in_parts(self.compiled_logits, x)

    def in_parts(
        self, compute: Callable[..., Any], x: np.ndarray, listener: Callable[[int], None] = lambda count: None
    ) -> np.ndarray:
        """compute(params, x) of images or rows, so many at once."""
        x = self.as_batch(x)
        parts = []
        for start in range(0, len(x), AT_ONCE):
            part = x[start : start + AT_ONCE]
            full = np.resize(part, (AT_ONCE, *part.shape[1:])) if len(x) > AT_ONCE else part
            parts.append(np.asarray(compute(self.params, full))[: len(part)])
            listener(len(part))
        return np.concatenate(parts)

    def embed(
        self,
        inputs: Sequence[str] | np.ndarray,
        *,
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        cut: bool = False,
        listener: Callable[[int], None] = lambda count: None,
    ) -> np.ndarray:
        """A vector for each text, image or row of numbers, (N, C): what the model knows before its head.

        pooling      of a vector for each token: "mean" (without padding) or "first"; None: as the run says, else mean
        normalise    to a Euclidean length of 1; None: as the run says, else no
        cut          a text that is too long is cut, not refused
        listener     is told with every batch how many were embedded

        >>> load().embed(load_data("mnist-mini").test.images[:2], normalise=True).shape
        (2, 16)
        """
        return embed(self, inputs, pooling, normalise, cut=cut, listener=listener)

    def arrays(self, samples: Any, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The first samples of a data set's part, as the model reads them, and their labels."""
        task = self.recipe.task
        chosen: Any = np.arange(task.count(samples))[:most]
        batch = task.batch(samples, chosen)
        return self.as_batch(batch.x), np.asarray(batch.labels)

    def as_batch(self, x: np.ndarray) -> np.ndarray:
        """Checked, with the channel axis that grey images may leave out."""
        x = np.asarray(x)
        if self.model.input.reads not in (IMAGES, TEXTS):
            x = x.astype(np.float32) if self.model.input.reads == ROWS and np.issubdtype(x.dtype, np.number) else x
            self.model.input.check("predict", x)
            return x
        shape = self.images.shape
        if x.shape[1:] == shape[:2] and shape[2] == 1:
            x = x[..., None]
        if x.shape[1:] != shape or len(x) == 0:
            raise DataError(f"predict: images of shape {x.shape} came, expected (N, {', '.join(map(str, shape))})")
        if self.images.dtype and np.issubdtype(x.dtype, np.floating):
            return x.astype(np.float32)
        if x.dtype != self.model.example(1).dtype:
            expected = "floats, as in training" if self.images.dtype else "uint8, 0 to 255"
            raise DataError(f"predict: images of type {x.dtype} came, expected {expected}")
        return x

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """(N, K), each row adding up to 1."""
        return softmax(self.logits(x))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most likely class of each sample, (N,); of a regression its numbers, (N, K)."""
        y = self.logits(x)
        return y if self.gives_numbers else y.argmax(axis=-1)

    def answer(self, texts: Sequence[str]) -> list[Answer]:
        """What its task makes of each text, or of each row of numbers: "5.1,3.5,1.4,0.2"."""
        return predict_texts(self, texts)

    def generate(
        self,
        prompts: Sequence[str],
        *,
        length: int | None = None,
        seed: int = 0,
        stop: Sequence[str] = (),
        engine: Engine = "auto",
        weights: Kind = "float32",
        on_text: OnText | None = None,
        **sampling: Any,
    ) -> list[Written]:
        """What it writes behind each prompt, or, if it answers prompts, its answers: text, tokens, why it stopped.

        length      tokens at most; None: 200, or what an answer has room for
        seed        of the first prompt, of the second one more, …: each gives the same text alone
        stop        texts to end before
        weights     float32, bf16 or int8: what the native engine reads them as
        on_text     is told each piece of text as it comes: (number of the prompt, piece)
        sampling    temperature, top_k, top_p, min_p, repetition_penalty, logit_bias, greedy (generate/sampling.py)

        The decoder is made anew with each call; to ask often, keep a `glassformer.predict.writer.Writer`.
        """
        drawn, writer = sampling_for(self, **sampling), Writer(self, engine, self.notice, weights)
        how = Writing(writer.usual_length if length is None else length, drawn, seed, stop)
        return generate(writer, prompts, how, on_text)

    def chat(
        self,
        messages: Sequence[Message],
        *,
        template: str = "",
        length: int | None = None,
        seed: int = 0,
        stop: Sequence[str] = (),
        engine: Engine = "auto",
        on_text: Callable[[str], None] | None = None,
        **sampling: Any,
    ) -> Written:
        """The assistant's answer to a conversation: [{"role": "user", "content": "Hello!"}].

        template    chatml, a file, or a template itself; nothing: the run's own
        on_text     is told each piece of the answer as it comes
        The rest is as for `generate`. To go on talking, keep a `glassformer.predict.chat.ChatWriter`.
        """
        drawn, writer = sampling_for(self, **sampling), ChatWriter(self, template, engine=engine, notice=self.notice)
        how = Writing(writer.usual_length if length is None else length, drawn, seed, stop)
        return writer.reply(messages, how, on_text)

    def load_data(self, name: str = "") -> Dataset:
        """A data set as the run's task reads it; without a name, the data the run was trained on."""
        if not self.recipe.task.together:
            must_answer(self)
        tokeniser = tokeniser_of(self) if self.model.input.reads == TEXTS else None
        return load_for(self.recipe, name or self.recipe.data, tokeniser)

    def score(self, data: str | Dataset = "") -> Score:
        """Accuracy and loss on the test part of a data set; without a name, of the data the run was trained on."""
        found = self.load_data(data) if isinstance(data, str) else data
        return score_in_parts(jax.jit(partial(tally, self.recipe)), self.recipe.task, self.params, found.test)

    def evaluate(self, images: np.ndarray | None = None, labels: np.ndarray | None = None) -> Evaluation:
        """Score on labelled images; without any, on the test set of the data the run was trained on."""
        if images is None and labels is None:
            if self.model.input.reads != IMAGES:
                return self.evaluate_samples(self.load_data().test)
            images, labels = load_data(self.recipe.data).test
        if images is None or labels is None:
            raise DataError("evaluate: images and labels belong together, and only one of them came")
        images, labels = self.as_batch(images), np.asarray(labels)
        if labels.shape != (len(images),) or not np.issubdtype(labels.dtype, np.integer):
            raise DataError(
                f"evaluate: labels are {labels.dtype} of shape {labels.shape}, expected a whole number for each of "
                f"{len(images)} images"
            )
        return self.evaluation(self.logits(images), labels)

    def evaluate_samples(self, samples: Any) -> Evaluation:
        """Score on samples as a task makes them whose labels are classes: of rows, of texts, or of tokens."""
        recipe, task = self.recipe, self.recipe.task
        if self.recipe.output_axis != "classes":
            raise DataError(f"evaluate: the task {task.name} has no classes; run.score() gives its loss")

        @jax.jit
        def part(params: Any, samples: Any, chosen: Any) -> Any:
            batch = task.batch(samples, chosen)
            logits, _ = recipe.model.forward(params, batch.x, **batch.keywords)
            return logits, batch.labels, label_weights(batch, jnp.ones(len(chosen)))

        resident, count, parts = jax.tree.map(jnp.asarray, samples), task.count(samples), []
        for start in range(0, count, task.at_once):
            chosen = np.arange(start, start + task.at_once)
            logits, labels, counts = (np.asarray(one) for one in part(self.params, resident, chosen % count))
            counts = (counts > 0) & (chosen < count).reshape(-1, *(1,) * (counts.ndim - 1))
            parts.append((logits[counts], labels[counts]))
        logits, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self.evaluation(logits, labels)

    def evaluation(self, logits: np.ndarray, labels: np.ndarray) -> Evaluation:
        if labels.min() < 0 or labels.max() >= len(self.classes):
            known = len(self.classes) - 1
            raise DataError(f"evaluate: labels {labels.min()} to {labels.max()} came, the model knows 0 to {known}")
        score = score_of_logits(logits, labels)
        confusion = np.zeros((len(self.classes),) * 2, int)
        np.add.at(confusion, (labels, logits.argmax(axis=-1)), 1)
        return Evaluation(accuracy=score.accuracy, loss=score.loss, confusion=confusion, classes=self.classes)


def load(path: str | Path = "", *, engine: Engine = "auto", notice: Notice = print) -> Run:
    """The run in a folder; without one, the small vision transformer that comes with the package.

    `engine` reads texts for `embed` and `answer`: native (C, for encoders on a CPU), jax, or auto.

    >>> run = load()
    >>> int(run.predict(load_data("mnist-mini").test.images[:1])[0])
    7
    """
    folder = RunFolder(Path(path) if path else Path(str(files("glassformer") / "shipped" / SHIPPED)))
    recipe = folder.recipe()
    params, classes = folder.load_model(recipe)
    tokeniser = folder.tokeniser()
    return Run(folder.path, recipe, params, classes, tokeniser, engine=engine, notice=notice)
