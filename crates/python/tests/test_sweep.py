"""Sweeps in pieces: whatever runs them, the same bytes as the command writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import maracas
from conftest import Command

STUDY = """
[sweep]
cores = 2
utilization = [0.7, 0.95]
sets = 12
duration = "200ms"
[tasks]
count = 6
loads = "uunifast"
periods = "log-uniform:10ms..50ms"
[[policy]]
name = "p-edf"
[[policy]]
name = "run"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


def contents(folder: Path) -> dict[str, bytes]:
    """Everything that a sweep leaves but the order in which sets were finished."""
    return {it.name: it.read_bytes() for it in folder.iterdir() if it.name != "sweep.progress"}


@pytest.fixture
def theirs(file: Path, command: Command, tmp_path: Path) -> dict[str, bytes]:
    out = tmp_path / "theirs"
    assert command("sweep", file, "--out", out, "--quiet").returncode == 0
    return contents(out)


def test_threads_write_what_the_command_writes(
    file: Path, theirs: dict[str, bytes], tmp_path: Path
) -> None:
    swept = maracas.sweep(file, out=tmp_path / "ours", jobs=3)
    assert contents(tmp_path / "ours") == theirs
    assert pl.DataFrame(swept.runs).height == 2 * 2 * 12
    assert swept.points["policy"] == ["p-edf", "run"] * 2
    assert len(swept.pairs) > 0
    # By the run and two tests, the run alone.
    assert swept.tests["by"] == ["run", "density", "qpa", "run"] * 2
    assert len(swept.weighted) == 4
    assert all(svg.startswith("<svg") for svg in swept.figures.values())
    # Without a folder, and written afterwards.
    again = maracas.sweep(maracas.Study(STUDY))
    (tmp_path / "later").mkdir()
    again.write(tmp_path / "later")
    assert contents(tmp_path / "later") == theirs


def test_processes_write_the_same(file: Path, theirs: dict[str, bytes], tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        maracas.sweep(file, out=tmp_path / "ours", executor=pool, piece=5)
    assert contents(tmp_path / "ours") == theirs


class Failing(Executor):
    """Runs pieces at once, and loses its workers after some."""

    def __init__(self, good: int) -> None:
        self.good = good

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.good > 0:
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(OSError("the worker is gone"))
        self.good -= 1
        return future


def test_what_is_finished_is_kept(
    file: Path, theirs: dict[str, bytes], tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "ours"
    with pytest.raises(OSError, match="the worker is gone"):
        maracas.sweep(file, out=out, executor=Failing(3), piece=4)
    assert os.listdir(out) == ["sweep.progress"]
    kept = len((out / "sweep.progress").read_text().split("results\n")[1].splitlines())
    assert kept == 3 * 4
    # The command goes on where Python stopped.
    assert command("sweep", file, "--out", out, "--quiet").returncode == 0
    assert contents(out) == theirs


class Losing(Executor):
    """Runs pieces at once and notes them, and loses the one of this number."""

    def __init__(self, lost: int | None = None) -> None:
        self.lost = lost
        self.pieces: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if len(self.pieces) == self.lost:
            future.set_exception(OSError("the worker is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        self.pieces += args
        return future


def test_pieces_are_ranges_where_nothing_between_is_finished(
    file: Path, theirs: dict[str, bytes], tmp_path: Path
) -> None:
    out, first, second = tmp_path / "ours", Losing(lost=1), Losing()
    with pytest.raises(OSError, match="the worker is gone"):
        maracas.sweep(file, out=out, executor=first, piece=4, pending=3)
    assert first.pieces == [range(0, 4), range(4, 8), range(8, 12), range(12, 16)]
    maracas.sweep(file, out=out, executor=second, piece=6)
    assert second.pieces == [[4, 5, 6, 7, 16, 17], range(18, 24)]
    assert contents(out) == theirs


def test_what_is_wrong_is_said(file: Path, tmp_path: Path) -> None:
    with pytest.raises(maracas.Error, match="the sweep has no"):
        maracas.sweep(maracas.Study(""))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "runs.csv").write_text("")
    with pytest.raises(maracas.Error, match=r"holds runs\.csv and no sweep\.progress"):
        maracas.sweep(file, out=tmp_path / "full")
    maracas.sweep(file, out=tmp_path / "other")
    other = maracas.Study(STUDY.replace("200ms", "300ms"))
    with pytest.raises(maracas.Error, match="is of another sweep"):
        maracas.sweep(other, out=tmp_path / "other")


def test_a_study_is_written_from_its_tables() -> None:
    study = maracas.Study.of(
        sweep={"cores": 2, "utilization": [0.7, 0.95], "sets": 12, "duration": "200ms"},
        tasks={"count": 6, "loads": "uunifast", "periods": "log-uniform:10ms..50ms"},
        policy=[{"name": "p-edf"}, {"name": "run"}],
    )
    assert study.policies == ["p-edf", "run"]
    assert study.run([3]) == maracas.Study(STUDY).run([3])
