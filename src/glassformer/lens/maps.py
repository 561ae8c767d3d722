"""Attention patterns by name, in the order of forward: a dict that a notebook shows as pictures."""

import base64
import io
from html import escape

import numpy as np

SHARPEST = 160  # cells along a side; of more, each pixel shows the largest it stands for
WIDTH = 148  # pixels on the page


class AttentionMaps(dict[str, np.ndarray]):
    """Patterns (B, H, T, S): rows look at columns. In a notebook, every head of the first sample."""

    def _repr_html_(self) -> str:
        rows = (
            f'<div style="margin:0 0 8px"><code>{escape(name)}</code>'
            f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(map(figure, range(len(heads[0])), heads[0]))}'
            "</div></div>"
            for name, heads in self.items()
        )
        return f"<div>{''.join(rows)}</div>"


def figure(head: int, pattern: np.ndarray) -> str:
    T, S = pattern.shape
    about = f"head {head}: {T} tokens look at {S}; the brightest cell is {pattern.max():.3g}"
    height = max(8, round(WIDTH * T / S))
    return (
        f'<figure style="margin:0"><img width="{WIDTH}" height="{height}" style="image-rendering:pixelated" '
        f'alt="{about}" title="{about}" src="data:image/png;base64,{base64.b64encode(png(pattern)).decode()}">'
        f'<figcaption style="font-size:12px">head {head} · most {pattern.max():.2f}</figcaption></figure>'
    )


def png(pattern: np.ndarray) -> bytes:
    """From dark, nothing, to bright, the largest there is."""
    from matplotlib import colormaps
    from PIL import Image

    small = coarser(coarser(pattern, 0), 1)
    most = small.max()
    colours = colormaps["viridis"](small / most if most > 0 else small, bytes=True)
    out = io.BytesIO()
    Image.fromarray(colours[..., :3]).save(out, "PNG")
    return out.getvalue()


def coarser(pattern: np.ndarray, axis: int) -> np.ndarray:
    """At most SHARPEST along this axis: the largest of every few."""
    every = -(-pattern.shape[axis] // SHARPEST)
    return np.maximum.reduceat(pattern, np.arange(0, pattern.shape[axis], every), axis=axis)
