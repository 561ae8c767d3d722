"""Fetching over HTTP, from servers on this machine: mirrors, checksums, the cache, what is said and left on disk."""

import functools
import gzip
import hashlib
import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.data import cifar, download, load, mnist_family
from glassformer.errors import DataError, FileError

from .builders import MNIST, cifar_batches, idx_bytes, needs_mnist, small_parts, write_cifar_archive, write_idx_folder

Serve = Callable[..., str]
NOWHERE = "http://127.0.0.1:9/"  # port 9: nothing listens there
NEEDED = "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serves a folder and gives its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers = []

    def start(folder: Path, kind: type[Silent] = Silent) -> str:
        handler = functools.partial(kind, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def md5_of(file: Path) -> str:
    return f"md5:{hashlib.md5(file.read_bytes()).hexdigest()} of {file.stat().st_size} bytes"


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small MNIST and Fashion-MNIST as a mirror holds them, with their checksums."""
    parts = small_parts()
    folder = write_idx_folder(tmp_path / "published", parts, packed=True)
    files = {part: folder / f"{part}-idx{array.ndim}-ubyte.gz" for part, array in parts.items()}
    content = {part: f"sha256:{hashlib.sha256(idx_bytes(array)).hexdigest()}" for part, array in parts.items()}
    packed = {part: md5_of(file) for part, file in files.items()}
    monkeypatch.setattr(mnist_family, "CHECKSUMS", {"mnist": content, "fashion-mnist": packed})
    return folder


def mirrors(monkeypatch: pytest.MonkeyPatch, name: str, *addresses: str) -> None:
    monkeypatch.setitem(download.MIRRORS, name, addresses)


def files_in(folder: Path) -> list[str]:
    """Everything, hidden files too: a part that stays behind would show."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_fetched_once_and_then_read_from_the_cache(name, published, serve, monkeypatch, tmp_path, capfd) -> None:
    mirrors(monkeypatch, name, serve(published))
    data = load(name, cache=tmp_path / "cache")
    assert np.array_equal(data.train.images[..., 0], small_parts()["train-images"])
    assert data.classes == mnist_family.CLASSES[name]
    assert files_in(tmp_path / "cache") == files_in(published)
    mirrors(monkeypatch, name, NOWHERE)
    again = load(name, cache=tmp_path / "cache")
    assert np.array_equal(again.test.images, data.test.images)
    assert capfd.readouterr() == ("", ""), "no bar where there is no terminal, no word from the library"


def test_the_cache_folder_is_chosen_by_argument_then_variable_then_system(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "variable"))
    assert download.cache_folder(tmp_path / "argument") == tmp_path / "argument"
    assert download.cache_folder() == tmp_path / "variable"
    monkeypatch.delenv("GLASSFORMER_DATA")
    assert download.cache_folder().name == "glassformer"


