"""Several hosts: two processes on this machine train one run; when either is lost, the other ends with a sentence."""

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.cli import hosts as watching
from glassformer.cli.hosts import HEARTBEAT, JOIN, LOST, NOTE, parse_hosts, seconds, why
from glassformer.data.token_shards import open_tokens
from glassformer.data.tokenise import tokenise
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import FileError, SettingError
from glassformer.train import fit, hosts
from glassformer.train.presets import recipe_file
from glassformer.train.sharded_state import steps_of
from glassformer.train.stream_engine import crops

WORDS = "".join(f"{i % 7} bells and {i * i % 11} whistles\n" for i in range(100))
RECIPE = """
task = "next-token"
tokeniser = "characters"
[model]
kind = "gpt"
width = 8
hidden = 16
heads = 2
depth = 1
dropout = 0.1
text = { context = 8 }
[training]
batch = 8
steps = 6
score_every = 3
[optimiser]
name = "adamw"
lr = 0.01
[engine]
name = "jax"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a recipe and a few tokens."""
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "words.txt").write_text(WORDS)
    tokenise([folder / "words.txt"], folder / "tokens", Characters())
    (folder / "small.toml").write_text(RECIPE)
    return folder


class Host:
    """A process that trains on two simulated devices."""

    def __init__(self, folder: Path, *args: str, **environment: str) -> None:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
        self.out = subprocess.Popen(
            [sys.executable, "-m", "glassformer", "train", *args],
            cwd=folder,
            env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, timeout: float = 240) -> tuple[int, str, str]:
        out, err = self.out.communicate(timeout=timeout)
        return self.out.returncode, out, err

    @property
    def child(self) -> int:
        """The process that trains; the other one only watches it."""
        return int(Path(f"/proc/{self.out.pid}/task/{self.out.pid}/children").read_text())


@pytest.fixture
def two(folder: Path) -> Iterator[Any]:
    """Starts a command on two hosts; whatever is left of them in the end is ended."""
    started: list[Host] = []

    def start(*args: str, heartbeat: int = 60) -> list[Host]:
        """Where none is killed, a busy machine gets more time for a sign of life."""
        with socket.socket() as found:
            found.bind(("", 0))
            port = found.getsockname()[1]
        for index in (0, 1):
            where = ("--hosts", f"127.0.0.1:{port},2,{index}")
            started.append(Host(folder, *args, *where, **{HEARTBEAT: str(heartbeat)}))
        return started

    yield start
    for host in started:
        host.out.kill()
        host.out.communicate()


def curve(run: Path) -> list[float]:
    rows = csv.DictReader((run / "log.csv").read_text().splitlines())
    return [float(row[name]) for row in rows for name in ("loss", "test_loss")]


def alone(folder: Path, out: str, **training: Any) -> list[float]:
    """The same on one device of this process."""
    changes = {f"training.{name}": value for name, value in training.items()}
    fit.run_recipe(
        recipe_file(folder / "small.toml", 0),
        str(folder / "tokens"),
        lambda recipe: fit.with_all(recipe, changes),
        out=folder / out,
    )
    return curve(folder / out)


@pytest.mark.slow
def test_two_hosts_train_as_one_does(folder: Path, two: Any) -> None:
    first, second = two("--recipe", "small.toml", "--data", "tokens", "--out", "pair", "--json")
    code, out, err = first.ended()
    assert code == 0, err
    assert second.ended() == (0, "", "")  # it is quiet
    result = json.loads(out.splitlines()[-1])
    assert len(curve(folder / "pair")) == 4
    np.testing.assert_allclose(curve(folder / "pair"), alone(folder, "alone"), rtol=0, atol=1e-5)
    assert result["test_loss"] == pytest.approx(curve(folder / "pair")[-1], abs=1e-6)
    assert (folder / "pair" / "model.safetensors").exists()
    assert 'mesh = "data=4"' in (folder / "pair" / "recipe.toml").read_text()
    assert steps_of(folder / "pair") == [6, 3]


@pytest.mark.slow
def test_two_hosts_train_on_images(folder: Path, two: Any) -> None:
    changes = {"training.epochs": 2, "training.subset": 320, "training.batch": 16, "engine.name": "jax"}
    for host in two("vit-pico", *(f"--set={name}={value}" for name, value in changes.items()), "--out", "images"):
        code, _, err = host.ended()
        assert code == 0, err
    fit.run_recipe("vit-pico", "", lambda recipe: fit.with_all(recipe, changes), out=folder / "images-alone")
    np.testing.assert_allclose(curve(folder / "images"), curve(folder / "images-alone"), rtol=0, atol=1e-5)


