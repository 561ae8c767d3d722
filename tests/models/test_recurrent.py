"""The recurrent models beyond their gradients: one step at a time, what filling does, what learns, what is refused."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import embedding
from glassformer.losses import CrossEntropy
from glassformer.models import RecurrentClassifier, RecurrentLM, Text
from glassformer.models.summary import summarise
from glassformer.train import loss_and_gradient

from .curves import by_backward, train

WORDS = Text(vocabulary=11, context=9)
CELLS = ("rnn", "lstm", "gru")
WRITERS = {cell: RecurrentLM(WORDS, width=12, hidden=12, depth=1, cell=cell) for cell in CELLS}
JUDGES = {cell: RecurrentClassifier(WORDS, classes=3, width=12, hidden=10, depth=1, cell=cell) for cell in CELLS}
IDS = jax.random.randint(jax.random.key(1), (3, 8), 0, 11)


def start(model, seed=0):
    return model.init(jax.random.key(seed))


@partial(jax.jit, static_argnums=0)
def logits(model, params, ids=IDS, **keywords) -> np.ndarray:
    return model.forward(params, ids, **keywords)[0]


def filled_after(*lengths: int) -> jax.Array:
    return jnp.arange(8) < jnp.asarray(lengths)[:, None]


@pytest.mark.parametrize(
    "model",
    [*WRITERS.values(), replace(WRITERS["gru"], width=7, depth=2, tied=False)],
    ids=[*CELLS, "two cells, own head"],
)
def test_step_by_step_the_scores_are_those_of_forward(model) -> None:
    params = start(model)

    def step(state, ids):
        scores, state = model.step(params, state, ids)
        return state, scores

    _, scores = jax.lax.scan(step, model.start_state(3), IDS.T)
    assert np.allclose(scores.swapaxes(0, 1), logits(model, params), atol=1e-6)


def test_a_state_of_another_cell_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"lstm: a state without a memory cell came; .* start_state\(batch\)"):
        WRITERS["lstm"].step(start(WRITERS["lstm"]), WRITERS["gru"].start_state(3), IDS[:, 0])


@pytest.mark.parametrize("cell", CELLS)
def test_it_remembers_the_past_and_knows_nothing_of_the_future(cell: str) -> None:
    model, params = WRITERS[cell], start(WRITERS[cell])
    other = IDS.at[:, 3].add(1) % 11
    changed = np.abs(logits(model, params) - logits(model, params, other)).max(axis=(0, 2))
    assert (changed[:3] == 0).all()
    assert (changed[3:] > 1e-4).all()


@pytest.mark.parametrize("cell", CELLS)
def test_the_answer_is_that_of_the_text_without_what_fills_it_up(cell: str) -> None:
    model, params = JUDGES[cell], start(JUDGES[cell])
    whole, cut = logits(model, params), logits(model, params, IDS[:, :5])
    answers = logits(model, params, keep=filled_after(8, 5, 5))
    assert np.allclose(answers[0], whole[0], atol=1e-6)
    assert np.allclose(answers[1:], cut[1:], atol=1e-6)
    assert (np.abs(whole - cut).max(axis=1) > 1e-3).all()


def test_a_text_without_a_token_leaves_only_the_bias() -> None:
    model, params = JUDGES["lstm"], start(JUDGES["lstm"])
    params = params._replace(head=params.head._replace(b=jnp.asarray([1.0, 2.0, 3.0])))
    answers = logits(model, params, keep=filled_after(8, 0, 5))
    assert answers[1].tolist() == [1, 2, 3]
    assert answers[2].tolist() != [1, 2, 3]


def test_filling_at_the_end_changes_no_score_before_it() -> None:
    model, params = WRITERS["lstm"], start(WRITERS["lstm"])
    filled = logits(model, params, keep=filled_after(5, 5, 5))
    assert np.allclose(filled[:, :5], logits(model, params, IDS[:, :5]), atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_one_batch_is_learned_by_heart(cell: str) -> None:
    draw = np.random.default_rng(0)
    ids, next_ids, classes = draw.integers(11, size=(3, 7)), draw.integers(11, size=(3, 7)), np.arange(3)
    for model, labels, knows_nothing in ((WRITERS[cell], next_ids, 11), (JUDGES[cell], classes, 3)):
        every_step = (np.broadcast_to(a, (150, *a.shape)) for a in (ids, labels))
        losses, _ = train(by_backward(model), optax.adam(2e-2), start(model), *every_step)
        assert losses[0] == pytest.approx(np.log(knows_nothing), abs=0.5)
        assert losses[-1] < 0.1


def test_what_a_writer_has_learned_a_judge_can_start_from() -> None:
    writer = replace(WRITERS["gru"], hidden=10, tied=False)
    judge = replace(JUDGES["gru"], classes=11)
    learned = start(writer, seed=5)
    params = start(judge)._replace(reader=learned.reader)
    same_head = learned._replace(head=embedding.Params(emb=params.head.w.T))
    assert np.allclose(logits(judge, params), logits(writer, same_head)[:, -1], atol=1e-6)


def test_a_tied_table_has_one_gradient_for_both_of_its_uses() -> None:
    model, params = WRITERS["lstm"], start(WRITERS["lstm"])
    apart = params._replace(head=params.reader.embed)
    labels = {"labels": (IDS + 1) % 11}
    _, together = loss_and_gradient(model, CrossEntropy(), params, IDS, **labels)
    _, split = loss_and_gradient(replace(model, tied=False), CrossEntropy(), apart, IDS, **labels)
    assert together.head is None
    assert np.allclose(together.reader.embed.emb, split.reader.embed.emb + split.head.emb, atol=1e-6)


@pytest.mark.parametrize("model", [WRITERS["lstm"], JUDGES["gru"]], ids=["writer", "judge"])
def test_values_are_dropped_with_a_key_and_only_then(model) -> None:
    model = replace(model, dropout=0.5)
    params = start(model)
    plain = logits(model, params)
    one, same, other = (logits(model, params, key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert np.array_equal(plain, logits(replace(model, dropout=0.0), params))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other, atol=1e-3)
    assert not np.allclose(one, plain, atol=1e-3)


@pytest.mark.parametrize(("cell", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_parameters_are_as_many_as_on_paper(cell: str, gates: int) -> None:
    bottom, above = (gates * (inputs * 10 + 10 * 10 + 2 * 10) for inputs in (12, 10))
    judge = replace(JUDGES[cell], depth=2)
    assert summarise(judge).total("parameters") == 11 * 12 + bottom + above + 10 * 3 + 3
    own_head = RecurrentLM(WORDS, width=12, hidden=10, depth=2, cell=cell, tied=False)  # pyright: ignore
    assert summarise(own_head).total("parameters") == 11 * 12 + bottom + above + 11 * 10


def test_models_have_a_table() -> None:
    assert "reader.cells.0" in str(WRITERS["lstm"])
    assert "last " in str(JUDGES["rnn"])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            RecurrentLM(WORDS, width=12, hidden=10),
            ShapeError,
            r"RecurrentLM: the embedding is 12 wide and the states are 10; .* try width=10, or tied=False",
        ),
        (RecurrentLM(WORDS, cell="lsmt"), SettingError, r"cell 'lsmt' came \(did you mean 'lstm'\?\), expected rnn"),  # pyright: ignore
        (RecurrentClassifier(WORDS, depth=0), SettingError, "recurrent: depth is 0, expected 1 or more"),
    ],
    ids=["widths", "cell", "depth"],
)
def test_settings_that_do_not_fit_are_refused(model, error, message: str) -> None:
    with pytest.raises(error, match=message):
        start(model)


@pytest.mark.parametrize("model", [WRITERS["lstm"], JUDGES["lstm"]], ids=["writer", "judge"])
def test_what_is_no_batch_of_ids_is_refused(model) -> None:
    with pytest.raises(ShapeError, match=f"{type(model).__name__}: 10 tokens came, the context is 9"):
        model.forward(start(model), jnp.zeros((2, 10), int))
