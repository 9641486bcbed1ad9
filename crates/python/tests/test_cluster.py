"""Sweeps on real local clusters of Dask and Ray, with a worker killed: the same bytes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import distributed
import pytest
import ray

import maracas

STUDY = """
[sweep]
cores = 4
utilization = [0.8, 0.95]
sets = 60
duration = "2s"
[tasks]
per_core = 3
loads = "uunifast"
periods = "log-uniform:10ms..100ms"
[[policy]]
name = "g-edf"
[[policy]]
name = "run"
"""


class RayExecutor(Executor):
    """Ray as an executor, as docs/python.md shows it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = ray.remote(fn).remote(*args, **kwargs).future()
        return future


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("alone")
    maracas.sweep(maracas.Study(STUDY), out=folder)
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in folder.iterdir() if it.name != "sweep.progress"}


@pytest.fixture
def dask() -> Iterator[distributed.Client]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def kill_when_begun(process: int, progress: Path) -> threading.Thread:
    """Kill a worker as soon as the first piece is kept."""

    def kill() -> None:
        while not (progress.exists() and progress.read_text().partition("results\n")[2]):
            time.sleep(0.005)
        os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_dask_loses_a_worker_and_no_set(
    dask: distributed.Client, alone: dict[str, bytes], tmp_path: Path
) -> None:
    victim = next(iter(dask.run(os.getpid).values()))
    thread = kill_when_begun(victim, tmp_path / "sweep.progress")
    maracas.sweep(maracas.Study(STUDY), out=tmp_path, executor=dask.get_executor(), piece=4)
    thread.join()
    assert contents(tmp_path) == alone


def test_ray_loses_a_worker_and_no_set(alone: dict[str, bytes], tmp_path: Path) -> None:
    def process() -> int:
        # Within the test, so that it travels as it is.
        return os.getpid()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        victim = RayExecutor().submit(process).result()
        thread = kill_when_begun(victim, tmp_path / "sweep.progress")
        maracas.sweep(maracas.Study(STUDY), out=tmp_path, executor=RayExecutor(), piece=4)
        thread.join()
    finally:
        ray.shutdown()
    assert contents(tmp_path) == alone