LONG = ("--recipe", "small.toml", "--data", "tokens", "--set", "training.steps=200", "--set", "training.score_every=10")


def until_rows(run: Path, rows: int, pair: list[Host]) -> None:
    while not (run / "log.csv").exists() or len(curve(run)) < 2 * rows:
        assert [host.out.poll() for host in pair] == [None, None], pair[0].ended()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_host_ends_the_other_and_the_run_goes_on_elsewhere(folder: Path, two: Any, victim: int) -> None:
    run = folder / f"killed-{victim}"
    pair = two(*LONG, "--mesh", "fsdp=4", "--out", run.name, heartbeat=10)
    until_rows(run, 3, pair)
    before = time.monotonic()
    pair[victim].out.kill()
    code, _, err = pair[1 - victim].ended()
    assert time.monotonic() - before < 60
    assert code == 1
    assert err.splitlines()[-1].startswith(
        f"glassformer: host {1 - victim} of 2: host {victim} was lost: it ended, or gave no sign of life for 10 s; "
    )
    assert f"Go on from the last checkpoint with --resume {run.name}" in err
    assert "Check failure stack trace" not in err
    assert "Traceback" not in err
    code, _, err = Host(folder, "--resume", run.name, "--mesh", "data=2").ended()
    assert code == 0, err
    expected = alone(folder, f"whole-{victim}", steps=200, score_every=10)
    np.testing.assert_allclose(curve(run), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the child of a process in /proc")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_host_that_hangs_is_lost_too(folder: Path, two: Any, victim: int) -> None:
    run = folder / f"hangs-{victim}"
    pair = two(*LONG, "--out", run.name, heartbeat=10)
    until_rows(run, 1, pair)
    child, before = pair[victim].child, time.monotonic()
    os.kill(child, signal.SIGSTOP)
    try:
        code, _, err = pair[1 - victim].ended()
    finally:
        os.kill(child, signal.SIGKILL)
    assert time.monotonic() - before < 60
    assert code == 1
    assert f"host {1 - victim} of 2: host {victim} was lost" in err.splitlines()[-1]
    code, _, err = pair[victim].ended()
    assert code == 1
    assert "glassformer: the process that trains was ended by SIGKILL" in err


@pytest.mark.slow
def test_asked_to_stop_all_hosts_save_and_go_on_as_two_again(folder: Path, two: Any) -> None:
    run = folder / "stopped"
    pair = two(*LONG, "--out", run.name)
    until_rows(run, 2, pair)
    pair[1].out.send_signal(signal.SIGTERM)
    for host in pair:
        code, _, err = host.ended()
        assert code == 1
        assert re.search(r"stopped (in|after) epoch \d+ and saved; go on with --resume stopped\n$", err)
    assert steps_of(run)
    pair.clear()
    newest = max((run / "state" / str(steps_of(run)[0])).rglob("d/*"), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes()[:100])
    for host in two("--resume", run.name, "--mesh", "data=2,model=2"):
        code, _, err = host.ended()
        assert code == 0, err
        assert ("; the state before it is taken" in err) == (host is pair[0])
    np.testing.assert_allclose(curve(run), alone(folder, "unstopped", steps=200, score_every=10), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_hosts_that_slurm_started_with_other_settings_are_refused(folder: Path) -> None:
    command, job = ("--recipe", "small.toml", "--data", "tokens", "--out", "apart", "--hosts", "auto"), str(os.getpid())
    step = {"SLURM_JOB_ID": job, "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    pair = [
        Host(folder, *command, *more, **step, SLURM_PROCID=str(index), SLURM_LOCALID=str(index))
        for index, more in enumerate([(), ("--lr", "0.5")])
    ]
    (code, _, err), (other_code, _, other_err) = (host.ended() for host in pair)
    assert code == other_code == 1
    assert "host 1 of 2: optimiser.lr is 0.5, and on host 0 it is 0.01; start the same command" in other_err
    assert "glassformer: host 1 " in err
    assert not (folder / "apart").exists()


@pytest.mark.slow
def test_a_port_that_is_taken_and_hosts_that_do_not_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOIN, "2")
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = Host(folder, "--hosts", f"127.0.0.1:{port},2,0").ended()
        assert code == 1
        assert f"--hosts: host 0 cannot listen on 127.0.0.1:{port}" in err
    code, _, err = Host(folder, "--hosts", f"127.0.0.1:{port},2,1").ended()
    assert code == 1
    assert err.startswith(
        f"glassformer: --hosts 127.0.0.1:{port},2,1: host 0 could not be reached, or not all hosts came"
    )
    assert "within 2 s" in err
    assert len(err.splitlines()) == 1


def test_step_1000_of_any_host_can_be_repeated(folder: Path) -> None:
    whole = crops(open_tokens(folder / "tokens")[0], seed=3, step=1000, count=12, length=9)
    for host in range(3):
        rows = slice(4 * host, 4 * host + 4)
        reopened = open_tokens(folder / "tokens")[0]  # as after a restart
        np.testing.assert_array_equal(crops(reopened, 3, 1000, 12, 9, rows), whole[rows])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "'2' came, expected auto"),
        ("node,2,0", "'node' is no ADDRESS:PORT"),
        ("node:70000,2,0", "'node:70000' is no ADDRESS:PORT"),
        ("node:1234,2,2", "host 2 of 2 came; hosts are counted from 0"),
        ("node:1234,two,0", "'node:1234,two,0' came, expected auto .*such as 10.0.0.1:1234,2,0"),
    ],
)
def test_what_is_no_host_is_said(text: str, said: str) -> None:
    with pytest.raises(SettingError, match=f"--hosts: {said}"):
        parse_hosts(text)


