"""The logit lens says what norm, pool and head make of the stream after each block, as by hand."""

from dataclasses import replace

import numpy as np
import pytest

from glassformer.errors import UnknownNameError
from glassformer.lens.logit_lens import logit_lens
from glassformer.lens.trace import trace
from glassformer.models import MLP, PatchAttention

from .small_models import BERT_SMALL, CASES, small, traced


@pytest.mark.parametrize(("kind", "padded"), CASES)
def test_every_block_is_read_as_by_hand(kind: str, padded: bool) -> None:
    one = small(kind, padded)
    seen = one.by_hand()
    found = logit_lens(traced(kind, padded))
    assert list(found) == list(seen.stream)
    for name, resid in seen.stream.items():
        np.testing.assert_allclose(found[name], one.answer(resid), atol=2e-4)
    last = next(reversed(found.values()))
    np.testing.assert_allclose(last, seen.logits, atol=2e-4)
    assert np.abs(last - next(iter(found.values()))).max() > 0.1, "the blocks change the answer"


@pytest.mark.parametrize("kind", ["vit", "vit-class", "gpt", "t5"])
def test_the_start_of_the_stream_is_what_was_embedded(kind: str) -> None:
    one = small(kind)
    written = one.by_hand().written
    begins = ("class_token.token", "patch.y", "embed.y", "embed_target.y", "positions.pos")
    start = sum(written[name] for name in begins if name in written)
    found = logit_lens(traced(kind), start=True)
    name, logits = next(iter(found.items()))
    assert name.endswith("blocks.0.resid_pre")
    np.testing.assert_allclose(logits, one.answer(np.asarray(start)), atol=2e-4)


def test_what_has_no_stream_or_no_head_is_refused() -> None:
    seen = traced("vit")
    for model in (MLP(), PatchAttention()):
        with pytest.raises(UnknownNameError, match=r"has no residual stream: .* vit, gpt, llama, bert and t5"):
            logit_lens(replace(seen, model=model))
    headless = trace(BERT_SMALL, small("bert-class").params.bert, np.zeros((1, 4), np.int32))
    with pytest.raises(UnknownNameError, match="BERT has no head to read its stream with; BERTFor gives it one"):
        logit_lens(headless)


def test_a_filtered_trace_is_refused() -> None:
    seen = traced("gpt")
    with pytest.raises(UnknownNameError, match=r"no parameter 'embed\.emb'; take it from the whole trace"):
        logit_lens(seen.match("*.resid_post"))
