"""The studio as a process of its own, over real sockets: uploads without end, hundreds of listeners, and its end."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from glassformer.files import locked

from .studio_runs import make_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]
COMMAND = [sys.executable, "-c", "from glassformer.cli import main; main()"]
CLIENTS = 200
EPOCHS = 8
MEGABYTE = 1 << 20


class Live(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    token: str

    def memory(self) -> float:
        """Resident, in megabytes, with the processes that work for it."""
        return sum(in_status(process, "VmRSS") for process in self.processes())

    def peak(self) -> float:
        return sum(in_status(process, "VmHWM") for process in self.processes())

    def processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [self.process.pid, *(int(child) for found in children for child in found.read_text().split())]

    def head(self, method: str, path: str, **more: str) -> bytes:
        headers = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}", **more}
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        with self.open() as connection:
            connection.sendall(self.head(method, path, Content_Length=str(len(content)), Connection="close") + content)
            status, text = read_answer(connection)
        return status, json.loads(text)


def in_status(process: int, name: str) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just been replaced
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body, of an answer whose length is said."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, file.read(length)


@contextmanager
def started(runs: Path, *options: str) -> Iterator[Live]:
    process = subprocess.Popen(
        [*COMMAND, "studio", str(runs), "--no-browser", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Live(process, told["port"], told["address"].rpartition("=")[2])
    finally:
        process.kill()
        process.communicate()


def ended(live: Live, number: signal.Signals = signal.SIGINT) -> str:
    """Ask it to end; what it wrote to stderr."""
    live.process.send_signal(number)
    _, written = live.process.communicate(timeout=30)
    assert live.process.returncode == 0, written
    return written


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    runs = tmp_path_factory.mktemp("live") / "runs"
    make_run(runs / "vit-run", "vit")
    with started(runs) as live:
        assert live.ask("POST", "/api/preview", {"runs": ["vit-run"], "input": {"sample": 0}})[0] == 200
        yield live


def uploaded(live: Live, megabytes: int, *, chunked: bool) -> tuple[int, bytes]:
    """The answer to a large body. It may come while the body is still on its way; the server may hang up then."""
    part = os.urandom(MEGABYTE)
    size = {"Transfer_Encoding": "chunked"} if chunked else {"Content_Length": str(megabytes * MEGABYTE)}
    with live.open() as connection:
        connection.sendall(live.head("POST", "/api/preview", **size))
        framed = f"{MEGABYTE:x}\r\n".encode() + part + b"\r\n" if chunked else part
        try:
            for _ in range(megabytes):
                connection.sendall(framed)
            if chunked:
                connection.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_answer(connection)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_uploads_of_100_megabytes_are_refused_and_leave_no_trace(
    live: Live, chunked: bool, record_property: Callable[[str, object], None]
) -> None:
    before = live.memory()
    for _ in range(5):
        status, body = uploaded(live, 100, chunked=chunked)
        assert status == 413
        assert "at most 8,388,608 are taken" in json.loads(body)["error"]
    record_property("megabytes before, after and at most", (before, live.memory(), live.peak()))
    print(f"resident: {before:.0f} MB before, {live.memory():.0f} after, {live.peak():.0f} at most")
    assert live.memory() - before < 40
    assert live.ask("GET", "/api/runs")[0] == 200


def test_many_uploads_at_once_are_bounded_together(live: Live) -> None:
    before = live.memory()
    statuses: list[int] = []

    def upload() -> None:
        with live.open() as connection:
            connection.sendall(live.head("POST", "/api/preview", Content_Length=str(8 * MEGABYTE)))
            try:
                for _ in range(8):
                    connection.sendall(bytes(MEGABYTE))
            except (BrokenPipeError, ConnectionResetError):
                pass
            statuses.append(read_answer(connection)[0])

    threads = [threading.Thread(target=upload) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 40
    assert set(statuses) == {400, 503}  # zeros are no JSON
    assert statuses.count(400) >= 4
    print(f"resident: {before:.0f} MB before, {live.memory():.0f} after, {live.peak():.0f} at most; {statuses}")
    assert live.memory() - before < 200
    assert live.ask("GET", "/api/runs")[0] == 200


def test_bytes_that_are_no_http_do_no_harm(live: Live) -> None:
    rng = random.Random(2)
    good = live.head("POST", "/api/view", Content_Length="2") + b"{}"
    for case in range(200):
        raw = bytearray(good if case % 2 else rng.randbytes(rng.randrange(1, 400)))
        for _ in range(case % 7):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        with live.open() as connection:
            connection.settimeout(2)
            try:
                connection.sendall(raw + b"\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(65536)
            except (TimeoutError, ConnectionResetError, BrokenPipeError):
                continue
        assert b"Traceback" not in answer
        assert not answer.startswith(b"HTTP/1.1 5")
    assert live.ask("GET", "/api/runs")[0] == 200


def test_headers_without_end_are_cut_off(live: Live) -> None:
    before = live.memory()
    with live.open() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_headers(connection, 100_000)
    assert live.memory() - before < 20


def send_headers(connection: socket.socket, count: int) -> None:
    for i in range(count):
        connection.sendall(f"x-{i}: {'a' * 1000}\r\n".encode())


class Heard:
    """What one client heard."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.looks: list[int] = []
        self.end = ""
        self.error = ""

    def listen(self, live: Live, run: str) -> None:
        try:
            with live.open() as connection, connection.makefile("rb") as file:
                connection.sendall(live.head("GET", f"/api/watch?run={run}"))
                assert b"200" in file.readline()
                name = ""
                while self.end == "" and (line := file.readline()):
                    if line.startswith(b"event: "):
                        name = line[7:].decode().strip()
                    elif line.startswith(b"data: "):
                        self.take(name, json.loads(line[6:]))
        except Exception as error:  # shown by the test
            self.error = repr(error)

    def take(self, name: str, plain: Any) -> None:
        if name == "progress":
            self.epochs = [row["epoch"] for row in plain["epochs"]]
        elif name == "epoch":
            self.epochs.append(plain["epoch"])
        elif name == "look":
            self.looks.append(plain["epoch"])
        elif name == "end":
            self.end = plain["state"]


