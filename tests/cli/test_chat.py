"""glassformer generate --chat: what it answers, where conversations come from, and the loop at a terminal."""

import builtins
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from glassformer.cli import chat as command
from glassformer.data.conversations import with_template
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import DataError
from glassformer.generate import Sampling, continue_text
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.generate.text import Writing
from glassformer.models import GPT, T5, Text
from glassformer.models.model import Network
from glassformer.predict.chat import ChatWriter
from glassformer.predict.run import load
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Chat, NextToken, Task, Translate

from .test_generate import invoke, large

OWN = Characters().train(["abcdefghijklmnopqrstuvwxyz .\n"])
TALKING = with_template(OWN, "chatml", "here")
TEXT = Text(OWN.size, 64)
MODEL = GPT(TEXT, width=12, hidden=24, heads=2, depth=1)
T5_MODEL = T5(TEXT, width=12, hidden=24, heads=2, depth=1, head_width=6)
RUNS: dict[str, tuple[Network, Task, Any]] = {
    "plain": (MODEL, NextToken(), OWN),
    "talking": (MODEL, NextToken(), TALKING),
    "tuned": (MODEL, Chat(), TALKING),
    "t5": (T5_MODEL, Translate(), OWN),
}
HELLO = [{"role": "user", "content": "hello"}]
FAST = ("--engine", "jax", "-n", "7")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, (model, task, tokeniser) in RUNS.items():
        recipe, folder = Recipe(model=model, task=task, tokeniser=Characters()), RunFolder(root / name)
        folder.create(recipe)
        folder.save_model(recipe, jax.tree.map(large, jax.eval_shape(model.init, jax.random.key(0))), (), 1)
        folder.save_tokeniser(tokeniser)
    return root


@pytest.fixture(autouse=True)
def among_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)


def expected(text: str, length: int = 7, **settings: Any) -> str:
    decoder = JaxDecoder(MODEL, load("talking").params)
    return continue_text(decoder, TALKING, [text], length=length, **settings)[0]


ASKED = "<start>user\nhello<end>\n<start>assistant\n"


def printed(*arguments: str, stdin: str = "") -> str:
    result = invoke(*arguments, *FAST, stdin=stdin)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def test_one_turn() -> None:
    answer = expected(ASKED, seed=3)
    assert printed("talking", "--chat", "-p", "hello", "--seed", "3") == answer + "\n"
    assert printed("talking", "--chat", "--seed", "3", stdin="hello\n") == answer + "\n"
    assert printed("plain", "--chat", "-p", "hello", "--template", "chatml", "--seed", "3") == answer + "\n"
    told: list[str] = []
    found = load("talking").chat(HELLO, length=7, seed=3, engine="jax", on_text=told.append)
    assert found.text == "".join(told) == answer


def test_a_run_that_was_tuned_on_conversations_needs_no_option() -> None:
    greedy = expected(ASKED, sampling=Sampling(greedy=True))
    assert printed("tuned", "-p", "hello") == greedy + "\n"
    assert printed("tuned", "-p", "hello", "--no-chat").startswith("hello -> ")


def test_a_conversation_as_json(tmp_path: Path) -> None:
    talk = [*HELLO, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "so"}]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(talk))
    text = "<start>system\nbe<end>\n<start>user\nhello<end>\n<start>assistant\nhi<end>\n<start>user\nso<end>\n"
    answer = expected(f"{text}<start>assistant\n")
    result = json.loads(printed("talking", "--messages", str(file), "--system", "be", "--json"))
    assert result["messages"][0] == {"role": "system", "content": "be"}
    assert result["messages"][-1] == {"role": "assistant", "content": answer}
    assert (result["text"], result["stopped"], result["length"], result["seed"]) == (answer, "end", 7, 0)
    again = printed("talking", "--messages", "-", "--system", "be", stdin=json.dumps({"messages": talk}))
    assert again == answer + "\n"