def test_hosts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_hosts("auto") == (None, None, None)
    assert parse_hosts("[::1]:1234,2,1") == ("[::1]:1234", 2, 1)
    assert (seconds(JOIN), seconds(HEARTBEAT)) == (300, 10)
    for variable in (JOIN, HEARTBEAT):
        monkeypatch.setenv(variable, "soon")
        with pytest.raises(SettingError, match=f"{variable}: 'soon' came, expected a number of seconds"):
            seconds(variable)


def test_how_a_child_ended_is_said() -> None:
    fatal = "JAX distributed service detected fatal errors"
    joined = f'{NOTE}{{"joined": [2, 4]}}\n{NOTE}{{"run": "runs/a"}}\n'
    assert why(0, joined, "auto") == why(1, joined, "auto") == ""
    assert "host 0 could not be reached, or not all hosts came, within 300 s" in why(-signal.SIGABRT, fatal, "auto")
    lost = why(-signal.SIGABRT, f"{joined}(stopped sending heartbeats):\n1\n{fatal}", "auto")
    assert lost.startswith("host 2 of 4: host 1 was lost")
    assert "--resume runs/a" in lost
    assert why(LOST, f"{joined}Gloo all-reduce failed", "auto").startswith("host 2 of 4: another host was lost")
    taken = why(-signal.SIGSEGV, "E1116 add_port.cc:83] Failed to add port to server: No address", "node:1234,2,0")
    assert taken.startswith("--hosts: host 0 cannot listen on node:1234 (SIGSEGV); another process may have the port")
    crashed = why(-signal.SIGSEGV, f"{joined}[Gloo] Rank 0\na line of the crash\n", "auto")
    assert crashed == "the process that trains was ended by SIGSEGV; the last that it wrote:\na line of the crash"


class Pretended:
    """Two hosts, of which this is the second; the first has said `first`."""

    def __init__(self, patch: pytest.MonkeyPatch, first: Any, others: Any) -> None:
        patch.setattr(hosts, "of_first", lambda make: first)
        patch.setattr(hosts, "of_all", lambda value: np.array([others, value]))


def test_the_host_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended(monkeypatch, {"optimiser.lr": 0.1}, others=False)
    hosts.must_agree({"optimiser.lr": 0.1})
    with pytest.raises(SettingError, match=r"optimiser.lr is 0.2, and on host 0 it is 0.1; start the same command"):
        hosts.must_agree({"optimiser.lr": 0.2})
    Pretended(monkeypatch, {}, others=True)
    with pytest.raises(SettingError, match="host 0 does not have the settings of host 0"):
        hosts.must_agree({})


def test_a_folder_that_another_host_cannot_see_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "SEEN", 0.1)
    Pretended(monkeypatch, None, others=True)
    hosts.must_see(tmp_path)
    with pytest.raises(FileError, match="host 1 does not see it; the run folder has to lie in a file system that all"):
        hosts.must_see(tmp_path / "elsewhere")


def test_seeds_are_not_for_several_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from glassformer.cli import app

    monkeypatch.setattr(watching, "watched", lambda: True)
    result = CliRunner().invoke(app, ["train", "--hosts", "auto", "--seeds", "0-1"])
    assert result.exit_code == 2
    assert "hosts train one run together" in result.stderr
