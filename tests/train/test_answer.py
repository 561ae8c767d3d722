"""Prompts and answers: what a model reads, which labels count, and what it writes."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, SettingError
from glassformer.lens.trace_input import text_input
from glassformer.models import BERT
from glassformer.predict.answers import PromptAnswer
from glassformer.predict.run import Run, load
from glassformer.train import fit
from glassformer.train.gradient import loss_and_gradient
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import Listener
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import encoded, load_for
from glassformer.train.tasks import Answering

from ..programs import forward
from .small_texts import ready, small_text_recipe, small_texts

PAD, START, END = 0, 2, 3
comma, a, b, c, d, e, f = range(5, 12)


@pytest.fixture(scope="module")
def letters() -> Tokeniser:
    return Characters().train(["abcdef,"])


def texts_of(*pairs: tuple[str, str]) -> Texts:
    examples = tuple(Example(text, target=target) for text, target in pairs)
    return Texts("made", examples, examples)


def test_the_answer_and_its_end_count_and_nothing_else(letters: Tokeniser) -> None:
    train, _, classes, _ = Answering(",").encode(texts_of(("abc", "d"), ("e", "fa")), letters, context=5)
    assert classes == ()
    batch = jax.tree.map(np.asarray, Answering(",").batch(train, jnp.array([0, 1])))
    assert batch.x.tolist() == [[a, b, c, comma, d], [e, comma, f, a, PAD]]
    assert batch.labels[0].tolist() == [b, c, comma, d, END]
    assert batch.labels[1, :4].tolist() == [comma, f, a, END]
    assert batch.weights.tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 1, 0]]
    assert batch.weights.dtype == np.float32
    assert batch.keywords == {}


def test_without_a_symbol_for_padding_the_end_is_taken(letters: Tokeniser) -> None:
    as_gpt2 = Tokeniser.from_json(letters.to_json().replace("<pad>", "<no>").replace("<end>", "<|endoftext|>"), "made")
    train = Answering(",").encode(texts_of(("abc", "d"), ("e", "f")), as_gpt2, context=9).train
    assert train.ids[1].tolist() == [e, comma, f, END, END]
    assert train.counts[1].tolist() == [False, True, True, False, False]


def test_prompt_and_answer_are_encoded_each_by_itself() -> None:
    """Byte pairs would join the separator to what stands beside it."""
    tokeniser = BytePairs(size=300).train(["a b\n\na b\n\n" * 9])
    task = Answering("\n")
    train = task.encode(texts_of(("a b\n", "\na b"), ("a", "b")), tokeniser, context=20).train
    prompt = [*tokeniser.encode("a b\n"), *tokeniser.encode("\n")]
    answer = [*tokeniser.encode("\na b"), tokeniser.id_of("end")]
    row = [*train.ids[0][: len(prompt) + len(answer) - 1], train.labels[0][len(prompt) + len(answer) - 2]]
    assert row == [*prompt, *answer]
    assert train.counts[0].sum() == len(answer)
    assert task.prompt(tokeniser, tokeniser.encode("a b\n")) == prompt


def test_the_labels_of_a_prompt_have_no_gradient() -> None:
    """Other labels at the prompt and behind the answer: the same loss, the same gradient."""
    recipe, data = ready(small_text_recipe("answer", dropout=0.0))
    params = recipe.model.init(jax.random.key(1))
    batch = recipe.task.batch(data.train, jnp.arange(4))

    @jax.jit
    def loss(labels: Any) -> Any:
        return loss_and_gradient(recipe.model, recipe.loss, params, batch.x, labels=labels, weights=batch.weights)

    others = np.where(batch.weights == 0, (np.asarray(batch.labels) + 1) % data.symbols, batch.labels)
    assert (others != batch.labels).sum() > 20
    jax.tree.map(np.testing.assert_array_equal, loss(batch.labels), loss(others))
    assert float(loss((batch.labels + 1) % data.symbols)[0]) != float(loss(batch.labels)[0])


@pytest.mark.parametrize(
    ("task", "pairs", "message"),
    [
        (Answering(), [("a", "b"), ("c", "d")], r"the tokeniser has no symbol for the separator '\n', which stands"),
        (Answering(","), [("a", ""), ("b", "c")], "made: the second text of a pair is empty, beside 'a'"),
        (Answering(","), [("", "a"), ("b", "c")], "made: the first text of a pair is empty, beside 'a'"),
        (Answering(","), [("a", ""), ("b", "")], "made: its texts have no second texts: they are no pairs"),
        (
            Answering(","),
            [("abcdef", "ab"), ("b", "c")],
            "made: 'abcdef' is 9 symbols long with its frame, the model's context is 8; shorten the text, or train "
            "with --set model.text.context=9",
        ),
    ],
)
def test_what_is_no_prompt_and_answer(
    task: Answering, pairs: list[tuple[str, str]], message: str, letters: Tokeniser
) -> None:
    with pytest.raises(DataError) as error:
        task.encode(texts_of(*pairs), letters, context=8)
    assert message in str(error.value)


def test_a_tokeniser_is_made_with_the_separator() -> None:
    data = encoded(small_text_recipe("answer"), small_texts())
    assert data.tokeniser
    assert not data.tokeniser.unknown_in("<up> one\n12")


def test_a_model_that_cannot_write() -> None:
    with pytest.raises(SettingError, match="task: answer came, and BERT does masked, classify, tag, span, contrast"):
        load_for(Recipe(model=BERT(), task=Answering()), "nothing is looked for")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("answer")
    recipe = small_text_recipe("answer", epochs=120, share=0.0, dropout=0.0, batch=10)
    fit.train(*ready(recipe, small_texts(by_heart=True)), folder, Listener())
    return load(folder)


def test_answers_are_learned_and_written(learned: Run) -> None:
    """The score, counted label by label, is what greedy generation gives; alone and among others."""
    test = small_texts(by_heart=True).test
    answers = learned.answer([one.text for one in test])
    right = [answer == PromptAnswer(one.target, ended=True) for answer, one in zip(answers, test, strict=True)]
    assert np.mean(right) == pytest.approx(learned.metrics["test_accuracy"], abs=1e-6)
    assert np.mean(right) > 0.8
    assert learned.answer([test[3].text])[0] == answers[3]
    recipe, data = ready(learned.recipe, small_texts(by_heart=True))
    assert JaxEngine(recipe, data.train, (1,)).score(learned.params, data.test).accuracy == pytest.approx(
        learned.metrics["test_accuracy"]
    )


def test_the_commands_answer(learned: Run) -> None:
    prompt = small_texts().train[0].text
    [answer] = learned.answer([prompt])
    assert isinstance(answer, PromptAnswer)
    shown = CliRunner().invoke(app, ["predict", prompt, "--run", str(learned.path)])
    assert shown.output.splitlines() == [prompt, f"  {answer.text}"]
    for more in ([], ["--engine", "jax"]):
        said = CliRunner().invoke(app, ["generate", str(learned.path), "--prompt", prompt, *more])
        assert said.stdout == f"{prompt} -> {answer.text}\n"
    empty = CliRunner().invoke(app, ["generate", str(learned.path), "--prompt", ""])
    assert "it is empty, and there is nothing to answer" in str(empty.exception)
    beams = CliRunner().invoke(app, ["generate", str(learned.path), "--prompt", prompt, "--beams", "2"])
    assert "beams are for a T5, which reads it first" in beams.output


def test_a_prompt_that_is_longer_than_the_context(learned: Run) -> None:
    long = "<up>" + " one" * 4
    with pytest.raises(DataError, match="is 17 symbols long, the run's context takes 15; shorten it by 2"):
        learned.answer([long])
    said = CliRunner().invoke(app, ["generate", str(learned.path), "--prompt", long])
    assert "the prompt: 18 tokens, the model's context is 16; shorten it by 2 or more" in str(said.exception)


def test_what_a_trace_looks_at(learned: Run) -> None:
    """With the right answer all of it counts; without one what is written first."""
    one = small_texts().train[0]
    known = text_input(learned, "", one.text, one.target)
    assert known.is_known
    assert known.weights is not None
    assert known.weights.sum() == len(one.target) + 1
    assert "".join(known.tokens).endswith(f"\n{one.target}")
    assert known.labels[0, -1] == END
    own = text_input(learned, "", one.text)
    assert own.weights is not None
    assert own.weights[0].tolist() == [0.0] * (own.x.shape[1] - 1) + [1.0]
    logits = np.asarray(forward(learned.model, learned.params, own.x))
    assert (own.labels == logits.argmax(axis=-1)).all()


@pytest.mark.slow
def test_a_model_that_has_read_before_answers(tmp_path: Path) -> None:
    """--from a language model: its tokeniser has to know the separator."""
    texts = small_texts(by_heart=True)
    fit.train(*ready(small_text_recipe("gpt", epochs=1), texts), tmp_path / "gpt", Listener())
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{one.text}\t{one.text.split()[1][0]}\n" for one in texts.train))
    command = ["train", "--from", str(tmp_path / "gpt"), "--task", "answer", "--data", str(pairs), "--epochs", "1"]
    refused = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "no")])
    assert r"the tokeniser has no symbol for the separator '\n'" in str(refused.exception)
    room = ["--set", 'task.separator=" "']
    done = CliRunner().invoke(app, [*command, *room, "--out", str(tmp_path / "yes"), "--json"])
    assert done.exit_code == 0, done.output
    run = load(tmp_path / "yes")
    assert (run.recipe.task, run.recipe.start) == (Answering(" "), str(tmp_path / "gpt"))