def test_hundreds_watch_a_run_that_is_training(
    live: Live, tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    runs = Path(str(live.process.args[4]))  # pyright: ignore
    before = live.memory()
    train = subprocess.Popen(
        [*COMMAND, "train", "vit-pico", "--epochs", str(EPOCHS), "--out", str(runs / "young")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "young" not in [run["name"] for run in live.ask("GET", "/api/runs")[1]["runs"]]:
        assert train.poll() is None, train.communicate()
        time.sleep(0.05)
    assert live.ask("GET", "/api/runs")[1]["runs"][0]["state"] == "training"
    heard = [Heard() for _ in range(CLIENTS)]
    threads = [threading.Thread(target=one.listen, args=(live, "young")) for one in heard]
    for thread in threads:
        thread.start()
    most = before
    while any(thread.is_alive() for thread in threads):
        most = max(most, live.memory())
        time.sleep(0.2)
    _, written = train.communicate(timeout=60)
    assert train.returncode == 0, written
    assert {one.error for one in heard} == {""}
    assert {tuple(one.epochs) for one in heard} == {tuple(range(1, EPOCHS + 1))}
    assert {one.end for one in heard} == {"finished"}
    for one in heard:
        assert one.looks == sorted(set(one.looks))
        assert one.looks[-1] == EPOCHS
    record_property("megabytes before, at most and after", (before, most, live.memory()))
    print(
        f"resident: {before:.0f} MB before, {most:.0f} at most, {live.memory():.0f} after; {len(heard[0].looks)} looks"
    )
    assert most - before < 250
    late = Heard()
    late.listen(live, "young")
    assert late.looks == sorted({look for one in heard for look in one.looks})
    assert live.ask("POST", "/api/preview", {"runs": ["young", "vit-run"], "input": {"sample": 3}})[0] == 200


def test_clients_that_never_read_do_not_fill_the_memory(live: Live) -> None:
    before = live.memory()
    connections = []
    for _ in range(50):
        connection = live.open()
        connection.sendall(live.head("GET", "/api/watch?run=young"))
        connections.append(connection)
    time.sleep(2)
    assert live.memory() - before < 100
    for connection in connections:
        connection.close()
    assert live.ask("GET", "/api/runs")[0] == 200


def test_asked_for_more_than_it_can_do_it_says_busy(live: Live) -> None:
    statuses: list[int] = []
    body = {"run": "vit-run", "input": {"sample": 0}}
    threads = [
        threading.Thread(target=lambda: statuses.append(live.ask("POST", "/api/view", body)[0])) for _ in range(150)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 150
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 60
    assert live.ask("GET", "/api/runs")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_while_streams_are_open(tmp_path: Path, number: signal.Signals) -> None:
    runs = tmp_path / "runs"
    path = make_run(runs / "one", "vit")
    (path / "state.safetensors").write_bytes(b"")
    with locked(path), started(runs) as live:  # in training, it seems
        assert live.ask("GET", "/api/runs")[0] == 200  # a connection that says nothing for long is closed
        with live.open() as stream, live.open() as unfinished, live.open() as working:
            stream.sendall(live.head("GET", "/api/watch?run=one"))
            assert b"200 OK" in stream.recv(15)
            unfinished.sendall(live.head("POST", "/api/view", Content_Length="1000") + b"{")
            body = json.dumps({"run": "one", "input": {"sample": 0}}).encode()  # compiles, for a second or more
            working.sendall(live.head("POST", "/api/view", Content_Length=str(len(body))) + body)
            time.sleep(0.3)
            begun = time.monotonic()
            written = ended(live, number)
            print(f"ended within {time.monotonic() - begun:.1f} s")
            received = b""
            while part := stream.recv(65536):
                received += part
            status, why = read_answer(working)
        assert (status, json.loads(why)) == (503, {"error": "the studio is stopping; ask again in a moment"})
        assert b"event: progress" in received
        assert "Traceback" not in written
        assert live.token not in written


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_time_while_work_does_not(tmp_path: Path, number: signal.Signals) -> None:
    path = make_run(tmp_path / "runs" / "one", "vit")
    recipe = path / "recipe.toml"
    recipe.write_text(re.sub(r"depth = \d+", "depth = 2000000", recipe.read_text()))
    with started(tmp_path / "runs") as live, live.open() as working:
        body = json.dumps({"run": "one", "input": {"sample": 0}}).encode()
        assert live.ask("GET", "/api/runs")[0] == 200
        working.sendall(live.head("POST", "/api/view", Content_Length=str(len(body))) + body)
        time.sleep(2)
        processes, begun = live.processes(), time.monotonic()
        assert ended(live, number) == ""
        assert time.monotonic() - begun < 3
        assert [process for process in processes if in_status(process, "VmRSS")] == []  # nobody is left behind


def test_a_port_that_is_taken_is_an_error_in_words(tmp_path: Path) -> None:
    with started(tmp_path) as live:
        result = subprocess.run(
            [*COMMAND, "studio", str(tmp_path), "--no-browser", "--port", str(live.port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 1
        assert f"glassformer: studio: port {live.port} is taken; choose another with --port" in result.stderr
        assert "Traceback" not in result.stderr
        with started(tmp_path) as other:
            assert other.port != live.port
            assert ended(other) == ""
        assert ended(live) == ""


def test_other_machines_are_let_in_with_a_warning_alone(tmp_path: Path) -> None:
    with started(tmp_path, "--host", "0.0.0.0") as live:
        with live.open() as connection:
            connection.sendall(live.head("GET", "/api/runs"))
            assert read_answer(connection)[0] == 200
        with live.open() as connection:
            connection.sendall(live.head("GET", "/api/runs", Host=f"evil.example:{live.port}"))
            assert read_answer(connection)[0] == 421
        assert "anyone who has the address below can look at the runs and use this machine" in ended(live)
