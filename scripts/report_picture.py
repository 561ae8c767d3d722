"""The pictures of reports in README and docs: `python scripts/report_picture.py` (needs Chromium and websockets)."""

import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lens.browser import browser  # noqa: E402

HIGHEST = 1000  # pixels: the strongest factors
PICTURES = {  # by study: the figures under which heading; nothing: the first one
    "attention-accuracy": ("investigate.png", ""),
    "class-token": ("class-token.png", "How much of it"),
}
FIGURES = """(heading => {
  const all = [...document.querySelectorAll('h2, figure')];
  const at = all.findIndex(one => one.tagName === 'H2' && one.textContent.startsWith(heading));
  const rest = heading ? all.slice(at + 1) : all.filter(one => one.tagName === 'FIGURE').slice(0, 1);
  const end = rest.findIndex(one => one.tagName === 'H2');
  const boxes = rest.slice(0, end < 0 ? rest.length : end).map(one => one.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map(b => b.left)), Math.min(...boxes.map(b => b.top))];
  const [right, bottom] = [Math.max(...boxes.map(b => b.right)), Math.max(...boxes.map(b => b.bottom))];
  return [left + scrollX, top + scrollY, right - left, bottom - top];
})"""

if __name__ == "__main__":
    for study in sys.argv[1:] or PICTURES:
        name, heading = PICTURES[study]
        with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
            tab.size(1280, 900)
            tab.scheme("light")
            tab.open((ROOT / "studies" / study / "report.html").as_uri())
            tab.settle()
            x, y, width, height = tab.run(f"{FIGURES}({heading!r})")
            clip = {"x": x, "y": y, "width": width, "height": min(height, HIGHEST), "scale": 1}
            shot = tab.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            (ROOT / "docs" / "pictures" / name).write_bytes(base64.b64decode(shot["data"]))
