"""What would take the studio down, or keep others out of it, costs its own row, request or connection alone."""

import asyncio
import importlib.util
import json
import os
import re
import socket
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from filelock import FileLock
from starlette.testclient import TestClient

from glassformer.lens.studio import connections, runs, token_file, work_queue
from glassformer.lens.studio.app import Studio
from glassformer.lens.studio.guard import Guard
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.lens.studio.requests import read_object
from glassformer.lens.studio.runs import Place, standing_of
from glassformer.lens.studio.serve import open_address
from glassformer.lens.studio.work_queue import WorkQueue
from glassformer.train.weights import save_arrays

from .studio_runs import make_run

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOKEN, HOST = "3wKq-xV8_pZt", "127.0.0.1:8765"
WORK = WorkQueue()  # one process for all tests
posix = pytest.mark.skipif(os.name != "posix", reason="pipes, links and modes of files")


@pytest.fixture(scope="module", autouse=True)
def working() -> Iterator[None]:
    yield
    WORK.stop()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("good") / "runs" / "good", "vit")


@contextmanager
def client_of(folder: Path) -> Iterator[TestClient]:
    guard = Guard(Studio(folder, WORK, WORK).app(), TOKEN, [HOST])
    with TestClient(guard, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client


def listed(client: TestClient) -> dict[str, dict[str, Any]]:
    """The rows, when all are read."""
    while True:
        rows = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
        if all(run["error"] != runs.STILL_READ["error"] for run in rows.values()):
            return rows


def copied(good: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    for file in good.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


# ---- run folders


def replaced(name: str, make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        make(run / name)

    return damage


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def with_depth(run: Path, depth: int = 2_000_000) -> None:
    recipe = run / "recipe.toml"
    recipe.write_text(re.sub(r"depth = \d+", f"depth = {depth}", recipe.read_text()))


DEEP = "[" * 3000 + "]" * 3000
DAMAGED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "deep recipe": (replaced("recipe.toml", lambda path: path.write_text(f"a = {DEEP}")), "TOML|recursion"),
    "deep metrics": (replaced("metrics.json", lambda path: path.write_text(DEEP)), "metrics.json.*(JSON|brackets)"),
    "deep weights": (
        replaced("model.safetensors", lambda path: save_arrays(path, {}, {"a": json.loads("[" * 500 + "]" * 500)})),
        "model.safetensors: more than 64 brackets",
    ),
    "endless key": (
        replaced("recipe.toml", lambda path: path.write_text("a." * 60_000 + "a = 1")),
        "a key of more than 64 parts",
    ),
    "pipe as log": (replaced("log.csv", os.mkfifo), "log.csv: is not a plain file"),
    "pipe as recipe": (replaced("recipe.toml", os.mkfifo), "recipe.toml: is not a plain file"),
    "pipe as weights": (replaced("model.safetensors", os.mkfifo), "model.safetensors: is not a plain file"),
    "device as log": (replaced("log.csv", lambda path: path.symlink_to("/dev/zero")), "log.csv: a link that leads out"),
    "foreign log": (replaced("log.csv", lambda path: path.symlink_to("/etc/passwd")), "log.csv: a link that leads out"),
    "link to itself": (replaced("log.csv", lambda path: path.symlink_to(path)), "log.csv: cannot be read"),
    "folder as log": (replaced("log.csv", Path.mkdir), "log.csv: is not a plain file"),
    "huge log": (replaced("log.csv", sparse), "log.csv: is larger than 16 MiB"),
    "huge weights": (replaced("model.safetensors", sparse), "model.safetensors: is larger than 8 GiB"),
    "many classes": (
        replaced("model.safetensors", lambda path: save_arrays(path, {}, {"classes": ["x"] * 100_000})),
        "at most 30,000 classes",
    ),
    "text for metrics": (replaced("metrics.json", lambda path: path.write_text("[1]")), "expected a JSON object"),
}


@posix
def test_a_damaged_or_hostile_run_costs_its_own_row(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WORK, "seconds", 2.0)
    copied(good, tmp_path / "good")
    for name, (damage, _) in DAMAGED.items():
        damage(copied(good, tmp_path / name))
    copied(good, tmp_path / "-")
    copied(good, tmp_path / os.fsdecode(b"odd\xff"))
    copied(good, tmp_path / "a\nb <b> 'é' 名")
    with client_of(tmp_path) as client:
        begun = time.monotonic()
        assert client.get("/api/runs").status_code == 200
        assert time.monotonic() - begun < runs.LIST_SECONDS + 5  # a run that is not read yet is not waited for
        rows = listed(client)
        assert {name: rows[name]["error"] for name in ("good", "-", "a\nb <b> 'é' 名")} == {
            "good": None,
            "-": None,  # the model that comes along
            "a\nb <b> 'é' 名": None,
        }
        for name, (_, message) in DAMAGED.items():
            assert rows[name]["state"] == "broken"
            assert re.search(message, rows[name]["error"]), (name, rows[name]["error"])
            assert "root:" not in rows[name]["error"]
        for name in ("./-", "./odd\\xff"):
            assert rows[name]["error"] == "its name cannot be sent; give the folder another"
            assert client.get("/api/sample", params={"run": name, "index": 0}).status_code == 404
        monkeypatch.setattr(WORK, "seconds", work_queue.WORK_SECONDS)
        ask = {"runs": ["device as log", "good"], "input": {"sample": 0}}
        refused, seen = client.post("/api/preview", json=ask).json()["views"]
        assert "log.csv" in refused["error"]
        assert "tensors" in seen
        assert client.get("/api/watch", params={"run": "pipe as weights"}).status_code == 400


@posix
def test_a_run_that_takes_too_long_is_not_tried_again_at_once(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of a thousand blocks."""
    with_depth(copied(good, tmp_path / "endless"), 1000)
    copied(good, tmp_path / "good")
    with client_of(tmp_path) as client:

        def previewed(name: str) -> dict[str, Any]:
            return client.post("/api/preview", json={"runs": [name], "input": {"sample": 0}}).json()["views"][0]

        with monkeypatch.context() as patch:
            patch.setattr(WORK, "seconds", 1.0)
            endless = previewed("endless")
        assert "was stopped" in endless["error"]
        assert "tensors" in previewed("good")
        process = asyncio.run(WORK.run(os.getpid))
        assert list(previewed("endless")) == ["error"]
        assert client.post("/api/view", json={"run": "endless", "input": {"sample": 0}}).status_code in (400, 504)
        assert asyncio.run(WORK.run(os.getpid)) == process  # nothing was stopped for it
        os.utime(tmp_path / "endless" / "recipe.toml", (1, 1))
        monkeypatch.setattr(WORK, "done", lambda *_: b'{"tried": "again"}')
        assert previewed("endless") == {"tried": "again"}


def test_what_runs_does_not_keep_it_from_ending() -> None:
    from .test_studio import busy_in_c

    async def scene() -> Any:
        queue = WorkQueue()
        stuck = asyncio.create_task(queue.run(busy_in_c))
        while queue.pipe is None or queue.process is None:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        begun = time.monotonic()
        await asyncio.to_thread(queue.stop)
        assert time.monotonic() - begun < queue.seconds / 2  # it did not wait for the work to be given up
        (found,) = await asyncio.gather(stuck, return_exceptions=True)
        with pytest.raises(HTTPError, match="the studio is stopping"):
            await queue.run(os.getpid)
        return found

    found = asyncio.run(scene())
    assert (found.status, found.why) == (503, "the studio is stopping; ask again in a moment")


def test_a_killed_run_is_known_at_once(tmp_path: Path, good: Path) -> None:
    path = copied(good, tmp_path / "one")
    (path / "state.safetensors").write_bytes(b"")
    place = Place(path, tmp_path)
    with FileLock(path / ".lock"):
        for file in path.iterdir():
            os.utime(file, (1e9, 1e9))
        assert standing_of(place).state == "training"  # an epoch may take hours
    assert (path / ".lock").exists()
    assert standing_of(place).state == "stopped"
    (path / ".lock").unlink()
    (tmp_path / "mine").write_text("what a link leads to is not touched")
    (path / ".lock").symlink_to(tmp_path / "mine")
    assert standing_of(place).state == "stopped"
    assert (tmp_path / "mine").read_text() == "what a link leads to is not touched"


# ---- requests


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":[' + b"[]," * 2_500_000 + b"[]]}",
        b'{"input":[' + b'"",' * 2_500_000 + b'""]}',
        b'{"input":{"text":' + b"[" * 7_700_000,
        b'{"input":"' + b'\\"' * 3_000_000 + b'":' + b"1," * 800_000,
        b'{"input":' + b"1," * 500 + b'"' + b'\\"' * 3_500_000 + b"\\",
    ],
    ids=["lists", "strings", "nested", "after a string", "unended"],
)
def test_a_body_that_would_become_a_hundred_times_as_large_is_not_parsed(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(HTTPError, match="not one of ours") as refused:
            read_object(body, "runs", "input")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.status == 400


def test_what_a_request_can_say_is_known() -> None:
    text = 'a "text", with [brackets], {braces} and \\ backslashes ' * 1000
    assert read_object(json.dumps({"input": {"text": text}}).encode(), "input") == {"input": {"text": text}}
    with pytest.raises(HTTPError, match="'more' came, expected run, input"):
        read_object(b'{"run": "a", "more": 1}', "run", "input")


# ---- connections


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """The studio behind real sockets, in a thread of this process."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    guard = Guard(Studio(folder, WORK, WORK).app(), TOKEN, [f"127.0.0.1:{port}"])
    config = uvicorn.Config(guard, http=connections.Connection, ws="none", log_config=None, timeout_keep_alive=15)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield "127.0.0.1", port
    finally:
        server.should_exit = True
        thread.join()


def ask(address: tuple[str, int], path: str = "/", connection: socket.socket | None = None) -> bytes:
    with connection or socket.create_connection(address, timeout=10) as opened:
        head = f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {TOKEN}\r\n"
        opened.sendall(f"{head}Connection: close\r\n\r\n".encode())
        with opened.makefile("rb") as file:
            return file.read()


def test_idle_and_half_open_connections_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 40)
    monkeypatch.setattr(connections, "MOST_OF_ONE", 30)
    with serving(tmp_path) as address:
        opened = [socket.create_connection(address, timeout=10) for _ in range(100)]
        for one in opened[::5]:
            one.sendall(b"GET / HT")
        assert ask(address).startswith(b"HTTP/1.1 200 OK")
        time.sleep(0.1)
        assert closed(opened) >= 70
        assert not is_closed(opened[-1])  # the oldest went first
        for one in opened:
            one.close()


def test_under_load_everybody_is_answered_or_told_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """scripts/studio_load.py in small."""
    spec = importlib.util.spec_from_file_location("studio_load", SCRIPTS / "studio_load.py")
    assert spec is not None
    assert spec.loader is not None
    load = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(load)
    monkeypatch.setattr(connections, "MOST_OF_ONE", 150)
    monkeypatch.setattr(WORK, "places", threading.Semaphore(20))
    with serving(tmp_path) as (_, port):
        studio = load.Served(None, port, TOKEN)
        load.idle_connections(studio, 200, 20)  # it fails where a new visitor is kept out
        looks = load.many_looks(studio, 60)
        assert looks["answered"] + looks["told to wait"] == 60
        assert looks["answered"] >= 20
        mixed = load.mixed_load(studio, 0.01)
        assert {name.split()[1] for name in mixed if name.split()[0] in load.KINDS} <= {"200", "400", "503"}


def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    with serving(tmp_path) as address:
        silent, dripping, kept = (socket.create_connection(address, timeout=10) for _ in range(3))
        head = f"GET / HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {TOKEN}\r\n"
        kept.sendall(f"{head}\r\n".encode())
        assert kept.recv(15).startswith(b"HTTP/1.1 200")
        for _ in range(10):  # a byte now and then does not help
            time.sleep(0.05)
            if not is_closed(dripping):
                dripping.send(b"G")
        assert is_closed(silent)
        assert is_closed(dripping)
        while kept.recv(1 << 20):
            pass
        for one in (silent, dripping, kept):
            one.close()


def test_where_all_connections_are_at_work_another_is_told_to_wait() -> None:
    clients = connections.Clients()

    class Fake:
        def __init__(self, address: str) -> None:
            self.address, self.is_open, self.transport = address, True, self

        def abort(self) -> None:
            self.is_open = False

    def opened(address: str, *, idle: bool) -> Any:
        one: Any = Fake(address)
        assert clients.has_room(address)
        clients.add(one)
        clients.set_idle(one, idle)
        return one

    crowd = [opened("1.1.1.1", idle=False) for _ in range(connections.MOST_OF_ONE)]
    assert not clients.has_room("1.1.1.1")
    others = [opened("2.2.2.2", idle=True) for _ in range(connections.MOST - connections.MOST_OF_ONE)]
    assert not clients.has_room("1.1.1.1")  # others do not make room for a crowd
    assert not clients.has_room("3.3.3.3")
    clients.set_idle(crowd[7], True)
    assert clients.has_room("3.3.3.3")  # the crowd makes room for others
    assert not crowd[7].is_open
    assert all(one.is_open for one in (*crowd[:7], *others))
    for one in (*crowd, *others):
        clients.remove(one)
    assert (clients.all, clients.idle) == ({}, {})
    assert connections.REFUSAL.endswith(b'{"error":"too many connections; ask again in a moment"}')


def closed(opened: list[socket.socket]) -> int:
    return sum(map(is_closed, opened))


def is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        one.setblocking(True)


# ---- addresses


@posix
def test_the_token_lasts_for_the_folder_and_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "runs"

    def opened(runs: Path = folder, host: str = "127.0.0.1") -> tuple[str, int]:
        address = open_address(host, 0, runs)
        address.listener.close()
        return address.token, address.port

    first = opened()
    file = token_file.file_of(folder)
    assert not file.is_relative_to(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert opened() == first
    assert opened(tmp_path / "other")[0] != first[0]
    assert opened(host="0.0.0.0")[0] != first[0]  # others can listen in
    assert opened() == first
    with socket.create_server(("127.0.0.1", first[1])):
        token, port = opened()  # whoever is there now was sent the token
    assert port != first[1]
    assert token != first[0]
    for damage in (lambda: file.chmod(0o644), lambda: file.write_text("[" * 900), lambda: file.write_text("[]")):
        before = opened()
        damage()
        assert opened()[0] != before[0]
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert token_file.read(file) is None
    monkeypatch.undo()
    monkeypatch.setenv("GLASSFORMER_CACHE", "/proc/nowhere")
    assert opened()[0] != opened()[0]
