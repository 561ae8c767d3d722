"""A device's numbers on the page: the table, and the cell that is pointed at. In a real browser."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.lens.device import DeviceNumbers
from glassformer.lens.page import page
from glassformer.lens.payload import traced_on, view
from glassformer.lens.trace_input import image_input
from glassformer.predict.run import load

from .browser import browser, missing


@pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
def test_the_device_stands_beside_the_host(tmp_path: Path) -> None:
    run = load()
    given = image_input(run, "test:18", run.load_data().test.images[18], 3)
    traced = traced_on(run, given)
    pattern = traced["blocks.0.attn.pattern"][0, 0]
    rows = {(0, query): pattern[query].copy() for query in range(48)}  # of the last one the device knows nothing
    rows[0, 5][7] += 0.25
    gradient = traced["head.dw"] + np.float32(1e-3)
    logits = np.asarray(traced.logits)[0]
    numbers = DeviceNumbers(
        "pico", "./desk", logits, {"blocks.0.attn.pattern": rows}, traced.loss, {"head.w": gradient}, ""
    )
    path = tmp_path / "page.html"
    path.write_text(page(view(run, given, device=numbers)))
    with browser(tmp_path) as tab:
        tab.open(path.as_uri())
        assert "device differs by at most 0.25" in tab.text(".facts")
        tab.key("d")
        cells = [
            tab.run(f"[...document.querySelectorAll('tr[data-value=\"{name}\"] > *')].map((one) => one.textContent)")
            for name in ("head.y", "blocks.0.attn.pattern", "loss", "head.dw")
        ]
        host, device = (f"{x:.7g}" for x in (pattern[5, 7], pattern[5, 7] + 0.25))
        assert [row[:4] for row in cells] == [
            ["head.y", "logits", "10", "0"],
            ["blocks.0.attn.pattern", "attention weights", "2,352 of 2,401", "0.25"],
            ["loss", "loss", "1", "0"],
            ["head.dw", "gradient", "160", "0.0010"],
        ]
        assert cells[1][5] == "head 0 · query 5 “0,5” · key 7 “1,0”"
        assert [float(text) for text in cells[1][6:]] == pytest.approx([float(device), float(host)], rel=1e-6)
        tab.click_on('.device-table tr[data-value="blocks.0.attn.pattern"] button')
        tab.wait("Boolean(document.querySelector('.cell-device'))", "the cell that differs most")
        shown = "Number(document.querySelector('.cell-{}').dataset.value)"
        assert tab.run(shown.format("value")) == pytest.approx(pattern[5, 7], abs=1e-7)
        assert tab.run(shown.format("device")) == pytest.approx(pattern[5, 7] + 0.25, abs=1e-7)
        assert tab.run(shown.format("apart")) == pytest.approx(0.25, abs=1e-7)
        tab.run("window.glassformer.state.set({ cell: 'blocks.0.attn.pattern@48,0' })")
        tab.settle()
        assert tab.text(".cell-name") == "blocks.0.attn.pattern"
        assert tab.text(".cell-device") == ""  # that row never came
        assert tab.problems == []
