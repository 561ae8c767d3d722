"""Every task: the samples it makes of texts, the batches it draws from them, and how losses and scores count labels."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.data.dataset import hold_out
from glassformer.data.texts import Example, Part, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, GlassformerError, SettingError
from glassformer.models.model import Network
from glassformer.models.t5 import Inputs
from glassformer.models.text import Text
from glassformer.shapes import Static
from glassformer.train import score as scoring
from glassformer.train.jax_engine import JaxEngine, keys_of_step, loss_of_step
from glassformer.train.resolve import encoded, resolved
from glassformer.train.score import score_in_parts, tally
from glassformer.train.tasks import Answering, Batch, Classify, Masked, NextToken, Span, Tag, Task, Translate
from glassformer.train.tasks.masked import Rows
from glassformer.train.tasks.next_token import Stream

from .small_texts import KINDS, OF_TEXTS, ready, small_text_recipe, small_texts

PAD, START, END, MASK = 0, 2, 3, 4  # and a to f are 5 to 10
ALL: list[Task] = [Classify(), NextToken(), Masked(), Tag(), Span(), Translate(), Answering("")]


@pytest.fixture(scope="module")
def letters() -> Tokeniser:
    return Characters().train(["abcdef"])


def example(text: str, label: int = 0, target: str = "f", parts: tuple[Part, ...] = ()) -> Example:
    return Example(text, label, target, parts or (Part("p", 0, 1),))


def texts_of(*train: Example, test: tuple[Example, ...] = (), **settings: Any) -> Texts:
    known = {"classes": ("no", "yes"), "parts": ("p", "q"), **settings}
    return Texts("made", train, test or (example("ab"),), **known)


def whole(task: Task, samples: Any) -> Batch:
    """All samples as one batch, in NumPy."""
    return jax.tree.map(np.asarray, jax.jit(task.batch)(samples, np.arange(task.count(samples))))


def rows(*of: list[int]) -> np.ndarray:
    return np.array(of, np.int32)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one, other)
    assert np.asarray(one).dtype == np.asarray(other).dtype


def test_classify(letters: Tokeniser) -> None:
    texts = texts_of(example("abc", 1), example("f", 0), test=(example("", 1),))
    train, test, classes, _ = Classify().encode(texts, letters, context=5)
    assert classes == ("no", "yes")
    batch = whole(Classify(), train)
    same(batch.x, rows([START, 5, 6, 7, END], [START, 10, END, PAD, PAD]))
    same(batch.labels, np.array([1, 0], np.int32))
    same(batch.keywords["keep"], np.array([[True] * 5, [True] * 3 + [False] * 2]))
    assert batch.weights is None
    same(whole(Classify(), test).x, rows([START, END]))
    turned = jax.jit(Classify().batch)(train, np.array([1, 0, 1]))
    same(turned.labels, np.array([0, 1, 0], np.int32))


def test_next_token_is_one_stream(letters: Tokeniser) -> None:
    texts = texts_of(example("abc"), example("d"), example("ef"), test=(example("fedcba"),))
    train, test, classes, _ = NextToken().encode(texts, letters, context=3)
    same(train.ids, np.array([5, 6, 7, END, 8, END, 9, 10], np.int32))
    same(test.ids, np.array([10, 9, 8, 7, 6, 5], np.int32))
    assert classes == ()
    assert NextToken().count(train) == 2
    batch = whole(NextToken(), train)
    same(batch.x, rows([5, 6, 7], [END, 8, END]))
    same(batch.labels, rows([6, 7, END], [8, END, 9]))
    assert (batch.weights, batch.keywords) == (None, {})


@pytest.mark.parametrize(("tokens", "windows"), [(4, 1), (6, 1), (7, 2), (100, 33)])
def test_scoring_asks_for_every_token_once(tokens: int, windows: int) -> None:
    """Of three-token windows: all but the first token, and what is left over at the end."""
    samples = Stream(np.arange(tokens, dtype=np.int32), Static(3))
    assert NextToken().count(samples) == windows
    batch = whole(NextToken(), samples)
    np.testing.assert_array_equal(batch.x.ravel(), np.arange(3 * windows))
    np.testing.assert_array_equal(batch.labels.ravel(), 1 + np.arange(3 * windows))


@pytest.mark.parametrize("tokens", [9, 13, 16])
def test_training_windows_begin_anywhere_and_stay_inside(tokens: int) -> None:
    samples = Stream(np.arange(tokens), Static(4))  # each token is its place
    chosen = np.arange(NextToken().count(samples))
    draw = jax.jit(jax.vmap(NextToken().drawn, in_axes=(None, None, 0)))
    drawn = draw(samples, chosen, jax.random.split(jax.random.key(0), 200))
    x, labels = np.asarray(drawn.x), np.asarray(drawn.labels)
    start = x[..., 0]
    np.testing.assert_array_equal(x, start[..., None] + np.arange(4))
    np.testing.assert_array_equal(labels, x + 1)
    for i in range(len(chosen)):
        places = {min(4 * i + moved, tokens - 5) for moved in range(4)}  # the last label is the last token
        assert set(start[:, i]) == places


def test_holding_out_cuts_the_stream_once(letters: Tokeniser) -> None:
    train = NextToken().encode(texts_of(example("abcdef" * 5)), letters, context=2).train
    kept, held_out = hold_out(train, 0.2)
    same(np.concatenate([kept.ids, held_out.ids]), train.ids)
    assert len(held_out.ids) == 6
    assert held_out.context == train.context


def test_masked_cuts_long_texts_into_pieces(letters: Tokeniser) -> None:
    train = Masked().encode(texts_of(example("abcde"), example(""), example("f")), letters, context=4).train
    same(train.ids, rows([START, 5, 6, END], [START, 7, 8, END], [START, 9, END, PAD], [START, 10, END, PAD]))
    same(train.keep, train.ids != PAD)
    assert (train.mask, train.vocabulary) == (Static(MASK), Static(letters.size))


def some_rows(count: int = 24, length: int = 12, vocabulary: int = 5000) -> Rows:
    """Rows of 1 to 10 tokens, all different, in their frames."""
    real = 1 + np.arange(count)[:, None] % (length - 2)
    place = np.arange(length)
    ids = 100 + np.arange(count * length, dtype=np.int32).reshape(count, length)
    ids = np.select([place == 0, place <= real, place == real + 1], [START, ids, END], PAD).astype(np.int32)
    return Rows(ids, place < real + 2, Static(MASK), Static(vocabulary))


def test_what_is_covered_up() -> None:
    samples, share = some_rows(), 0.2
    draw = jax.jit(jax.vmap(Masked(share).drawn, in_axes=(None, None, 0)))
    batch = jax.tree.map(np.asarray, draw(samples, np.arange(24), jax.random.split(jax.random.key(3), 400)))
    asked, x = batch.weights == 1, batch.x
    assert batch.weights.dtype == np.float32
    assert set(np.unique(batch.weights)) == {0, 1}
    assert (batch.labels == samples.ids).all()
    assert (batch.keywords["keep"] == samples.keep).all()
    assert (x == samples.ids)[~asked].all()

    real = samples.ids >= 100
    assert not asked[:, ~real].any(), "a frame or a filling was covered up"
    assert asked.any(axis=-1).all(), "a row without a question"
    length = real.sum(axis=1)
    expected = share + (1 - share) ** length / length  # the smallest draw is asked for even where it is no small one
    np.testing.assert_allclose(asked.sum(axis=(0, 2)) / (400 * length), expected, atol=0.07)
    per_place = np.array([asked[:, length == 10, 1 + place].mean() for place in range(10)])
    np.testing.assert_allclose(per_place, expected[length == 10][0], atol=0.06)

    ids = np.broadcast_to(samples.ids, x.shape)[asked]
    kinds = np.array([np.mean(x[asked] == MASK), np.mean(x[asked] == ids)])
    np.testing.assert_allclose(kinds, [0.8, 0.1], atol=4 * np.sqrt(0.16 / asked.sum()))
    others = x[asked][(x[asked] != MASK) & (x[asked] != ids)]
    assert others.min() >= 0
    assert others.max() < 5000
    np.testing.assert_allclose(np.quantile(others, [0.25, 0.5, 0.75]), [1250, 2500, 3750], atol=250)


def test_a_row_is_covered_up_whatever_stands_beside_it() -> None:
    draw = partial(jax.jit(Masked(0.5).drawn), some_rows())
    one, two, three = (draw(np.array(chosen), jax.random.key(1)) for chosen in ([9], [3, 9], [9, 19]))
    same(one.x[0], two.x[1])
    same(one.weights[0], two.weights[1])
    same(one.x[0], three.x[0])
    assert (three.weights[0] != three.weights[1]).any(), "all rows are covered up alike"
    assert (one.weights != draw(np.array([9]), jax.random.key(2)).weights).any(), "every step covers up the same"


def test_scoring_covers_up_the_same_each_time() -> None:
    samples = some_rows()
    one, other = whole(Masked(), samples), whole(Masked(), samples)
    same(one.x, other.x)
    same(one.weights, other.weights)
    later = jax.jit(Masked().batch)(samples, np.array([20, 4]))
    same(later.x, one.x[[20, 4]])


def test_tag(letters: Tokeniser) -> None:
    first = example("abcde", parts=(Part("q", 0, 2), Part("p", 3, 5)))
    train, test, classes, _ = Tag().encode(texts_of(first, example(""), example("f")), letters, context=7)
    assert classes == ("other", "p", "q")
    batch = whole(Tag(), train)
    same(batch.x, rows([START, 5, 6, 7, 8, 9, END], [START, 10, END, *[PAD] * 4]))
    same(batch.labels, rows([0, 2, 2, 0, 1, 1, 0], [0, 1, *[0] * 5]))
    same(batch.weights, np.array([[0, 1, 1, 1, 1, 1, 0], [0, 1, *[0] * 5]], np.float32))
    same(batch.keywords["keep"], batch.x != PAD)
    assert len(test.ids) == 1


@pytest.mark.parametrize("size", [258 + 5, 258 + 20, 300])
def test_tags_of_byte_pairs_agree_with_the_characters(size: int) -> None:
    """Each token against the tags of its own characters, whatever it is made of: `wo`, ` two`."""
    texts = small_texts()
    tokeniser = BytePairs(size).train([example.text for example in texts.train], texts.marks)
    train = Tag().encode(texts, tokeniser, context=40).train
    for i, said in enumerate(texts.train):
        characters = np.zeros(len(said.text), int)
        for part in said.parts:
            characters[part.start : part.end] = 1 + texts.parts.index(part.name)
        ids, places = tokeniser.offsets(said.text)
        of_tokens = [characters[start:end] for start, end in places]
        expected = [next((tag for tag in tags if tag), 0) for tags in of_tokens]
        assert train.labels[i, : len(ids) + 2].tolist() == [0, *expected, 0]
        assert train.counts[i].sum() == len(ids)


def test_a_token_across_a_border_belongs_to_the_first_part() -> None:
    tokeniser = BytePairs(300).train(["abcd abcd"] * 9)
    said = example("abcd abcd", parts=(Part("p", 1, 2), Part("q", 2, 7)))
    assert tokeniser.offsets(said.text)[1] == [(0, 4), (4, 9)]
    samples = Tag().encode(texts_of(said), tokeniser, context=8).train
    assert samples.labels.tolist() == [[0, 1, 2, 0]]
    ends = [Span(part).encode(texts_of(said, test=(said,)), tokeniser, context=8).train.labels for part in "pq"]
    assert [pair.tolist() for pair in ends] == [[[1, 1]], [[1, 2]]]


def test_span(letters: Tokeniser) -> None:
    """Texts without the part are left out; the last part that the data names is meant where none is said."""
    given = (
        example("abcde", parts=(Part("p", 0, 1), Part("q", 2, 5))),
        example("abc", parts=(Part("p", 0, 1),)),
        example("ef", parts=(Part("q", 1, 2), Part("q", 0, 1))),
    )
    train, _, classes, _ = Span().encode(texts_of(*given, test=given[:1]), letters, context=7)
    assert classes == ("q",)
    batch = whole(Span(), train)
    same(batch.x, rows([START, 5, 6, 7, 8, 9, END], [START, 9, 10, END, *[PAD] * 3]))
    same(batch.labels, rows([3, 5], [2, 2]))
    same(batch.keywords["keep"], batch.x != PAD)
    assert batch.weights is None
    assert Span("p").encode(texts_of(*given), letters, context=7).train.labels.tolist() == [[1, 1], [1, 1]]


def test_translate(letters: Tokeniser) -> None:
    train = Translate().encode(texts_of(example("abc", target="de"), example("f", target="fa")), letters, 4).train
    batch = whole(Translate(), train)
    same(batch.x.source, rows([5, 6, 7, END], [10, END, PAD, PAD]))
    same(batch.keywords["keep"], batch.x.source != PAD)
    same(batch.x.target, rows([PAD, 8, 9], [PAD, 10, 5]))
    same(batch.labels, rows([8, 9, END], [10, 5, END]))
    short = Translate().encode(texts_of(example("a", target="bcd"), example("a", target="b")), letters, 4).train
    batch = whole(Translate(), short)
    same(batch.x.target, rows([PAD, 6, 7, 8], [PAD, 6, PAD, PAD]))
    same(batch.labels, rows([6, 7, 8, END], [6, END, PAD, PAD]))
    same(batch.weights, np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32))


@pytest.mark.parametrize("task", [Classify(), Tag(), Span("p"), Translate()], ids=lambda task: type(task).__name__)
def test_texts_that_are_too_long_for_the_context(task: Task, letters: Tokeniser) -> None:
    """The longest is named; the context that the message asks for is enough."""
    texts = texts_of(example("abcd"), example("abcdef"), example("abcde"))
    length = 7 if task == Translate() else 8  # only one symbol is put to a text
    message = (
        f"made: 'abcdef' is {length} symbols long with its frame, the model's context is 4; "
        f"shorten the text, or train with --set model.text.context={length}"
    )
    with pytest.raises(DataError) as error:
        task.encode(texts, letters, context=4)
    assert str(error.value) == message
    task.encode(texts, letters, context=length)
    with pytest.raises(DataError, match="made: 'abcdef' is"):
        task.encode(texts, letters, context=length - 1)


def test_targets_that_are_too_long_for_the_context(letters: Tokeniser) -> None:
    long = "ab" * 40
    with pytest.raises(DataError, match=f"made: '{long[:60]}…' is 81 symbols long with its frame"):
        Translate().encode(texts_of(example("a", target=long)), letters, context=80)
    Translate().encode(texts_of(example("a", target=long)), letters, context=81)


@pytest.mark.parametrize(
    ("task", "texts", "message"),
    [
        (Classify(), texts_of(example("a"), classes=()), "made: its texts have no classes, which this task needs"),
        (Classify(), texts_of(Example("a")), "made: 'a' has no label, expected 0 to 1: the place of its class"),
        (Classify(), texts_of(example("a"), test=(Example("b"),)), "made: 'b' has no label"),
        (Classify(), texts_of(example("a", label=2)), "made: 'a' has the label 2, expected 0 to 1"),
        (Tag(), texts_of(example("a"), parts=()), "made: its texts have no named parts, which this task needs"),
        (Tag(), texts_of(example("a", parts=(Part("r", 0, 1),))), "made: 'a' has a part 'r', expected p, q"),
        (Span(), texts_of(example("a"), parts=()), "made: its texts have no named parts"),
        (Span("q"), texts_of(example("a")), "made: its texts have no part 'q', which this task needs"),
        (Span("po"), texts_of(example("a")), "span: made has no part 'po' (did you mean 'p'?); it has p, q"),
        (
            Span("p"),
            texts_of(example("abc", parts=(Part("p", 3, 5),))),
            "made: no symbol of 'abc' stands for its part 'p', characters 3 to 5 (not included); expected one",
        ),
        (Translate(), texts_of(example("a", target="")), "made: its texts have no targets, which this task needs"),
        (Translate(), texts_of(example("a"), test=(Example("b"),)), "made: its texts have no targets"),
    ],
)
def test_what_is_missing_is_named(task: Task, texts: Texts, message: str, letters: Tokeniser) -> None:
    with pytest.raises((DataError, SettingError)) as error:
        task.encode(texts, letters, context=9)
    assert message in str(error.value)


ROLES = {
    Classify: ("pad", "start", "end"),
    NextToken: ("end",),
    Masked: ("pad", "start", "end", "mask"),
    Tag: ("pad", "start", "end"),
    Span: ("pad", "start", "end"),
    Translate: ("pad", "end"),
    Answering: ("end",),
}


@pytest.mark.parametrize("role", ["pad", "start", "end", "mask"])
@pytest.mark.parametrize("task", ALL, ids=lambda task: type(task).__name__)
def test_a_symbol_that_the_tokeniser_lacks(task: Task, role: str, letters: Tokeniser) -> None:
    lacking = Tokeniser.from_json(letters.to_json().replace(f"<{role}>", f"<no {role}>"), "made")
    texts = texts_of(example("abc", parts=(Part("q", 0, 1),)), test=(example("ab", parts=(Part("q", 0, 1),)),))
    if role in ROLES[type(task)]:
        with pytest.raises(DataError, match=f"the tokeniser has no symbol for '{role}', which this task needs"):
            task.encode(texts, lacking, context=9)
    else:
        task.encode(texts, lacking, context=9)


def test_symbols_of_other_tokenisers_are_found(letters: Tokeniser) -> None:
    as_gpt2 = Tokeniser.from_json(letters.to_json().replace("<end>", "<|endoftext|>"), "made")
    assert NextToken().encode(texts_of(example("a"), example("b")), as_gpt2, 1).train.ids.tolist() == [5, END, 6]
    as_t5 = Tokeniser.from_json(letters.to_json().replace("<end>", "</s>").replace("<start>", "<extra_id_0>"), "made")
    assert Translate().encode(texts_of(example("a")), as_t5, 9).train.labels.tolist() == [[10, END]]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_that_covers_nothing_or_all(share: float) -> None:
    with pytest.raises(SettingError, match=f"masked: a share of {share} came, expected one between 0 and 1"):
        Masked(share)


def test_a_context_without_room_for_text(letters: Tokeniser) -> None:
    with pytest.raises(SettingError, match="masked: a context of 2 came, and <start> and <end> take two; expected 3"):
        Masked().encode(texts_of(example("abc")), letters, context=2)
    assert Masked().encode(texts_of(example("abc")), letters, context=3).train.ids.shape == (3, 3)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("classify", {"test": ()}, "numbers, its test part: there is no sample in it"),
        ("tag", {"train": (Example(""),)}, "numbers, its training part: there is no sample in it"),
        ("masked", {"test": (Example(""),)}, "numbers, its test part: there is no sample in it"),
        ("gpt", {"test": (Example("one two six"),)}, "numbers, its test part: it is 11 tokens long, too short for"),
        ("gpt", {"train": small_texts().train[:4]}, "numbers, what validation holds out: it is 4 tokens long, too"),
        ("gpt", {"train": small_texts().train[:1]}, "numbers, its training part: it is 9 tokens long, too short for"),
    ],
)
def test_a_part_that_is_too_small_is_refused_before_training(kind: str, change: dict[str, Any], message: str) -> None:
    texts = small_texts()
    recipe = small_text_recipe(kind)
    tokeniser = Characters().train([example.text for example in texts.train], texts.marks)
    with pytest.raises(GlassformerError) as error:
        resolved(recipe, encoded(recipe, texts._replace(**change), tokeniser))
    assert message in str(error.value)
    assert "bring more" in str(error.value)


def log_softmax(logits: Any) -> np.ndarray:
    x = np.asarray(logits, np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def surprise(logits: Any, labels: Any) -> np.ndarray:
    """In nats, at each label."""
    return -np.take_along_axis(log_softmax(logits), labels[..., None], axis=-1)[..., 0]


def loss_by_hand(task: Task, forward: Callable[..., Any], params: Any, batch: Batch) -> float:
    """Over the labels that count, with nothing filled up: rows of one length are read together, without `keep`.

    For spans the tokens are the classes, those that fill up too: these rows stay as long as they are.
    """
    if isinstance(task, Span):
        return float(surprise(forward(params, batch.x, **batch.keywords), batch.labels).mean())
    weights = np.ones(batch.labels.shape) if batch.weights is None else batch.weights
    lengths = batch.keywords["keep"].sum(axis=1) if batch.keywords else np.full(len(batch.labels), batch.x.shape[1])
    losses = []
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        x, labels, counts = jax.tree.map(lambda array: array[alike], (batch.x, batch.labels, weights == 1))  # noqa: B023
        if isinstance(x, Inputs):
            x = Inputs(source=x.source[:, :length], target=x.target)
        else:
            x = x[:, :length]
            labels, counts = (array[:, :length] if array.ndim == 2 else array for array in (labels, counts))
        sixteen = jax.tree.map(lambda array: np.resize(array, (16, *array.shape[1:])), x)  # one program for all
        losses.extend(surprise(forward(params, sixteen)[: len(alike)], labels)[counts])
    return float(np.mean(losses))


def uneven_texts() -> Texts:
    """Numbers whose ones are even are given as their tens alone: targets have to be filled up too."""
    texts = small_texts()
    return texts._replace(train=tuple(map(shortened, texts.train)), test=tuple(map(shortened, texts.test)))


def shortened(said: Example) -> Example:
    return said._replace(target=said.target[: 1 + said.label])


def some_params(model: Network) -> Any:
    """Far enough from their start that every answer differs."""
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    rng = np.random.default_rng(5)
    return jax.tree.map(lambda leaf: jnp.asarray(0.4 * rng.normal(size=leaf.shape), jnp.float32), shapes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_a_step_is_that_of_its_real_labels(kind: str) -> None:
    """Of a full batch and of the last, which is smaller: every real label weighs the same, the rest nothing."""
    recipe, data = ready(small_text_recipe(kind, batch=16, share=0.0, dropout=0.0), uneven_texts())
    engine, params = JaxEngine(recipe, data.train, (1,)), some_params(recipe.model)
    batches = engine.batches([np.random.default_rng(1).permutation(engine.total)], 1)
    last, left = engine.steps - 1, engine.count % 16
    assert left
    loss = jax.jit(lambda params, batches, i: loss_of_step(recipe, params, batches, i)[0])
    forward = jax.jit(lambda params, x, **keywords: recipe.model.forward(params, x, **keywords)[0])
    draw = jax.jit(recipe.task.drawn)
    for i, real in ((0, 16), (last, left)):
        drawn = draw(engine.samples, batches.order[i], keys_of_step(batches.key, i)[0])
        batch = jax.tree.map(lambda array: np.asarray(array)[:real], drawn)  # noqa: B023
        expected = loss_by_hand(recipe.task, forward, params, batch)
        assert float(loss(params, batches, i)) == pytest.approx(expected, rel=2e-5)


class Table(Network):
    """Knows the rows by heart, and what to answer to each: params are the rows and their logits."""

    input = Text()  # pyright: ignore

    def init(self, key: Any) -> None:
        return None

    def forward(self, params: Any, x: Any, *, keep: Any = None) -> tuple[Any, Any]:
        known, logits = params
        found = (side_by_side(x)[:, None] == known).all(axis=-1)
        return logits[found.argmax(axis=1)], None

    def backward(self, params: Any, cache: Any, dy: Any) -> tuple[Any, Any]:
        raise NotImplementedError


def side_by_side(x: Any) -> Any:
    return jnp.concatenate(jax.tree.leaves(x), axis=1)


@pytest.mark.parametrize("at_once", [3, 200])
@pytest.mark.parametrize("kind", OF_TEXTS)
def test_scores_are_those_of_numpy(kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten texts or eight windows, three at a time or all at once: the last part is filled up."""
    recipe, data = ready(small_text_recipe(kind), uneven_texts())
    task, test = recipe.task, data.test
    monkeypatch.setattr(type(task), "at_once", at_once)
    batch = whole(task, test)
    known = np.asarray(side_by_side(batch.x))
    assert len(np.unique(known, axis=0)) == len(known)
    rng = np.random.default_rng(2)
    symbols = known.shape[1] if kind == "span" else 30
    logits = rng.normal(size=(*batch.labels.shape, symbols)).astype(np.float32)
    right = rng.random(batch.labels.shape) < 0.6
    counts = np.ones(batch.labels.shape, bool) if batch.weights is None else batch.weights == 1
    right[::2] = True  # every other row wholly
    right[~counts] = False
    np.put_along_axis(logits, np.asarray(batch.labels)[..., None], np.where(right, 9, -9)[..., None], axis=-1)

    if kind in ("span", "t5", "answer"):
        answers = np.array([row[real].all() for row, real in zip(right, counts, strict=True)])
    else:
        answers = right[counts]
    score = score_in_parts(jax.jit(partial(tally, replace(recipe, model=Table()))), task, (known, logits), test)
    assert score.accuracy == pytest.approx(answers.mean(), abs=1e-6)
    assert score.loss == pytest.approx(surprise(logits, batch.labels)[counts].mean(), rel=1e-5)
    assert 0.3 < answers.mean() < 1


@dataclass
class Counted:
    sizes: list[int]

    def __call__(self, params: Any, samples: Any, chosen: np.ndarray, here: np.ndarray) -> scoring.Tally:
        self.sizes.append(len(chosen))
        return scoring.Tally(*(np.float32(here.sum()) for _ in range(4)))


@pytest.mark.parametrize(("context", "size"), [(10, 200), (100, 80), (5000, 1), (9000, 1)])
def test_long_texts_are_scored_fewer_at_a_time(context: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "most_labels", lambda: 8000)
    samples, counted = Stream(np.zeros(9001 * 3, np.int32), Static(context)), Counted([])
    score_in_parts(counted, NextToken(), None, samples)
    assert set(counted.sizes) == {size}
    assert sum(counted.sizes) >= NextToken().count(samples)
