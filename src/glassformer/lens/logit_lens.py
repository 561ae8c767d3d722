"""Logit lens: what the model would answer if it ended after each block.

pre-norm      logits_l = head(pool(norm(resid_post_l)))      pool: mean or class token, of a ViT; none in GPT and T5
post-norm     logits_l = head(y_l)                           y_l: what block l of a BERT puts out, its norm done

The norm and the head are those behind the last block, so that the last answer is the model's own. Early ones are a
guess: no block was trained to be read like this. nostalgebraist, 2020.
"""

import numpy as np

from glassformer.lens.residual_stream import params_of, read_out, stream_of
from glassformer.lens.trace import Trace
from glassformer.probabilities import softmax
from glassformer.tables import html_table, text_table

SHOWN = 4  # of the likeliest


class LogitLens(dict[str, np.ndarray]):
    """Logits by the name of what was read; prints the likeliest, of the first sample at its last place."""

    def rows(self) -> list[list[str]]:
        found = []
        for name, logits in self.items():
            p = softmax(np.asarray(logits, np.float64)[0].reshape(-1, logits.shape[-1])[-1])
            best = np.argsort(-p, kind="stable")[:SHOWN]
            found.append([name, *(f"{i} ({100 * p[i]:.1f} %)" for i in best)])
        return found

    def head(self) -> list[str]:
        return ["read from", "likeliest", *(f"{i + 2}." for i in range(len(self.rows()[0]) - 2))]

    def __str__(self) -> str:
        return "\n".join(text_table(self.head(), self.rows(), left=1))

    def _repr_html_(self) -> str:
        return html_table(self.head(), self.rows(), left=1)


def logit_lens(trace: Trace, *, start: bool = False) -> LogitLens:
    """The logits after each block, by the name of what was read: `blocks.0.resid_post`.

    They have the shape of the model's answer: (B, K) of a ViT, (B, T, V) of GPT, T5 and a masked BERT. With `start`
    the stream before the first block is read as well. What was dropped out in the trace stays so; the head drops none.

    >>> from glassformer.lens.trace import trace
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> seen = trace(run.model, run.params, run.load_data().test.images[:1])
    >>> {name: int(logits.argmax()) for name, logits in logit_lens(seen, start=True).items()}
    {'blocks.0.resid_pre': 7, 'blocks.0.resid_post': 7}
    """
    stream, params = stream_of(trace.model), params_of(trace)
    names = [*(stream.starts()[:1] if start else []), *stream.ends()]
    return LogitLens({name: np.asarray(read_out(trace.model, params, trace.values[name])) for name in names})
