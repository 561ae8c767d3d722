"""A real browser, driven from tests through its DevTools protocol: open a file, point, press keys, look, read.

Needs a Chromium or Chrome on the path and the package `websockets`; without them the tests that use it are skipped.
"""

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONGEST = 90.0  # seconds to wait for anything
QUIET = [
    "--headless=new",
    "--no-sandbox",  # tests may run as root, which the sandbox refuses
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-color-profile=srgb",
]


def missing() -> str:
    """Why no browser can be driven here; nothing where one can."""
    if not any(map(shutil.which, PROGRAMS)):
        return "no Chromium or Chrome is installed (Debian: apt-get install chromium)"
    try:
        import websockets  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return "the package websockets is not installed (pip install websockets)"
    return ""


class Tab:
    """One page. What it logs, what it asks the network for and what fails is kept."""

    def __init__(self, connection: Any, session: str, target: str) -> None:
        self.connection, self.session, self.target = connection, session, target
        self.numbers = itertools.count(1)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.loaded = False

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": params, "sessionId": self.session}))
        while True:
            message = json.loads(self.connection.recv(timeout=LONGEST))
            if message.get("id") == number and message.get("sessionId") == self.session:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message: dict[str, Any]) -> None:
        if message.get("sessionId") != self.session:
            return
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str([one.get("value") for one in params["args"]]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message.get("method") == "Page.loadEventFired":
            self.loaded = True

    def open(self, address: str) -> None:
        self.loaded = False
        self.send("Page.navigate", url=address)
        self.wait(lambda: self.loaded, "the page to load")

    def wait(self, condition: Any, what: str) -> None:
        """Until a Python condition holds, or a JavaScript expression is true."""
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            if self.run(condition) if isinstance(condition, str) else condition():
                return
            self.send("Runtime.evaluate", expression="1")
            time.sleep(0.02)
        raise TimeoutError(f"waited {LONGEST:.0f} s for {what}; the page says: {self.problems}")

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", script))
        return result["result"].get("value")

    def settle(self) -> None:
        """Two frames later everything that was asked for is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def size(self, width: int, height: int, *, sharpness: float = 1, mobile: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": sharpness, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        self.settle()

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.settle()

    def mouse(self, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        self.mouse(x, y)
        self.settle()  # what is drawn anew as the pointer leaves elsewhere must not go away between press and release
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(x, y, kind, button="left", clickCount=1)
        self.settle()

    def click_on(self, selector: str) -> None:
        self.click(*self.still(selector))

    def still(self, selector: str) -> tuple[float, float]:
        """Its middle, once it stands still: pictures above it get their heights as they come into sight."""
        end = time.monotonic() + LONGEST
        before, now = None, self.middle(selector)
        while before != now and time.monotonic() < end:
            self.settle()
            before, now = now, self.middle(selector)
        return now

    def middle(self, selector: str) -> tuple[float, float]:
        found = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; "
            "e.scrollIntoView({block: 'center', inline: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        if found is None:
            raise LookupError(f"the page has no {selector}")
        return tuple(found)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Where an element stands: x, y, width, height."""
        return tuple(
            self.run(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
                "return [b.x, b.y, b.width, b.height]; })()"
            )
        )

    def key(self, key: str, *, text: str = "") -> None:
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text or (key if len(key) == 1 else ""))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def type(self, words: str) -> None:
        self.send("Input.insertText", text=words)
        self.settle()

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def busy(self) -> float:
        """Seconds the page has computed so far, of its own thread: other programs on the machine do not count."""
        metrics = {one["name"]: one["value"] for one in self.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    def downloads_to(self, folder: Path) -> None:
        """Files that are saved from now on lie there."""
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def picture(self, path: Path, *, whole: bool = False) -> None:
        more = {}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png", **more)["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A fresh browser with one empty tab; its profile lies in `folder` and is gone with it."""
    from websockets.sync.client import connect  # pyright: ignore[reportMissingImports]

    program = next(filter(None, map(shutil.which, PROGRAMS)))
    process = subprocess.Popen(
        [program, *QUIET, f"--user-data-dir={folder / 'profile'}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port, path = address_of(process, folder / "profile" / "DevToolsActivePort")
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None) as connection:
            root = Tab(connection, "", "")
            connection.send(json.dumps({"id": 0, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            target = answer(connection, 0)["targetId"]
            attach = {"targetId": target, "flatten": True}
            connection.send(json.dumps({"id": 0, "method": "Target.attachToTarget", "params": attach}))
            root = Tab(connection, answer(connection, 0)["sessionId"], target)
            for domain in ("Page", "Runtime", "Log", "Network"):
                root.send(f"{domain}.enable")
            root.send("Performance.enable", timeDomain="threadTicks")
            root.size(1440, 900)
            yield root
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answer(connection: Any, number: int) -> dict[str, Any]:
    while True:
        message = json.loads(connection.recv(timeout=LONGEST))
        if message.get("id") == number:
            return message["result"]


def address_of(process: subprocess.Popen[bytes], file: Path) -> tuple[str, str]:
    """The browser writes where it listens as soon as it does."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the browser ended with {process.returncode} before it listened")
        lines = file.read_text().split() if file.exists() else []
        if len(lines) == 2:
            return lines[0], lines[1]
        time.sleep(0.05)
    raise TimeoutError("the browser did not say where it listens")
