"""The pictures of the page in README and docs: `python scripts/view_pictures.py` (needs Chromium and websockets)."""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lens.browser import browser  # noqa: E402

from glassformer.lens.page import page  # noqa: E402
from glassformer.lens.payload import view  # noqa: E402
from glassformer.lens.trace_input import image_input  # noqa: E402
from glassformer.predict.run import load  # noqa: E402

PICTURES = {
    "view-forward": ("light", "#step=blocks.0.attn&token=24&cell=blocks.0.attn.scores@24,11"),
    "view-backward": ("dark", "#step=blocks.0.attn&mode=backward&token=24&cell=blocks.0.attn.dscores@24,11"),
}

if __name__ == "__main__":
    run = load()
    images, labels = run.load_data().test
    trace_input = image_input(run, "test:18", images[18], int(labels[18]))
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        file = Path(folder) / "page.html"
        file.write_text(page(view(run, trace_input)))
        tab.size(1440, 900)
        for name, (theme, state) in PICTURES.items():
            tab.scheme(theme)
            tab.open("about:blank")
            tab.open(f"{file.as_uri()}{state}")
            tab.settle()
            tab.picture(ROOT / "docs" / "pictures" / f"{name}.png")
