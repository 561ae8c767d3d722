"""The pictures of the page in README and docs: `python scripts/view_pictures.py RUNS` (needs Chromium and websockets).

The first screens are those of the pages in docs/gallery: six models in three widths, light and dark. RUNS is the folder
of their runs (`python scripts/gallery.py RUNS`): the studio is shown with its `vit`.
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lens.browser import Tab, browser  # noqa: E402
from tests.lens.test_studio_page import DIGITS, Studio, served  # noqa: E402

from glassformer.lens.page import page  # noqa: E402
from glassformer.lens.payload import view  # noqa: E402
from glassformer.lens.trace_input import image_input  # noqa: E402
from glassformer.predict.run import load  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
MODELS = ("vit", "gpt", "bert", "t5", "lstm", "own")
STEPS = {
    "view-forward": ("light", "#step=blocks.0.attn&token=24&cell=blocks.0.attn.scores@24,11"),
    "view-backward": ("dark", "#step=blocks.0.attn&mode=backward&token=24&cell=blocks.0.attn.dscores@24,11"),
}
SHEETS = {
    "first-wide": (1600, 900, 0.45, 2),
    "first-1024": (1024, 768, 0.5, 3),
    "first-phone": (390, 844, 0.6, 6),
}  # width, height, scale, pictures in a row


def taken(tab: Tab, address: str, folder: Path) -> Image.Image:
    tab.open("about:blank")
    tab.open(address)
    tab.settle()
    return photographed(tab, folder)


def photographed(tab: Tab, folder: Path) -> Image.Image:
    tab.settle()
    tab.picture(folder / "one.png")
    return Image.open(io.BytesIO((folder / "one.png").read_bytes())).convert("RGB")


def save(picture: Image.Image, name: str) -> None:
    """In 256 colours, a third of the bytes: the most frequent as they are, the others near."""
    colours, counts = np.unique(np.asarray(picture).reshape(-1, 3), axis=0, return_counts=True)
    frequent = colours[counts.argsort()[-64:]]
    near = picture.quantize(192, Image.Quantize.FASTOCTREE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*frequent.ravel().tolist(), *near[: 3 * 192]])
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)


def sheet(pictures: list[Image.Image], across: int) -> Image.Image:
    width, height = pictures[0].size
    whole = Image.new("RGB", (across * (width + 8) - 8, -(-len(pictures) // across) * (height + 8) - 8), "#888888")
    for i, one in enumerate(pictures):
        whole.paste(one, (i % across * (width + 8), i // across * (height + 8)))
    return whole


def first_screens(tab: Tab, folder: Path) -> None:
    pages = [(ROOT / "docs" / "gallery" / f"{name}.html").as_uri() for name in MODELS]
    tab.size(1600, 900)
    tab.scheme("light")
    for name, address in zip(MODELS, pages, strict=True):
        save(taken(tab, address, folder), f"first-{name}")
    for name, (width, height, scale, across) in SHEETS.items():
        tab.size(width, height, mobile=width < 500)
        size = round(width * scale), round(height * scale)
        for theme in ("light", "dark"):
            tab.scheme(theme)
            shots = [taken(tab, address, folder).resize(size, Image.Resampling.LANCZOS) for address in pages]
            save(sheet(shots, across), f"{name}-{theme}")


def studio(tab: Tab, folder: Path, runs: Path) -> Image.Image:
    """A three, drawn with the mouse."""
    tab.scheme("light")
    with served(runs) as (process, address):
        one = Studio(tab, address, runs, process)
        one.open(run="vit")
        one.draw(DIGITS["3"])
        one.wait_for_answer()
        tab.mouse(5, 5)
        return photographed(tab, folder)


if __name__ == "__main__":
    runs = Path(sys.argv[1])
    run = load()
    images, labels = run.load_data().test
    trace_input = image_input(run, "test:18", images[18], int(labels[18]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser(Path(folder)) as tab:
        file = Path(folder) / "page.html"
        file.write_text(page(view(run, trace_input)))
        tab.size(1440, 900)
        for name, (theme, state) in STEPS.items():
            tab.scheme(theme)
            save(taken(tab, f"{file.as_uri()}{state}", Path(folder)), name)
        save(studio(tab, Path(folder), runs), "studio")
        first_screens(tab, Path(folder))