def test_the_second_mirror_serves_when_the_first_is_down(published, serve, monkeypatch, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    mirrors(monkeypatch, "mnist", NOWHERE, serve(tmp_path / "empty"), serve(published))
    assert len(load("mnist", cache=tmp_path / "cache").train.labels) == 20


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_second_mirror_serves_when_the_first_is_corrupted(name, published, serve, monkeypatch, tmp_path) -> None:
    parts = small_parts()
    parts["train-images"][3, 2, 1] ^= 1
    corrupted = write_idx_folder(tmp_path / "corrupted", parts, packed=True)
    mirrors(monkeypatch, name, serve(corrupted), serve(published))
    data = load(name, cache=tmp_path / "cache")
    assert np.array_equal(data.train.images[..., 0], small_parts()["train-images"])


CORRUPTIONS = {
    "another pixel": (
        gzip.compress(idx_bytes(small_parts()["train-images"] ^ 1)),
        r"sha256 \w{64}, expected \w{64}: not the published mnist$",
    ),
    "cut short": (gzip.compress(idx_bytes(small_parts()["train-images"]))[:-20], "the gzip stream is damaged or cut"),
    "a web page": (b"<html>please log in</html>", r"magic number \d+, expected 2051"),
    "empty": (b"", "it ends inside the IDX header$"),
}


@pytest.mark.parametrize(("content", "message"), CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_corrupted_everywhere(content: bytes, message: str, published, serve, monkeypatch, tmp_path) -> None:
    (published / "train-images-idx3-ubyte.gz").write_bytes(content)
    address = serve(published)
    mirrors(monkeypatch, "mnist", address, address)
    with pytest.raises(DataError) as caught:
        load("mnist", cache=tmp_path / "cache")
    first, *failures, last, _ = str(caught.value).splitlines()
    assert first == "mnist: train-images-idx3-ubyte.gz could not be fetched:"
    assert len(failures) == 2
    for failure in failures:
        assert re.match(rf"  {address}train-images-idx3-ubyte\.gz: {message}", failure), failure
    assert last.endswith(f"into {tmp_path / 'cache/mnist'}")
    assert files_in(tmp_path / "cache") == []


def test_offline_the_message_names_the_folder_and_the_files(serve, monkeypatch, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    empty = serve(tmp_path / "empty")
    mirrors(monkeypatch, "mnist", NOWHERE, empty)
    with pytest.raises(DataError) as caught:
        load("mnist", cache=tmp_path / "cache")
    assert str(caught.value).splitlines() == [
        "mnist: train-images-idx3-ubyte.gz could not be fetched:",
        f"  {NOWHERE}train-images-idx3-ubyte.gz: no connection",
        f"  {empty}train-images-idx3-ubyte.gz: 404 File not found",
        f"Without a network, put {NEEDED} into {tmp_path / 'cache/mnist'}",
        "or use mnist-mini, which is bundled",
    ]


def test_a_server_that_falls_silent(monkeypatch, tmp_path) -> None:
    import socket

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mirrors(monkeypatch, "mnist", f"http://127.0.0.1:{listener.getsockname()[1]}/")
        with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: no answer in 0\.05 s"):
            load("mnist", cache=tmp_path / "cache")
    assert files_in(tmp_path / "cache") == []


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("dotted", [False, True], ids=["dash", "dot"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_files_put_into_the_folder_are_used_without_network(
    name, dotted, packed, published, monkeypatch, tmp_path
) -> None:
    mirrors(monkeypatch, name, NOWHERE)
    write_idx_folder(tmp_path / "cache" / name, small_parts(), dotted=dotted, packed=packed)
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "cache"))
    assert load(name).train.labels.tolist() == [*range(10), *range(10)]


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_a_wrong_file_in_the_folder_is_reported_and_left_alone(name, published, serve, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, name, serve(published))
    folder = write_idx_folder(
        tmp_path / "cache" / name, {"train-images": small_parts()["train-images"] ^ 1}, packed=True
    )
    mine = folder / "train-images-idx3-ubyte.gz"
    before = mine.read_bytes()
    sums = r"(sha256 \w+, expected \w+|md5 \w+ of \d+ bytes, expected \w+ of \d+ bytes)"
    message = rf"{mine}: {sums}: not the published {name}; delete it to fetch it, or give its"
    with pytest.raises(DataError, match=message):
        load(name, cache=tmp_path / "cache")
    assert mine.read_bytes() == before
    assert files_in(folder) == [mine.name]


def test_nothing_is_fetched_that_could_be_changed_on_its_way() -> None:
    """And every file of a data set by name is checked by what its makers publish."""
    assert all(mirror.startswith("https://") for mirrors in download.MIRRORS.values() for mirror in mirrors)
    sums = [one for parts in mnist_family.CHECKSUMS.values() for one in parts.values()]
    assert len(sums) == 8
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32} of \d+ bytes", one) for one in sums)


def test_a_mirror_without_an_end(published, serve, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(download, "MOST", 100)
    mirrors(monkeypatch, "mnist", serve(published))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: more than 0 MiB came; not the published file"):
        load("mnist", cache=tmp_path / "cache")
    assert files_in(tmp_path / "cache") == []


def test_no_home(monkeypatch) -> None:
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: Path("~/.cache") / name)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # a user that the system does not know
    with pytest.raises(DataError, match=r"there is no home folder \(HOME\) .*; name a folder in GLASSFORMER_DATA"):
        download.cache_folder()


def test_a_folder_that_cannot_be_written(published, serve, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, "mnist", serve(published))
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(
        FileError, match=r"cannot be written: .*; free some space, or name another folder in GLASSFORMER"
    ):
        load("mnist", cache=tmp_path / "cache")


def test_a_full_disk_leaves_nothing_behind(published, serve, monkeypatch, tmp_path) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    mirrors(monkeypatch, "mnist", serve(published))
    monkeypatch.setattr(download.os, "fsync", full)
    with pytest.raises(FileError, match=r"train-images-idx3-ubyte\.gz: cannot be written: No space left on device"):
        load("mnist", cache=tmp_path / "cache")
    assert files_in(tmp_path / "cache") == []


def test_an_interruption_leaves_nothing_behind(published, serve, monkeypatch, tmp_path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    mirrors(monkeypatch, "mnist", serve(published))
    monkeypatch.setattr(mnist_family, "read_checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load("mnist", cache=tmp_path / "cache")
    assert files_in(tmp_path / "cache") == []


def test_a_bar_on_a_terminal(published, serve, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(download.sys.stderr, "isatty", lambda: True)
    mirrors(monkeypatch, "mnist", serve(published))
    load("mnist", cache=tmp_path / "cache")
    assert "\rtrain-images-idx3-ubyte.gz: 0.0 of 0.0 MB\n" in capsys.readouterr().err


class Breaking(Silent):
    """Promises 200,000 bytes and hangs up after half of them."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "200000")
        self.end_headers()
        self.wfile.write(bytes(100_000))


def test_a_connection_that_breaks(published, serve, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(download.sys.stderr, "isatty", lambda: True)
    mirrors(monkeypatch, "mnist", serve(published, Breaking), serve(published))
    assert len(load("mnist", cache=tmp_path / "cache").train.labels) == 20
    assert files_in(tmp_path / "cache") == files_in(published)
    assert "\rtrain-images-idx3-ubyte.gz: 0.1 of 0.2 MB\n" in capsys.readouterr().err, "the line is ended"
    mirrors(monkeypatch, "mnist", serve(published, Breaking))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: the connection broke"):
        load("mnist", cache=tmp_path / "another")
    assert files_in(tmp_path / "another") == []


@needs_mnist
def test_the_real_checksums_hold(serve, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, "mnist", serve(MNIST))
    assert load("mnist", cache=tmp_path).train.images.shape == (60_000, 28, 28, 1)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write_cifar_archive(tmp_path / "published", cifar_batches())
    monkeypatch.setattr(cifar, "MD5", hashlib.md5(path.read_bytes()).hexdigest())
    return path


def test_cifar_is_fetched_and_its_planes_become_channels(archive, serve, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, "cifar-10", serve(archive.parent))
    data = load("cifar-10", cache=tmp_path / "cache")
    assert files_in(tmp_path / "cache") == [archive.name]
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    assert data.train.images.shape == (15, 32, 32, 3)
    assert data.test.images.shape == (3, 32, 32, 3)
    record = cifar_batches()["data_batch_2.bin"][1]
    assert data.train.labels[4] == record[0]
    for row, column, channel in ((0, 0, 0), (5, 7, 1), (31, 30, 2)):
        assert data.train.images[4, row, column, channel] == record[1 + channel * 1024 + row * 32 + column]


@pytest.mark.parametrize("place", ["", "cifar-10-batches-bin"], ids=["in the folder", "as unpacked"])
def test_cifar_from_unpacked_files(place: str, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, "cifar-10", NOWHERE)
    folder = tmp_path / "cifar-10" / place
    folder.mkdir(parents=True)
    for name, batch in cifar_batches().items():
        (folder / name).write_bytes(batch.tobytes())
    assert load("cifar-10", cache=tmp_path).train.images.shape == (15, 32, 32, 3)
    (folder / "test_batch.bin").write_bytes(bytes(3072))
    with pytest.raises(DataError, match=r"test_batch\.bin: 3,072 bytes, expected up to 10,000 records of 3,073 bytes"):
        load("cifar-10", cache=tmp_path)


def test_cifar_with_a_wrong_archive(archive, monkeypatch, tmp_path) -> None:
    mirrors(monkeypatch, "cifar-10", NOWHERE)
    with pytest.raises(DataError, match=r"put cifar-10-binary\.tar\.gz into .*cifar-10\n"):
        load("cifar-10", cache=tmp_path / "cache")
    mine = write_cifar_archive(tmp_path / "cache/cifar-10", cifar_batches(records=1))
    with pytest.raises(DataError, match=rf"{mine}: md5 \w+, expected \w+: not the published archive; delete it"):
        load("cifar-10", cache=tmp_path / "cache")
    assert mine.exists()


def test_cifar_with_a_damaged_archive(archive) -> None:
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no archive"):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=r"binary\.tar\.gz: the archive is damaged or cut short"):
            cifar.read_archive(archive)
    some = {name: batch for name, batch in cifar_batches().items() if name != "data_batch_3.bin"}
    with pytest.raises(DataError, match=r"cifar-10-batches-bin/data_batch_3\.bin is missing in it"):
        cifar.read_archive(write_cifar_archive(archive.parent, some))
