"""Attention over tokens: names on the right axes, lines and pictures that can be read, whatever the symbols are."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from glassformer.errors import SettingError, ShapeError
from glassformer.lens.attention_kind import Kind
from glassformer.lens.token_maps import Labels, TokenMap, chosen, token_maps
from glassformer.lens.token_picture import Letters, Section, families_for, token_picture
from glassformer.lens.token_rows import cells, line_breaks, token_rows
from glassformer.models import GPT, T5

YELLOW, PURPLE, GREY, ORANGE = (253, 231, 37), (68, 1, 84), (238, 238, 242), (255, 106, 0)


def one_map(weights: Any, kind: Kind = "self", rows: Any = None, columns: Any = None, head: int = 0) -> TokenMap:
    weights = np.asarray(weights, float)
    T, S = weights.shape
    rows, columns = rows or [f"r{i}" for i in range(T)], columns or [f"c{i}" for i in range(S)]
    return TokenMap("blocks.0.attn.pattern", kind, 0, head, weights, tuple(rows), tuple(columns))


def near(png: bytes, colour: tuple[int, int, int]) -> np.ndarray:
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    return np.abs(pixels - colour).max(axis=-1) < 6


def test_rows_and_columns_are_named_by_kind() -> None:
    maps = {
        "encoder.blocks.0.attn.pattern": np.zeros((1, 1, 3, 3)),
        "decoder.blocks.1.attn.pattern": np.zeros((1, 1, 2, 2)),
        "decoder.blocks.1.cross.pattern": np.zeros((1, 1, 2, 3)),
    }
    found = token_maps(T5(), maps, Labels(["a", "b", "c"], ["<pad>", "x"], ["x", "<end>"]))
    assert [(one.kind, one.block, one.rows, one.columns) for one in found] == [
        ("self", 0, ("a", "b", "c"), ("a", "b", "c")),
        ("causal", 1, ("<pad>", "x"), ("<pad>", "x")),
        ("cross", 1, ("x", "<end>"), ("a", "b", "c")),
    ]
    (own,) = token_maps(GPT(), {"blocks.0.attn.pattern": np.zeros((1, 1, 2, 2))}, Labels(["a", "b"]))
    assert (own.kind, own.rows, own.title) == ("causal", ("a", "b"), "block 0 · head 0")
    with pytest.raises(ShapeError, match="attention of 2 over 2 tokens came with 3 and 3 names"):
        token_maps(GPT(), {"blocks.0.attn.pattern": np.zeros((1, 1, 2, 2))}, Labels(["a", "b", "c"]))


def test_a_token_that_is_not_there() -> None:
    with pytest.raises(SettingError, match="query: token 2 came, expected 0 to 1: r0 r1"):
        one_map(np.eye(2)).of(2)


def test_only_one_head_is_chosen() -> None:
    maps = [one_map(np.eye(2), head=0), one_map(np.eye(2), head=1)]
    assert chosen(maps, head=1) == maps[1:]
    with pytest.raises(SettingError, match="block: 3 came, and the model has 0"):
        chosen(maps, block=3)


def test_lines_are_as_high_as_the_attention() -> None:
    one = one_map([[0, 0.125, 0.25, 1.0]], columns=["the", " ", "日", "x"])
    heading, names, heat = token_rows([one], 0, 80)
    assert heading.startswith("self-attention")
    assert names == " " * 18 + "the␣日x"
    assert heat == "block 0 · head 0" + "  " + "   ▁▂▂█  most at 'x', 73 %"


def test_long_texts_go_on_below() -> None:
    """70 columns, less 18 for titles and 18 for notes, leave 34."""
    one = one_map(np.full((1, 60), 1 / 60), columns=list("abcdefghij" * 6))
    lines = token_rows([one], 0, 70)
    assert [line.strip() for line in lines if line.strip().isalpha()] == [
        "abcdefghij" * 3 + "abcd",
        "efghij" + "abcdefghij" * 2,
    ]
    assert max(map(len, lines[1:])) == 70


def test_cells_and_line_breaks() -> None:
    assert [cells(text) for text in ("ab", "日本", "e\u0301", "\u0301")] == [2, 4, 1, 0]
    assert list(line_breaks([4, 1, 1, 9, 1], 6)) == [(0, 3), (3, 4), (4, 5)]


def test_nothing_is_looked_at() -> None:
    assert token_rows([one_map(np.zeros((1, 3)))], 0, 80)[-1].endswith("nothing")


def test_the_bright_cell_is_where_the_attention_is() -> None:
    """Read off the pixels: row 1, column 3 of 2 x 5 is yellow, the other cells are not."""
    weights = np.zeros((2, 5))
    weights[1, 3] = 1
    png = token_picture([one_map(weights)])
    panel = near(png, PURPLE)
    rows, columns = np.flatnonzero(panel.sum(axis=1) > 80), np.flatnonzero(panel.sum(axis=0) > 40)
    left, right = columns[0], columns[-1]
    inside = near(png, YELLOW)[:, : right + 1]
    y, x = np.argwhere(inside).mean(axis=0)
    assert (x - left) / (right - left) == pytest.approx(3.5 / 5, abs=0.03)
    assert (y - rows[0]) / (rows[-1] - rows[0]) == pytest.approx(1.5 / 2, abs=0.05)
    assert inside.sum() == pytest.approx((right - left) / 5 * (rows[-1] - rows[0]) / 2, rel=0.2)


def test_what_may_not_be_seen_is_grey_and_the_asked_row_framed() -> None:
    weights = np.tril(np.full((4, 4), 0.25))
    causal, everywhere = (token_picture([one_map(weights, kind)]) for kind in ("causal", "self"))
    area = near(everywhere, PURPLE).sum() * 16 / 6  # of all cells: six of sixteen hold nothing
    assert near(causal, GREY).sum() == pytest.approx(area * 6 / 16, rel=0.15)
    assert near(everywhere, GREY).sum() < area / 20
    assert not near(causal, ORANGE).any()
    framed = near(token_picture([one_map(weights, "causal")], place="last"), ORANGE)
    y = np.argwhere(framed)[:, 0]
    grey = np.flatnonzero(near(causal, GREY).sum(axis=1) > 40)
    assert y.min() > grey.max() - 3, "the last row has nothing grey in it"


def test_gradients_are_drawn_beside_the_largest() -> None:
    small = np.full((3, 3), 1e-6)
    small[0, 0] = 1e-4
    png = token_picture([one_map(small)], scale="gradient x attention")
    assert near(png, YELLOW).sum() > 500, "small as it is, the largest is bright"


@pytest.mark.parametrize("tokens", [1, 9, 64, 300])
def test_any_number_of_tokens(tokens: int) -> None:
    section = Section("self", [one_map(np.eye(tokens), head=h) for h in range(12)], Letters([one_map(np.eye(tokens))]))
    assert 4.5 <= section.points <= 9
    assert section.points / 72 <= section.pitch * section.every, "labels do not run into each other"
    assert section.width < 60
    assert (section.every == 1) == (tokens < 64), "of 64 in each of twelve heads every second has a label"


@pytest.mark.parametrize("name", ["日", "$x$", "\n", "", "ש", "�", "a_very_long_symbol_that_goes_on"])
def test_any_symbol_is_drawn_without_a_warning(name: str) -> None:
    png = token_picture([one_map(np.eye(2), rows=[name, "b"], columns=[name, "b"])], title=f"what of {name!r}? $5 日")
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG"


def test_letters_no_font_has_are_boxes() -> None:
    letters = Letters([one_map(np.eye(1), columns=["\U000f0000a"])])
    assert letters.label("\U000f0000a") == "□a"
    families, known = families_for({"a"})
    assert families == ["DejaVu Sans Mono", "DejaVu Sans"]
    assert {"a", "␣", "↵", "…", "□"} <= known
