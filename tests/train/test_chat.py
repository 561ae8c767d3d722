"""Conversations: what a model reads, which labels count, what is left out, and that the template goes along."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import glassformer
from glassformer.data.chat_template import CHATML
from glassformer.data.conversations import with_template
from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError
from glassformer.hub.folder import read_folder, write_folder
from glassformer.predict.answers import PromptAnswer
from glassformer.predict.run import Run
from glassformer.train.fit import resume
from glassformer.train.loop import Listener
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Chat

ASKED, SAID = {"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}
SMALL: dict[str, Any] = {"model__width": 16, "model__hidden": 16, "model__heads": 2, "model__depth": 1}
SMALL |= {"training__samples": 0, "training__batch": 8, "training__epochs": 1}


def talk(*messages: dict[str, str]) -> Example:
    return Example("ab", target="c", messages=messages)


def texts_of(*examples: Example) -> Texts:
    return Texts("made", examples, examples)


@pytest.fixture(scope="module")
def letters() -> Tokeniser:
    return with_template(Characters().train(["abcdef user assistant system\n"]), "chatml", "here")


def counted(task: Chat, examples: list[Example], tokeniser: Tokeniser, context: int = 99) -> list[str]:
    train = task.encode(texts_of(*examples), tokeniser, context).train
    batch = task.batch(train, jnp.arange(len(examples)))
    assert batch.weights is not None
    symbols = tokeniser.inner.id_to_token
    rows = zip(np.asarray(batch.labels), np.asarray(batch.weights), strict=True)
    return ["".join(symbols(int(label)) for label in labels[weights > 0]) for labels, weights in rows]


def test_the_turns_of_the_assistant_count_and_nothing_else(letters: Tokeniser) -> None:
    system = {"role": "system", "content": "def"}
    long = talk(system, ASKED, SAID, {"role": "user", "content": "c"}, {"role": "assistant", "content": "ab"})
    assert counted(Chat(), [talk(ASKED, SAID), long], letters) == ["c<end>", "c<end>ab<end>"]
    train = Chat().encode(texts_of(talk(ASKED, SAID)), letters, 99).train
    whole = letters.encode("<start>user\nab<end>\n<start>assistant\nc<end>\n")
    assert train.ids.tolist() == [whole[:-1]]
    assert train.labels.tolist() == [whole[1:]]


def test_with_and_without_generation_blocks(letters: Tokeniser) -> None:
    """And at the edges of tokens that are longer than a character."""
    plain = CHATML.replace("{%- generation %}", "").replace("{%- endgeneration %}", "")
    pairs = BytePairs(size=290).train(["assistant\nuser\nab ab c"])
    for tokeniser in letters, with_template(pairs, "chatml", "here"):
        (marked,) = counted(Chat(), [talk(ASKED, SAID)], tokeniser)
        (found,) = counted(Chat(), [talk(ASKED, SAID)], with_template(tokeniser, plain, "here"))
        assert found == marked == "c<end>"


def test_a_token_over_the_edge_of_a_turn_belongs_to_it() -> None:
    pairs = BytePairs(size=280).train(["a b a b a b"])
    both = with_template(pairs, "{% for m in messages %}{{ m.content }}{% endfor %}", "here")
    parts = talk({"role": "user", "content": "a"}, {"role": "assistant", "content": " ba"})
    assert counted(Chat(), [parts], both)[0].replace("Ġ", " ") == " ba"


def test_plain_texts_count_as_a_whole(letters: Tokeniser) -> None:
    plain, mixed = "abcdef" * 20, texts_of(talk(ASKED, SAID), Example("abcdef" * 20))
    train = Chat().encode(mixed, letters, 50).train
    assert train.counts.sum(axis=1).tolist() == [50, 50, 2]  # conversations last, whatever their order
    ids = letters.encode(plain)
    assert train.ids[:2].ravel().tolist() == ids[:100]
    assert train.labels[1].tolist() == ids[51:101]


def test_long_ones_are_left_out_and_counted(letters: Tokeniser) -> None:
    short, long = talk(ASKED, SAID), talk({"role": "user", "content": "a" * 50}, SAID)
    room = len(letters.encode("<start>user\nab<end>\n<start>assistant\nc<end>\n")) - 1
    found = Chat().encode(texts_of(short, short, long), letters, room)
    assert len(found.train.ids) == 2
    assert found.notes[0].startswith(
        f"made: 1 of 3 conversations are longer than the context of {room} tokens, and are "
    )
    with pytest.raises(
        DataError, match=r"1 of 1 conversations .* none is left; the longest has 71; a model with --set"
    ):
        Chat().encode(texts_of(long), letters, room)
    with pytest.raises(DataError, match="no messages: they are no conversations"):
        Chat().encode(texts_of(Example("ab")), letters, room)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "talk.jsonl"
    talks = [[{"role": "user", "content": a + b}, SAID | {"content": b}] for a in "abcdef" for b in "abcdef"]
    path.write_text("\n".join(json.dumps({"messages": one}) for one in talks))
    return path


@pytest.fixture(scope="module")
def tuned(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """By LoRA, from a model that has read plain text, and has a head of its own."""
    root = tmp_path_factory.mktemp("runs")
    plain = root / "plain.txt"
    plain.write_text("abcdef user assistant\n" * 40)
    read = glassformer.fit("llama-nano", str(plain), **SMALL, model__tied=False, out=root / "read")
    template = root / "mine.jinja"
    template.write_text(CHATML)
    set_ = {"task": "chat", "task__template": str(template), "tune": "lora", "validation__share": 0.0}
    run = glassformer.fit(start=read.path, data=str(file), **SMALL, **set_, out=root / "tuned")
    template.unlink()
    before, after = read.params, run.params
    assert np.array_equal(before.head.emb, after.head.emb)  # it gives symbols in both, and lora leaves it alone
    return run


def test_a_tuned_run_has_its_template(tuned: Run, file: Path) -> None:
    task = tuned.recipe.task
    assert isinstance(task, Chat)
    assert task.template == CHATML
    assert tuned.tokeniser is not None
    assert tuned.tokeniser.chat is not None
    assert tuned.tokeniser.chat.default == CHATML
    assert 0 <= tuned.score().accuracy <= 1
    assert 0 <= tuned.score(str(file)).accuracy <= 1
    assert resume(tuned.path)["run"] == str(tuned.path)
    (answer,) = tuned.answer(["ab"])
    assert isinstance(answer, PromptAnswer)
    assert answer.text.startswith(tuned.chat([ASKED]).text)  # which ends with the context
    assert (RunFolder(tuned.path).path / "adapter.safetensors").exists()


def test_it_goes_out_and_comes_back(tuned: Run, tmp_path: Path) -> None:
    assert tuned.tokeniser is not None
    spelled = tuned.tokeniser.to_json()
    write_folder(tmp_path, tuned.model, tuned.params, tokeniser_json=spelled, chat=tuned.tokeniser.chat)
    assert read_folder(tmp_path).chat == tuned.tokeniser.chat


def test_what_is_left_out_is_said(file: Path, tmp_path: Path) -> None:
    lines = file.read_text().splitlines()
    (tmp_path / "talk.jsonl").write_text("\n".join([lines[0].replace('"aa"', f'"{"a" * 99}"'), *lines]))

    class Told(Listener):
        notes: tuple[str, ...] = ()

        def notice(self, text: str) -> None:
            self.notes = (*self.notes, text)

    told = Told()
    set_: dict[str, Any] = SMALL | {"task": "chat", "task__template": "chatml"}
    glassformer.fit("llama-nano", str(tmp_path / "talk.jsonl"), **set_, out=tmp_path / "run", listener=told)
    assert any("1 of 33 conversations are longer than the context of 64 tokens" in note for note in told.notes)


def test_without_a_template(file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"chat: there is no chat template, .* give one"):
        glassformer.fit("llama-nano", str(file), **SMALL, task="chat", out=tmp_path / "run")
