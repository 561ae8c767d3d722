"""Text in, text out: what is told and when, where rows end, and what is refused before anything is computed."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, SettingError, ShapeError
from glassformer.generate import Sampling, continue_text
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.generate.logit_bias import split
from glassformer.generate.prompts import to_continue
from glassformer.generate.text import Writing, first_in_view, write
from glassformer.generate.text_stream import UntilStop, WholeCharacters
from glassformer.models import GPT, Text
from glassformer.names import named_leaves, with_leaves

from .script import Script

TOKENISER = Characters().train(["abcdefghijklmnopqrstuvwxyz .\n"])
BYTES = BytePairs(size=300).train(["the cat sat on the mat, 日本語 🙂"])
END = 3
GREEDY = Sampling(greedy=True)


def scripted(*texts: str, tokeniser: Tokeniser = TOKENISER, ended: bool = True, **settings: Any) -> Script:
    rows = [[*tokeniser.encode(text), *([END] if ended else [])] for text in texts]
    return Script(tokeniser.size, rows, **settings)


def written(decoder: Script, prompts: list[str], *, tokeniser: Tokeniser = TOKENISER, **settings: Any) -> list[str]:
    return continue_text(decoder, tokeniser, prompts, **{"length": 40, "sampling": GREEDY, **settings})


def test_each_row_ends_where_it_ends() -> None:
    decoder = scripted("one", "", "three three")
    assert written(decoder, ["x", "yy", "zzz"]) == ["one", "", "three three"]
    assert decoder.steps == len("three three"), "no step more than the longest needs"
    assert decoder.prompts[0].tolist() == [*TOKENISER.encode("x"), 0, 0], "filled up at the end"


def test_the_length_ends_all() -> None:
    decoder = scripted("one", "three three")
    assert written(decoder, ["x", "y"], length=4) == ["one", "thre"]
    assert decoder.steps == 3


def test_pieces_are_told_in_order_and_add_up() -> None:
    told: list[tuple[int, str]] = []
    texts = written(scripted("ab", "xyz"), ["q", "q"], on_text=lambda row, piece: told.append((row, piece)))
    assert told == [(0, "a"), (1, "x"), (0, "b"), (1, "y"), (1, "z")]
    assert texts == ["ab", "xyz"]


def test_a_text_may_grow_longer_than_the_context() -> None:
    """As if the model read, for every token, the text anew from where its view begins; whatever stands beside it."""
    model = GPT(Text(TOKENISER.size, context=10), width=12, hidden=16, heads=2, depth=1)
    params = jax.tree.map(lambda leaf: 20 * leaf, model.init(jax.random.key(3)))

    forward = jax.jit(lambda ids: model.forward(params, ids)[0])

    def slowly(prompt: str, length: int) -> str:
        ids = TOKENISER.encode(prompt)
        for _ in range(length):
            view = ids[first_in_view(len(ids), 10) :]
            logits = forward(jnp.array([view + [0] * (10 - len(view))]))  # what fills up comes after all that is seen
            ids.append(int(logits[0, len(view) - 1].argmax()))
        return TOKENISER.decode(ids)[len(prompt) :]

    prompts = ["abcdefghij", "xyz", "a"]
    together = continue_text(JaxDecoder(model, params), TOKENISER, prompts, length=25, sampling=GREEDY)
    assert together == [slowly(prompt, 25) for prompt in prompts]
    assert len(set(together[0][-10:])) > 1, "the text varies, or the test would see nothing"


@pytest.mark.parametrize(
    ("text", "stop", "expected", "told"),
    [
        ("one. two. ", (". ",), "one", ["o", "n", "e"]),
        ("a stop b", ("stop", "pp"), "a ", ["a", " "]),
        ("stst stop", ("stop",), "stst ", ["st", "st "]),
        ("aaab", ("aab",), "a", ["a"]),
        ("abcd", ("abcx", "bc"), "a", ["a"]),  # held back for the first, ended by the second
        ("abcd", ("abc", "b"), "a", ["a"]),  # the first to be complete
        ("abab", ("abc",), "abab", ["ab", "ab"]),  # nothing follows: what was held back is text
        ("stop", ("stop",), "", []),
        ("no end", (), "no end", list("no end")),
    ],
)
def test_text_ends_before_a_stop_string(text: str, stop: tuple[str, ...], expected: str, told: list[str]) -> None:
    pieces: list[str] = []
    assert written(scripted(text), ["x"], stop=stop, on_text=lambda _, piece: pieces.append(piece)) == [expected]
    assert pieces == told


def test_where_it_stops_does_not_depend_on_how_the_text_is_cut() -> None:
    draw = np.random.default_rng(0)
    for _ in range(300):
        text, stop = letters(draw, 30), [letters(draw, int(draw.integers(1, 5))) for _ in range(3)]
        ends = sorted((at + len(word), at) for word in stop if (at := text.find(word)) >= 0)
        until, out, left = UntilStop(stop), "", text
        while left and not until.found:
            size = int(draw.integers(1, 7))
            out, left = out + until.feed(left[:size]), left[size:]
            assert text.startswith(out)
        assert out + until.rest() == (text[: ends[0][1]] if ends else text)


def letters(draw: np.random.Generator, count: int) -> str:
    return "".join(draw.choice(list("abc"), size=count))


def test_only_whole_characters_are_told() -> None:
    text = "日本語 🙂 naïve é"
    decoder = scripted(text, tokeniser=BYTES)
    assert len(decoder.scripts[0]) > len(text), "characters of several tokens"
    pieces: list[str] = []
    assert written(decoder, ["the "], tokeniser=BYTES, on_text=lambda _, piece: pieces.append(piece)) == [text]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_character_that_is_cut_off_is_left_out() -> None:
    assert written(scripted("a日b", tokeniser=BYTES), ["x"], tokeniser=BYTES, length=len(BYTES.encode("a日")) - 1) == [
        "a"
    ]


def test_bytes_that_are_no_character_are_shown_as_such_and_hold_nothing_up() -> None:
    broken = [*BYTES.encode("a"), BYTES.encode("日")[0], *BYTES.encode("bc"), END]
    assert written(Script(BYTES.size, [broken]), ["x"], tokeniser=BYTES) == ["a\ufffdbc"]


def test_a_stop_string_may_begin_within_a_token_and_end_within_another() -> None:
    tokeniser = BytePairs(size=400).train(["one two three. Four"] * 3)
    ids = tokeniser.encode("one two three")
    assert len(ids) < 6
    decoder = scripted("one two three", tokeniser=tokeniser)
    assert written(decoder, ["x"], tokeniser=tokeniser, stop=("e two th",)) == ["on"]


def test_words_keep_their_spaces() -> None:
    words = ["<pad>", "<unk>", "<start>", "</s>", "▁the", "▁cat", "s", "▁sat"]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    inner.decoder = tokenizers.decoders.Metaspace()
    tokeniser = Tokeniser(inner)
    for before in ([], [4], [4, 5]):
        characters = WholeCharacters(tokeniser, before)
        pieces = [characters.feed(token) for token in [4, 5, 6, 7]]
        assert tokeniser.decode(before) + "".join(pieces) == tokeniser.decode([*before, 4, 5, 6, 7])
        assert pieces[1:] == [" cat", "s", " sat"]


def test_symbols_that_the_tokeniser_lacks_are_never_written() -> None:
    decoder = Script(128, [[TOKENISER.size + 3, *TOKENISER.encode("b"), END]])
    (text,) = written(decoder, ["x"], length=2)
    assert len(TOKENISER.encode(text)) <= 2


def test_an_empty_prompt_begins_after_the_end_of_another_text() -> None:
    decoder = scripted("abc")
    assert written(decoder, [""]) == ["abc"]
    assert decoder.prompts.tolist() == [[END]]


MODEL = GPT(Text(TOKENISER.size, 32), width=12, hidden=24, heads=2, depth=2)
WARM = Sampling(temperature=1.5, top_k=30, top_p=0.99)


@pytest.fixture(scope="module")
def decoder() -> JaxDecoder:
    """Gains of 1 and small biases: texts depend on their prompts."""
    draw, shapes = np.random.default_rng(1), jax.eval_shape(MODEL.init, jax.random.key(0))
    weights = {
        name: np.ones(leaf.shape, np.float32)
        if name.endswith(".gain")
        else draw.normal(scale=0.5 if leaf.ndim == 2 else 0.05, size=leaf.shape).astype(np.float32)
        for name, leaf in named_leaves(shapes).items()
    }
    return JaxDecoder(MODEL, with_leaves(shapes, weights))


PROMPTS = ["the cat", "a", "no more of this"]


def test_same_seed_same_text(decoder: JaxDecoder) -> None:
    first, again, other = (
        continue_text(decoder, TOKENISER, PROMPTS, length=12, sampling=WARM, seed=seed) for seed in (7, 7, 8)
    )
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_a_batch_writes_what_its_prompts_write_alone(decoder: JaxDecoder) -> None:
    together = continue_text(decoder, TOKENISER, PROMPTS, length=12, sampling=GREEDY)
    assert together == [continue_text(decoder, TOKENISER, [p], length=12, sampling=GREEDY)[0] for p in PROMPTS]
    assert len(set(together)) == len(PROMPTS)
    drawn = continue_text(decoder, TOKENISER, PROMPTS, length=12, sampling=WARM)
    others = continue_text(decoder, TOKENISER, [PROMPTS[0], "quite different", "b"], length=12, sampling=WARM)
    assert drawn[0] == others[0]
    assert drawn[1] != others[1]
    assert continue_text(decoder, TOKENISER, PROMPTS[:1], length=12, sampling=WARM) == drawn[:1]


def test_the_same_prompt_twice_gives_two_texts(decoder: JaxDecoder) -> None:
    one, two = continue_text(decoder, TOKENISER, ["the cat"] * 2, length=12, sampling=WARM)
    assert one != two


def without_ends() -> Tokeniser:
    vocabulary = {letter: i for i, letter in enumerate("abc")}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    return Tokeniser(inner)


@pytest.mark.parametrize(
    ("prompts", "settings", "error", "message"),
    [
        (["ab", "a" * 65], {}, DataError, r"prompt 2: 65 tokens, the model's context is 64; shorten it by 1 or more"),
        (["a"], {"length": 0}, SettingError, "generate: length is 0, expected 1 or more"),
        (["a"], {"length": -3}, SettingError, "length is -3"),
        (["ab", "aßab日ß"], {}, DataError, "prompt 2: the model's tokeniser does not know 'ß', '日': its training"),
        (["ABCDEFGH"], {}, DataError, "does not know 'A', 'B', 'C', 'D', 'E' and 3 more"),
        (["a"], {"seed": -1}, SettingError, "seed is -1"),
        (["a"], {"stop": ("x", "")}, SettingError, "expected a list of texts that are not empty"),
        (["a"], {"stop": "end"}, SettingError, "'end' came as the stop strings"),
        ("abc", {}, SettingError, "one text came as the prompts, expected a list"),
        (["a"], {"tokeniser": BYTES}, ShapeError, r"the tokeniser has 286 symbols, the model 34; use the tokeniser"),
        (["a", ""], {"tokeniser": without_ends()}, DataError, "prompt 2: it is empty, and the tokeniser has no start"),
    ],
)
def test_refused_before_anything_is_computed(
    prompts: Any, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    decoder = scripted("a") if settings.get("tokeniser", BYTES) is BYTES else Script(3, [[0]])
    with pytest.raises(error, match=message):
        written(decoder, prompts, **settings)
    assert decoder.steps == -1


def test_a_model_with_fewer_symbols_or_many_more_is_refused() -> None:
    for vocabulary in (TOKENISER.size - 1, 129):
        with pytest.raises(ShapeError, match=f"34 symbols, the model {vocabulary}"):
            written(Script(vocabulary, [[0]]), ["a"])


def test_no_prompts_no_texts() -> None:
    assert written(scripted("a"), []) == []


def test_a_text_that_is_over_does_not_fill_the_context(decoder: JaxDecoder) -> None:
    """The first prompt has room for two tokens, is over at once, and the others go on for many."""
    sampling = Sampling(greedy=True, logit_bias={"<end>": -float("inf")})
    how = [Writing(length, sampling) for length in (1, 20, 9)]
    prompts = ["a" * 30, "the cat", "b"]
    rows = write(decoder, TOKENISER, to_continue(decoder, TOKENISER, prompts, 20), how)
    alone = [
        continue_text(decoder, TOKENISER, [prompt], length=one.length, sampling=sampling)[0]
        for prompt, one in zip(prompts, how, strict=True)
    ]
    assert [row.text for row in rows] == alone
    assert [len(row.written) for row in rows] == [1, 20, 9]


def test_rows_of_one_batch_have_their_own_settings(decoder: JaxDecoder) -> None:
    how = [
        Writing(9, Sampling(temperature=1.5), seed=4),
        Writing(15, Sampling(temperature=0.5, min_p=0.02), seed=4, stop=("e",)),
        Writing(6, Sampling(greedy=True, logit_bias={"t": 4})),
    ]
    ended: list[int] = []
    read = to_continue(decoder, TOKENISER, PROMPTS, 15)
    rows = write(decoder, TOKENISER, read, how, on_row=lambda i, row: ended.append(i))
    for prompt, one, row in zip(read, how, rows, strict=True):
        (alone,) = write(decoder, TOKENISER, [prompt], [one])
        assert (row.text, row.written, row.why) == (alone.text, alone.written, alone.why)
    assert sorted(ended) == [0, 1, 2]
    assert len(rows[ended[0]].written) <= len(rows[ended[1]].written) <= len(rows[ended[2]].written)


def test_one_number_names_a_text(decoder: JaxDecoder) -> None:
    together = continue_text(decoder, TOKENISER, ["the cat"] * 3, length=12, sampling=WARM, seed=5)
    for i, text in enumerate(together):
        assert continue_text(decoder, TOKENISER, ["the cat"], length=12, sampling=WARM, seed=5 + i) == [text]


@pytest.mark.parametrize(
    ("text", "settings", "why"),
    [("one", {}, "end"), ("one two", {"length": 3}, "length"), ("one. two", {"stop": (".",)}, "stop")],
)
def test_why_a_text_ended(text: str, settings: dict[str, Any], why: str) -> None:
    decoder = scripted(text)
    read = to_continue(decoder, TOKENISER, ["x"], 40)
    (row,) = write(decoder, TOKENISER, read, [Writing(**{"length": 40, "sampling": GREEDY} | settings)])
    assert (row.text, row.why) == ("one", why)


@pytest.mark.parametrize(
    "bias", [{"b": -math.inf}, {"b": "-inf"}, {TOKENISER.encode("b")[0]: -99}, {'"b"': -99.0}, {"5": 0, "b": -99}]
)
def test_a_bias_by_id_or_by_text(bias: dict[Any, float]) -> None:
    texts = written(scripted("abc"), ["x"], sampling=Sampling(greedy=True, logit_bias=bias), length=3)
    assert texts[0][0] == "a"
    assert texts[0][1] != "b"


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        ({"the": -5}, r"'the' is no token of the model, .* made of \d+ = 't', \d+ = 'h', \d+ = 'e'$"),
        ({"": 1}, "it is made of nothing"),
        ({"ß": 1}, "'ß' is no token"),
        ({"34": 1}, "token 34 came, the tokeniser has 34, from 0 on"),
        ({-1: 1}, "token -1 came"),
        ({"9" * 5000: 1}, "'999.* is no token of the model"),
        ({'"a': 1}, "expected a text in quotes"),
        ({"a": "much"}, "'much' came for 'a', expected a number, such as -5, or -inf"),
        ({"a": math.nan}, "nan came for 'a'"),
        ({"a": math.inf}, "inf came for 'a'"),
        ({"a": True}, "True came for 'a'"),
        (dict.fromkeys(range(34), -math.inf), "all 34 tokens are forbidden"),
    ],
)
def test_a_bias_that_cannot_be(bias: dict[Any, Any], message: str) -> None:
    decoder = scripted("a")
    with pytest.raises(SettingError, match=message):
        written(decoder, ["a"], sampling=Sampling(logit_bias=bias))
    assert decoder.steps == -1


def test_a_bias_on_the_command_line() -> None:
    assert [split(text) for text in ("17=-5", " the=-inf", "==2")] == [("17", -5), (" the", -math.inf), ("=", 2)]
    for text in ("17", "=3", "a=b", ""):
        with pytest.raises(SettingError, match="expected TOKEN=BIAS"):
            split(text)
