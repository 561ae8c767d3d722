"""The picture of a report in README and docs: `python scripts/report_picture.py` (needs Chromium and websockets)."""

import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lens.browser import browser  # noqa: E402

HIGHEST = 1000  # pixels: the strongest factors

if __name__ == "__main__":
    report = ROOT / "studies" / "attention-accuracy" / "report.html"
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.size(1280, 900)
        tab.scheme("light")
        tab.open(report.as_uri())
        tab.settle()
        x, y, width, height = tab.run(
            "(() => { const b = document.querySelector('figure').getBoundingClientRect(); "
            "return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()"
        )
        clip = {"x": x, "y": y, "width": width, "height": min(height, HIGHEST), "scale": 1}
        shot = tab.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        (ROOT / "docs" / "pictures" / "investigate.png").write_bytes(base64.b64decode(shot["data"]))
