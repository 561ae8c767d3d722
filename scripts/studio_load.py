"""The studio under load, by hand: `python scripts/studio_load.py [--idle 2000] [--looks 500] [--minutes 10]`.

It starts a studio on an empty folder (the model that comes along answers) and prints counts, how long a new visitor's
first page takes, and megabytes. tests/lens/test_studio_faults.py does the same in small.
"""

import argparse
import base64
import json
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-c", "from glassformer.cli import main; main()"]
SHIPPED = "-"
KINDS = {"list": 3, "sample": 3, "look": 10, "view": 1, "watch": 1, "bomb": 0.3, "drop": 3}  # how often, of 21
LONGEST = 90.0  # seconds that an answer may take before it counts as a hang


class Served(NamedTuple):
    process: "subprocess.Popen[str]"
    port: int
    token: str

    def head(self, method: str, path: str, length: int = 0) -> bytes:
        lines = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        return f"{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode()

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LONGEST)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and all the rest; 0 where the connection was cut, -1 where no answer came in time."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with self.open() as connection:
                connection.sendall(self.head(method, path, len(content)) + content)
                with connection.makefile("rb") as file:
                    line = file.readline().split()
                    return (int(line[1]) if len(line) > 1 else 0), file.read()
        except TimeoutError:
            return -1, b""
        except OSError:
            return 0, b""

    def first_page(self) -> float:
        """Seconds until a new visitor has the page and the list of runs."""
        begun = time.monotonic()
        for path in ("/", "/api/runs"):
            status, _ = self.ask("GET", path)
            if status != 200:
                raise SystemExit(f"a new visitor was answered {status} on {path}")
        return time.monotonic() - begun

    def memory(self) -> float:
        """Megabytes that are resident, of the server and the processes that work for it."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = [self.process.pid, *(int(child) for one in children for child in one.read_text().split())]
        return sum(resident(process) for process in found)


def resident(process: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def served(runs: Path) -> Iterator[Served]:
    process = subprocess.Popen(
        [*COMMAND, "studio", str(runs), "--no-browser", "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Served(process, told["port"], told["address"].rpartition("=")[2])
    finally:
        process.terminate()
        process.wait(timeout=10)


def idle_connections(studio: Served, idle: int, half_open: int) -> dict[str, Any]:
    """First pages of new visitors while others hold connections and say nothing, or half a head."""
    times = []
    with ExitStack() as stack:
        for i in range(idle + half_open):
            connection = stack.enter_context(studio.open())
            if i >= idle:
                with suppress(OSError):
                    connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127")
        for _ in range(5):
            times.append(studio.first_page())
    return {"idle": idle, "half open": half_open, "first page, s, at most": round(max(times), 3)}


def many_looks(studio: Served, count: int) -> dict[str, Any]:
    """Looks that are all asked for at once."""
    statuses: Counter[str] = Counter()
    waits: list[float] = []

    def look(i: int) -> None:
        begun = time.monotonic()
        status, said = studio.ask("POST", "/api/preview", {"runs": [SHIPPED], "input": {"sample": i}})
        waits.append(time.monotonic() - begun)
        told = status == 503 and b'{"error"' in said and b"retry-after" in said.lower()
        statuses["answered" if status == 200 else "told to wait" if told else f"status {status}"] += 1

    in_threads([lambda i=i: look(i) for i in range(count)])
    return {"looks": count, **statuses, "longest, s": round(max(waits), 2)}


def mixed_load(studio: Served, minutes: float, clients: int = 8) -> dict[str, Any]:
    """Lists, samples, previews of images, whole views, streams, hostile bodies and connections that are dropped."""
    end, statuses = time.monotonic() + 60 * minutes, Counter[str]()
    bomb = b'{"input":[' + b"[]," * 2_500_000 + b"[]]}"
    pages: list[float] = []

    def client(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < end:
            image = base64.b64encode(rng.randbytes(784)).decode()
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
            if kind == "list":
                status = studio.ask("GET", "/api/runs")[0]
            elif kind == "sample":
                status = studio.ask("GET", f"/api/sample?run={SHIPPED}&index={rng.randrange(2000)}")[0]
            elif kind == "look":
                status = studio.ask("POST", "/api/preview", {"runs": [SHIPPED], "input": {"image": image}})[0]
            elif kind == "view":
                status = studio.ask("POST", "/api/view", {"run": SHIPPED, "input": {"image": image}})[0]
            elif kind == "watch":
                status = studio.ask("GET", f"/api/watch?run={SHIPPED}")[0]
            elif kind == "bomb":
                status = studio.ask("POST", "/api/preview", bomb)[0]
            else:
                with suppress(OSError), studio.open() as connection:
                    connection.sendall(studio.head("POST", "/api/view", 1000) + b"{")
                continue
            statuses[f"{kind} {status}"] += 1

    def visitor() -> None:
        while time.monotonic() < end:
            pages.append(studio.first_page())
            time.sleep(1)

    in_threads([visitor, *(lambda seed=seed: client(seed) for seed in range(clients))])
    return {"minutes": minutes, **dict(sorted(statuses.items())), "first page, s, at most": round(max(pages), 3)}


def in_threads(works: list[Any]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--half-open", type=int, default=100)
    parser.add_argument("--looks", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * (given.idle + given.half_open) + 100), hard))
    with tempfile.TemporaryDirectory() as runs, served(Path(runs)) as studio:
        studio.first_page()
        for warm in ("preview", "view"):
            body = {"input": {"image": base64.b64encode(bytes(784)).decode()}}
            studio.ask("POST", f"/api/{warm}", body | ({"runs": [SHIPPED]} if warm == "preview" else {"run": SHIPPED}))
        start = studio.memory()
        print(json.dumps({"first page, s": round(studio.first_page(), 3), "MB": round(start)}))
        print(json.dumps(idle_connections(studio, given.idle, given.half_open) | {"MB": round(studio.memory())}))
        print(json.dumps(many_looks(studio, given.looks) | {"MB": round(studio.memory())}), flush=True)
        before = studio.memory()
        print(json.dumps(mixed_load(studio, given.minutes)))
        time.sleep(1)
        now = studio.memory()
        print(
            json.dumps(
                {
                    "MB": round(now),
                    "more than at the start": round(now - start),
                    "by the mixed load": round(now - before),
                }
            )
        )
        begun = time.monotonic()
        studio.process.terminate()
        studio.process.wait(timeout=10)
        print(json.dumps({"ended within, s": round(time.monotonic() - begun, 2)}))


if __name__ == "__main__":
    main()
