"""A study on a cluster: a real scheduler and two workers, all on this machine, none in this process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.lab import run
from glassformer.lab.plan import load_plan
from glassformer.lab.publish import publish
from glassformer.lab.record import Results
from glassformer.lab.run import investigate

from .small import lines_of, numbers_of, plan_file, text_of_plan

pytest.importorskip("distributed")
LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


def dask(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    """Its words go to a file; it works in a folder of its own, where the study's relative paths lead nowhere."""
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=log, stderr=log, cwd=folder)


def until(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. It has no worker yet."""
    folder = tmp_path_factory.mktemp("dask")
    process = dask(folder / "scheduler", "scheduler", *LOOPBACK, "--port", "0", "--scheduler-file", "../address.json")
    try:
        until(folder / "address.json")
        time.sleep(0.2)  # it is written in place
        yield json.loads((folder / "address.json").read_text())["address"]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def workers(scheduler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("workers")
    both = [
        dask(folder / name, "worker", scheduler, *LOOPBACK, "--nthreads", "1", "--no-nanny", "--name", name)
        for name in ("one", "two")
    ]
    try:
        yield scheduler
    finally:
        for process in both:
            process.terminate()
        for process in both:
            process.wait()


def begun(address: str, plan: Path, study: Path, *more: str) -> "subprocess.Popen[str]":
    words = ["investigate", plan.name, "--out", str(study), "--cluster", address, "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "glassformer", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=plan.parent,
    )  # fmt: skip


def on(address: str, plan: Path, study: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return ended(begun(address, plan, study, *more))


def ended(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    out, err = process.communicate(timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


IMPATIENT = """
from glassformer.cli import main
from glassformer.lab import run

run.ANSWER_WITHIN = run.WORKERS_WITHIN = 1
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "problem", "advice"),
    [
        ("tcp://127.0.0.1:9", "no dask scheduler answers at tcp://127.0.0.1:9: ", "--cluster tcp://its-host:8786"),
        ("nonsense://x", "no dask scheduler answers at nonsense://x: ", "--cluster tcp://its-host:8786"),
        ("", "has no worker after 1 s; start some: dask worker ", " --nthreads 1"),
    ],
)
def test_where_nobody_answers_or_works_it_says_so(
    address: str, problem: str, advice: str, scheduler: str, tmp_path: Path
) -> None:
    """A port where nothing listens, a word that is no address, and a scheduler that is all alone."""
    plan = plan_file(tmp_path)
    words = ["investigate", str(plan), "--out", str(tmp_path / "study"), "--cluster", address or scheduler]
    result = subprocess.run([sys.executable, "-c", IMPATIENT, *words], capture_output=True, text=True, timeout=100)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("glassformer: --cluster: ")
    assert problem in last
    assert last.endswith(advice)
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_study_on_a_cluster_finds_what_it_finds_here(workers: str, tmp_path: Path) -> None:
    """The data is named by a path relative to where the command is given; failures travel, too."""
    far = '[factors.far]\nsubject = "rate"\nset = { "optimiser.lr" = 1e30 }\n'
    plan = plan_file(tmp_path, '[factors.fast]\nsubject = "rate"\nset = { "optimiser.lr" = 0.3 }\n' + far)
    plan.write_text(plan.read_text().replace(str(tmp_path / "small.npz"), "small.npz"))
    result = on(workers, plan, tmp_path / "far away")
    assert result.returncode == 0, result.stderr
    cwd = Path.cwd()
    os.chdir(tmp_path)
    try:
        study = investigate(load_plan(plan), tmp_path / "here", jobs=1)
    finally:
        os.chdir(cwd)
    assert numbers_of(tmp_path / "far away") == numbers_of(tmp_path / "here")
    assert json.loads(result.stdout.splitlines()[-1])["answer"] == study.answer
    assert sum(bool(line["failed"]) for line in lines_of(tmp_path / "far away")) == 7


@pytest.mark.slow
def test_a_study_that_grows_on_a_cluster_is_killed_and_gone_on_with_by_two_at_once(
    workers: str, tmp_path: Path
) -> None:
    plan, study = plan_file(tmp_path, head="seeds = 3\npairs = 0"), tmp_path / "far away"
    first = on(workers, plan, study)
    assert first.returncode == 0, first.stderr
    before = (study / "results.jsonl").read_text()
    more = tmp_path / "more.toml"
    wide = '[factors.wide]\nset = { "model.hidden" = [9] }\n'
    more.write_text(plan.read_text().replace("seeds = 3", "seeds = 12\nlooks = [6, 12]\nfutility = 0.1") + wide)
    killed = begun(workers, more, study)
    end = time.monotonic() + 60
    while len((study / "results.jsonl").read_bytes().splitlines()) <= 9 + 2:
        assert time.monotonic() < end
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    both = [ended(one) for one in [begun(workers, more, study) for _ in range(2)]]
    assert [one.returncode for one in both] == [0, 0], both
    publish(investigate(load_plan(plan), tmp_path / "here", jobs=1), Results(tmp_path / "here"))  # a look that counts
    here = investigate(load_plan(more), tmp_path / "here", jobs=1)
    assert (study / "results.jsonl").read_text().startswith(before)
    assert numbers_of(study) == numbers_of(tmp_path / "here")
    assert json.loads(both[0].stdout.splitlines()[-1])["answer"] == here.answer


@pytest.mark.slow
def test_code_of_ones_own_reaches_the_cluster(workers: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom glassformer import register\nfrom glassformer.models import MLP\n"
        '@register.model("mine")\n@dataclass(frozen=True)\nclass Mine(MLP): ...\n'
    )
    plan = tmp_path / "why.toml"
    plan.write_text(text_of_plan(tmp_path, head="seeds = 3", engine="jax").replace('"mlp"', '"mine"'))
    result = on(workers, plan, tmp_path / "study", "--code", "mine.py")
    assert result.returncode == 0, result.stderr
    assert len(lines_of(tmp_path / "study")) == 9
    assert not any(line["failed"] for line in lines_of(tmp_path / "study"))


def test_without_dask_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.errors import EngineError

    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(EngineError, match=r"--cluster needs dask; pip install 'glassformer\[cluster\]'"),
        run.backend("x"),
    ):
        pass
