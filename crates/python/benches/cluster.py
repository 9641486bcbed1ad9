"""What Dask and Ray bring and cost: a sweep on local clusters with one and with two workers.

    python crates/python/benches/cluster.py [SETS [DURATION [ROUNDS [ENGINE...]]]]

needs the wheel, `distributed`, `ray` and `psutil`, and two cores with nothing else to do. Each run
is a process of its own, so that its peak memory is that of this sweep. "all" is the CPU time of
everything that takes part: workers, the engine's processes, and the one that calls. Two cores are
not done before half of it. "bytes" is the begin of a hash of all files: the same for the same
sets. The engine "threads" is two threads of the process itself: what the machine brings without
any engine.
"""

import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

import maracas

STUDY = """
[sweep]
cores = 2
utilization = [0.5, 0.6, 0.7, 0.8, 0.9]
sets = {sets}
duration = "{duration}"
[tasks]
count = 8
loads = "uunifast"
periods = "log-uniform:10ms..100ms"
[[policy]]
name = "p-edf"
[[policy]]
name = "g-edf"
"""
PIECE = 512
"""Sets of a piece: a second where ten seconds of each are simulated."""
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "10s",
}
"""What Dask watches of itself, by default a hundred times a second in workers, fifty elsewhere."""


@contextmanager
def dask(workers: int):
    """Start Dask."""
    import dask.config
    import distributed

    dask.config.set(QUIET)
    # No limit of memory: else each worker and its nanny ask ten times a second how much it has.
    cluster = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        memory_limit=0,
    )
    with cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(workers)
        yield client.get_executor()


class RayExecutor(Executor):
    """Ray as an executor (docs/cluster.md)."""

    def __init__(self) -> None:
        """Send the function that calls once, not with each piece."""
        import ray

        self.call = ray.remote(lambda fn, *args, **kwargs: fn(*args, **kwargs))

    def submit(self, fn, /, *args, **kwargs):
        """Give a piece to Ray."""
        return self.call.remote(fn, *args, **kwargs).future()


@contextmanager
def ray(workers: int):
    """Start Ray."""
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    yield RayExecutor()
    ray.shutdown()


@contextmanager
def threads(workers: int):
    """Start no engine."""
    with ThreadPoolExecutor(workers) as pool:
        yield pool


def digest(folder: str) -> str:
    """Return the begin of a hash of a folder's files."""
    files = sorted(it for it in Path(folder).iterdir() if it.suffix in {".csv", ".parquet"})
    return hashlib.sha256(b"".join(it.read_bytes() for it in files)).hexdigest()[:8]


def used() -> tuple[float, float]:
    """Return the CPU seconds of this process so far, and of it and all below it."""
    mine = time.process_time()
    below = [it.cpu_times() for it in psutil.Process().children(recursive=True)]
    return mine, mine + sum(it.user + it.system for it in below)


def one(engine: str, workers: int, sets: int, duration: str, out: str) -> None:
    """Sweep once and print what it took."""
    study = maracas.Study(STUDY.format(sets=sets // 5, duration=duration))
    with {"dask": dask, "ray": ray, "threads": threads}[engine](workers) as executor:
        # Workers that have begun, with the package imported.
        warm = [executor.submit(study.run, [k]) for k in range(4 * workers)]
        for future in warm:
            future.result()
        begin, (caller, everything) = time.perf_counter(), used()
        swept = maracas.sweep(study, executor=executor, piece=PIECE, pending=32)
        done, (caller_then, everything_then) = time.perf_counter(), used()
        swept.write(out)
        merged = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    caller, everything = caller_then - caller, everything_then - everything
    print(json.dumps([done - begin, merged - done, caller, everything, peak, digest(out)]))


def main() -> None:
    """Measure each engine with one worker and with two, and with fewer sets."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    duration = sys.argv[2] if len(sys.argv) > 2 else "1s"
    # What a core gives in a minute varies on a virtual machine.
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    head = ", sets, workers, pieces s, merge s, caller us, all us, peak MiB, bytes"
    print(" ".join(f"{word:>9}" for word in head.split(", ")))
    for engine in sys.argv[4:] or ["dask", "ray", "threads"]:
        runs: dict[int, list[list[float]]] = {1: [], 2: []}
        fewer = [(2, most // 4), (2, most // 2)] if rounds > 1 else []
        for workers, sets in [*fewer, *[(2, most), (1, most)] * rounds]:
            with tempfile.TemporaryDirectory() as out:
                given = [engine, str(workers), str(sets), duration, out]
                line = [sys.executable, __file__, "one", *given]
                said = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
            pieces, merge, caller, everything, peak, files = json.loads(said.splitlines()[-1])
            if sets == most:
                runs[workers].append([pieces, merge, everything])
            each = [f"{pieces:9.1f}", f"{merge:9.2f}"]
            each += [f"{of / sets * 1e6:9.1f}" for of in (caller, everything)]
            each += [f"{peak:9.0f}", f"{files:>9}"]
            print(f"{engine:>9} {sets:>9} {workers:>9}", *each, flush=True)
        (one, _, _), (two, merge, everything) = (
            [statistics.median(each) for each in zip(*runs[workers], strict=True)]
            for workers in (1, 2)
        )
        print(
            f"{engine}: two workers are {one / two:.2f} times as fast as one (medians); by the CPU"
            f" time of all on two cores {one / (everything / 2):.2f} is the most there is; the"
            f" merge is {merge / (two + merge):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6])
    else:
        main()
