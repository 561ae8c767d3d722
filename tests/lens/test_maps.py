"""Attention in a notebook: the pictures are of the numbers."""

import base64
import io
import re

import numpy as np
from PIL import Image

from glassformer import lens
from glassformer.lens.maps import SHARPEST, coarser
from glassformer.predict.run import load

EVIL = "<img onerror=1>"


def pictures(html: str) -> list[np.ndarray]:
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


def test_every_head_is_drawn_and_the_brightest_cell_is_the_largest() -> None:
    rng = np.random.default_rng(0)
    maps = lens.AttentionMaps(a=rng.dirichlet(np.ones(5), (2, 3, 4)), **{EVIL: rng.dirichlet(np.ones(6), (2, 1, 6))})
    html = maps._repr_html_()
    drawn = pictures(html)
    assert [one.shape for one in drawn] == [(4, 5, 3)] * 3 + [(6, 6, 3)]
    for picture, pattern in zip(drawn, [*maps["a"][0], *maps[EVIL][0]], strict=True):
        brightness = picture @ np.array([0.2126, 0.7152, 0.0722])
        assert brightness.argmax() == pattern.argmax()
        assert brightness.flat[pattern.argmin()] == brightness.min() < brightness.max() / 2
        assert f"{pattern.max():.2f}" in html
    assert EVIL not in html
    assert html.count("<figcaption") == 4


def test_a_long_text_is_drawn_coarsely_and_loses_no_peak() -> None:
    pattern = np.zeros((2 * SHARPEST + 1, 7))
    pattern[301, 3] = 1
    small = coarser(pattern, 0)
    assert small.shape == (107, 7)
    assert np.array_equal(np.argwhere(small), [[301 // 3, 3]])
    assert pictures(lens.AttentionMaps(x=pattern[None, None])._repr_html_())[0].shape == (107, 7, 3)


def test_a_pattern_of_nothing_is_dark() -> None:
    (picture,) = pictures(lens.AttentionMaps(x=np.zeros((1, 1, 3, 3)))._repr_html_())
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 1


def test_maps_of_a_run_are_shown() -> None:
    run = load()
    image = run.load_data().test.images[:1]
    maps = lens.attention_maps(run.model, run.params, image)
    assert "blocks.0.attn.pattern" in maps._repr_html_()
    assert isinstance(lens.gradient_attention(lens.trace(run.model, run.params, image, labels=[7])), lens.AttentionMaps)