def test_json_lines_are_messages(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('{"prompt": "hello", "seed": 3}\n')
    assert json.loads(printed("talking", "--chat", "--jsonl", str(file)))["text"] == expected(ASKED, seed=3)


def test_an_answer_ends_with_the_context() -> None:
    room = TEXT.context - len(TALKING.encode(ASKED))
    long = "the cat sat on the mat"[:room]
    found = load("talking").chat([{"role": "user", "content": long}], length=500, engine="jax", greedy=True)
    prompt = TALKING.encode(f"<start>user\n{long}<end>\n<start>assistant\n")
    assert len(found.tokens) <= TEXT.context - len(prompt)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plain", "--chat", "-p", "a"), "plain: there is no chat template, .* --template chatml"),
        (("talking", "--chat", "-p", "a", "--template", "nowhere"), "no chat template is called 'nowhere'"),
        (("talking", "--chat", "-p", "a", "--template", "{% if %}"), "the chat template: Expected an expression"),
        (("talking", "--chat", "-p", " "), "the last message is empty"),
        (("talking", "--chat", "-p", "ÄÖ"), "the model's tokeniser does not know 'Ä', 'Ö'"),
        (("talking", "--chat", "-p", "a" * 99), r"tokens, the model's context is 64; shorten it"),
        (("talking", "--messages", "missing.json"), "missing.json: there is no such file"),
        (("t5", "--chat", "-p", "a", "--template", "chatml"), "it has no conversations; leave out --chat"),
    ],
)
def test_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(Exception, match=message):  # of several kinds
        raise invoke(*arguments).exception


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("[", "stdin: damaged or cut short"),
        ("[]", "stdin: .* came as the messages, expected a list"),
        ('[{"role": "robot", "content": "a"}]', "message 1: no role is called 'robot'"),
        ('[{"role": "assistant", "content": "a"}]', "ends with the assistant's answer"),
    ],
)
def test_refused_conversations(stdin: str, message: str) -> None:
    found = invoke("talking", "--messages", "-", stdin=stdin).exception
    assert isinstance(found, DataError)
    with pytest.raises(DataError, match=message):
        raise found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("talking", "--no-chat", "--system", "a"), "--system belongs to a conversation"),
        (("talking", "--chat", "-p", "a", "-p", "b"), "2 came, and a conversation goes on from one message"),
        (("talking", "--messages", "a", "-p", "b"), "the conversation is in it; leave out --prompt"),
        (("talking", "--chat", "--beams", "2"), "beams"),
    ],
)
def test_options_that_clash(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


Lines = Iterator[str | type[BaseException]]


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> None:
    left: Lines = iter([*lines, EOFError])

    def read(prompt: str) -> str:
        line = next(left)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", read)


def talk(**settings: Any) -> ChatWriter:
    writer = ChatWriter(load("talking"), engine="jax")
    command.talk(writer, Writing(4, Sampling(greedy=True), **settings))
    return writer


def test_talking(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed(monkeypatch, "", "hi", "Ä", "so")
    talk()
    out, err = capsys.readouterr()
    first = expected("<start>user\nhi<end>\n<start>assistant\n", 4, sampling=Sampling(greedy=True))
    before = f"<start>user\nhi<end>\n<start>assistant\n{first}<end>\n<start>user\nso<end>\n<start>assistant\n"
    second = expected(before, 4, sampling=Sampling(greedy=True))
    assert out == f"{first}\n{second}\n\n"
    assert "the model's tokeniser does not know 'Ä'" in err


def test_talking_until_the_context_is_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed(monkeypatch, "hi", "the cat sat on the mat", KeyboardInterrupt)
    seen: list[list[Any]] = []
    whole: Callable[..., Any] = ChatWriter.reply

    def reply(self: ChatWriter, messages: list[Any], *rest: Any) -> Any:
        seen.append([message["content"] for message in messages])
        return whole(self, messages, *rest)

    monkeypatch.setattr(ChatWriter, "reply", reply)
    talk()
    assert seen == [["hi"], ["the cat sat on the mat"]]
    assert "the oldest 2 messages are forgotten" in capsys.readouterr().err


def test_an_answer_that_is_interrupted_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "hi", "a")
    asked: list[Any] = []

    def reply(self: ChatWriter, messages: list[Any], how: Writing, on_text: Callable[[str], None]) -> None:
        asked.append([message["content"] for message in messages])
        on_text("ab")
        raise KeyboardInterrupt

    monkeypatch.setattr(ChatWriter, "reply", reply)
    monkeypatch.setattr(ChatWriter, "fitting", lambda self, messages, length: list(messages))
    talk()
    assert asked == [["hi"], ["hi", "ab", "a"]]
    assert capsys.readouterr().out == "ab\nab\n\n"
