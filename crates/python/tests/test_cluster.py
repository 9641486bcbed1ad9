"""Sweeps on real local clusters of Dask and Ray, with accidents in the middle: the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import pytest
import ray

import maracas
from conftest import skip

STUDY = maracas.Study("""
[sweep]
cores = 4
utilization = [0.8, 0.95]
sets = 60
duration = "500ms"
[tasks]
per_core = 3
loads = "uunifast"
periods = "log-uniform:10ms..100ms"
[[policy]]
name = "g-edf"
[[policy]]
name = "run"
""")
WORKERS = 4
PIECE = 4
"""Sets of a piece: 30 pieces."""
PENDING = 8
"""Pieces that are given away before the first is waited for."""


class RayExecutor(Executor):
    """Ray as an executor, as docs/cluster.md shows it."""

    def __init__(self) -> None:
        self.call = ray.remote(lambda fn, *args, **kwargs: fn(*args, **kwargs))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self.call.remote(fn, *args, **kwargs).future()
        return future


class Accident(Executor):
    """Another executor, to which something happens once the first piece is kept.

    That is when a piece beyond `PENDING` is given away; others are under way then.
    """

    def __init__(self, cluster: Executor, happens: Callable[[], None]) -> None:
        self.cluster, self.happens, self.given = cluster, happens, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.given == PENDING:
            self.happens()
        self.given += 1
        return self.cluster.submit(fn, *args, **kwargs)


def sweep(out: Path, executor: Executor) -> None:
    maracas.sweep(STUDY, out=out, executor=executor, piece=PIECE, pending=PENDING)


def contents(folder: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in folder.iterdir() if it.name != "sweep.progress"}


def kept(folder: Path) -> int:
    """Return how many sets the folder keeps."""
    return len((folder / "sweep.progress").read_text().split("results\n")[1].splitlines())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What `maracas sweep` and threads of this process write (`test_sweep.py` compares them)."""
    folder = tmp_path_factory.mktemp("alone")
    maracas.sweep(STUDY, out=folder)
    return contents(folder)


@pytest.fixture(scope="module")
def dask() -> Iterator[distributed.Client]:
    cluster = distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@contextmanager
def a_small_disk(folder: Path, kib: int) -> Iterator[Callable[[], None]]:
    """Mount so many KiB on a folder; what is yielded makes room."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        skip("the right to mount a file system")

    def room() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)

    try:
        yield room
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_dask_loses_a_worker_and_no_set(
    dask: distributed.Client, alone: dict[str, bytes], tmp_path: Path
) -> None:
    victim = next(iter(dask.run(os.getpid).values()))
    sweep(tmp_path, Accident(dask.get_executor(), lambda: os.kill(victim, signal.SIGKILL)))
    assert contents(tmp_path) == alone


@pytest.mark.parametrize("kib", [16, 56], ids=["progress", "tables"])
def test_a_full_disk_loses_no_set(
    dask: distributed.Client, alone: dict[str, bytes], tmp_path: Path, kib: int
) -> None:
    out = tmp_path / "small"
    with a_small_disk(out, kib) as room:
        with pytest.raises(maracas.Error, match=r"small.*No space left on device"):
            sweep(out, dask.get_executor())
        before = kept(out)
        assert before == STUDY.items if kib == 56 else 0 < before < STUDY.items
        # Nothing but the progress is there, and no line of it is torn.
        assert (out / "sweep.progress").read_bytes()[-1:] == b"\n"
        room()
        sweep(out, dask.get_executor())
        assert contents(out) == alone


def start(*words: str) -> subprocess.Popen[bytes]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", *words], **quiet)  # type: ignore[call-overload, no-any-return]


@contextmanager
def a_cluster_in_parts(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start Dask's scheduler and workers as an administrator does; yields the scheduler."""
    folder.mkdir()
    file = ["--scheduler-file", str(folder / "scheduler.json")]
    local = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = start("distributed.cli.dask_scheduler", "--port", "0", *local, *file)
    of_each = ["--nworkers", str(WORKERS), "--nthreads", "1", "--local-directory", str(folder)]
    workers = start("distributed.cli.dask_worker", *local, *file, *of_each)
    try:
        yield scheduler, folder / "scheduler.json"
    finally:
        for process in (workers, scheduler):
            process.terminate()
        for process in (workers, scheduler):
            process.wait()


def test_dasks_scheduler_is_restarted_and_no_set_is_lost(
    dask: distributed.Client, alone: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        a_cluster_in_parts(tmp_path / "cluster") as (scheduler, file),
        distributed.Client(scheduler_file=str(file), timeout=120) as client,
    ):
        client.wait_for_workers(WORKERS)
        with pytest.raises(maracas.Error, match="its cluster is gone"):
            sweep(out, Accident(client.get_executor(), scheduler.kill))
    assert PIECE <= kept(out) < STUDY.items
    sweep(out, dask.get_executor())
    assert contents(out) == alone


RAY = """
import os, signal, sys
from pathlib import Path
import psutil, ray
from test_cluster import Accident, RayExecutor, WORKERS, sweep

def process():
    return os.getpid()

def kill():
    # The head alone would leave workers that the driver still reaches.
    for one in psutil.Process().children(recursive=True):
        one.kill()

ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
executor = RayExecutor()
match sys.argv[1]:
    case "worker":
        victim = executor.submit(process).result()
        executor = Accident(executor, lambda: os.kill(victim, signal.SIGKILL))
    case "head":
        executor = Accident(executor, kill)
sweep(Path(sys.argv[2]), executor)
"""


def on_ray(accident: str, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the sweep in a process and with a cluster of its own: Ray ends both with its head."""
    # A head that is gone is given up after a second, in place of a minute.
    patience = {"RAY_gcs_rpc_server_reconnect_timeout_s": "1"}
    return subprocess.run(
        [sys.executable, "-c", RAY, accident, str(out)],
        cwd=Path(__file__).parent,
        env=os.environ | patience,
        capture_output=True,
        text=True,
        check=False,
    )


def test_ray_loses_a_worker_and_no_set(alone: dict[str, bytes], tmp_path: Path) -> None:
    done = on_ray("worker", tmp_path)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == alone


def test_rays_head_is_restarted_and_no_set_is_lost(alone: dict[str, bytes], tmp_path: Path) -> None:
    assert on_ray("head", tmp_path).returncode != 0
    assert PIECE <= kept(tmp_path) < STUDY.items
    done = on_ray("none", tmp_path)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == alone
