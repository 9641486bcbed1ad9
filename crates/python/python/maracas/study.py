"""Sweeps: many task sets under many policies, in pieces that any executor runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice
from os import PathLike, cpu_count
from pathlib import Path
from queue import SimpleQueue
from uuid import uuid4

from maracas import _maracas
from maracas.scenario import _toml

PIECE = 64
"""Sets of a piece where nothing is said: some seconds of work on usual sweeps."""
PENDING = 4096
"""Pieces that an executor has at a time where nothing is said: enough for thousands of workers, and
few enough that an executor need not hold a large sweep at once."""


def _rounded(share: object) -> object:
    """Return a share as a sweep takes it."""
    return round(share, 6) if isinstance(share, float) else share


@dataclass(frozen=True)
class Study:
    """What a sweep compares: the text of a sweep file (docs/sweep.md)."""

    text: str
    """TOML."""
    file: str = "<sweep>"
    """What errors call it."""
    folder: str = ""
    """Where it looks for files of task sets."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Study:
        """Take the text of a sweep file; it is checked where it is used."""
        path = Path(path)
        return cls(path.read_text(encoding="utf-8"), str(path), str(path.parent))

    @classmethod
    def of(cls, **tables: object) -> Study:
        """Write a sweep file from its tables: `sweep`, `tasks`, `policy` and `overheads`.

        Utilizations are rounded to the six decimals that a sweep takes.
        """
        sweep = tables.get("sweep")
        if isinstance(sweep, Mapping) and "utilization" in sweep:
            given = sweep["utilization"]
            given = given.tolist() if hasattr(given, "tolist") else given
            is_one = isinstance(given, str | int | float)
            rounded = _rounded(given) if is_one else [_rounded(it) for it in given]
            tables = {**tables, "sweep": {**sweep, "utilization": rounded}}
        return cls("\n".join(f"{key} = {_toml(value)}" for key, value in tables.items()))

    @cached_property
    def _study(self) -> _maracas.Study:
        return _maracas.Study(self.text, self.file, self.folder)

    @property
    def items(self) -> int:
        """How many sets there are, all points together."""
        return self._study.items

    @property
    def policies(self) -> list[str]:
        """The labels of the policies."""
        return self._study.policies

    @property
    def notes(self) -> list[str]:
        """What reading files of task sets left out or took otherwise."""
        return self._study.notes

    def run(self, items: Sequence[int]) -> str:
        """Run the sets of these numbers: a line for each, which `Sweep` puts together.

        What a line says depends on the study and its number alone, not on where or when it runs.
        """
        return self._study.run(items)

    def __getstate__(self) -> dict[str, str]:
        """Travel to other processes as text."""
        return {"text": self.text, "file": self.file, "folder": self.folder}


class Sweep:
    """A finished sweep; its tables (docs/sweep.md) are made when they are first asked for."""

    def __init__(self, study: Study, gathered: _maracas.Gathered) -> None:
        """Take what came of all sets."""
        self._study, self._gathered = study._study, gathered

    @cached_property
    def runs(self) -> _maracas.Table:
        """One row for each set and policy."""
        return self._study.runs(self._gathered)

    @cached_property
    def points(self) -> _maracas.Table:
        """One row for each point and policy."""
        return self._study.points(self._gathered)

    @cached_property
    def pairs(self) -> _maracas.Table:
        """One row for each point, pair of policies and measure."""
        return self._study.pairs(self._gathered)

    @cached_property
    def tests(self) -> _maracas.Table:
        """One row for each point, policy, and test of it or its run."""
        return self._study.tests(self._gathered)

    @cached_property
    def weighted(self) -> _maracas.Table:
        """The same in one number for all utilizations."""
        return self._study.weighted(self._gathered)

    @cached_property
    def figures(self) -> dict[str, str]:
        """The figures over the points: SVG, by name."""
        return dict(self._study.figures(self._gathered))

    def write(self, folder: str | PathLike[str]) -> None:
        """Write the files that `maracas sweep` writes, the same bytes."""
        self._study.write(Path(folder), self._gathered)

    def _repr_html_(self) -> str:
        """Show the figures in a notebook."""
        return "\n".join(self.figures.values())


@lru_cache(maxsize=4)
def _known(text: str, file: str, folder: str) -> Study:
    return Study(text, file, folder)


def _piece(
    version: str, text: str, file: str, folder: str, sweep: str, items: Sequence[int]
) -> str:
    """Run a piece, in whatever process this is, with the program that it is of.

    `sweep` differs from call to call: Dask takes equal calls for one, and would end a piece of this
    sweep where it is still ending the same one of a sweep before it.
    """
    if version != _maracas.__version__:
        here = _maracas.__version__
        raise _maracas.Error(f"a worker has maracas {here} and this is {version}; install the same")
    return _known(text, file, folder).run(items)


def _pieces(gathered: _maracas.Gathered, size: int) -> Iterator[Sequence[int]]:
    """Cut the sets that are missing now into pieces.

    Numbers that follow each other travel as a range: Dask looks at each element of a list.
    """
    start = 0
    while items := gathered.missing(start, size):
        between = range(items[0], items[-1] + 1)
        yield between if len(between) == len(items) else items
        start = between.stop


def sweep(
    study: Study | str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    piece: int = PIECE,
    pending: int = PENDING,
) -> Sweep:
    """Run a sweep, on `jobs` threads or on any executor of `concurrent.futures`.

    With `out` what is finished is kept in that folder at once: after an interruption the same call
    goes on, and the folder gets the files of `maracas sweep`, the same bytes whatever ran the
    pieces. An executor gets pieces of so many sets, at most `pending` of them at a time, and needs
    this package where it runs them.
    """
    if not isinstance(study, Study):
        study = Study.read(study)
    for name, number in (("piece", piece), ("pending", pending)):
        if number < 1:
            raise _maracas.Error(f"{name} is {number}; give 1 or more")
    native = study._study
    ledger, gathered = (None, native.gather()) if out is None else native.open(Path(out))
    try:
        # Threads of this process take one set at a time: nothing is saved by more.
        pieces = _pieces(gathered, 1 if executor is None else piece)
        version, name = _maracas.__version__, uuid4().hex
        call = partial(_piece, version, study.text, study.file, study.folder, name)
        with nullcontext(executor) if executor else ThreadPoolExecutor(jobs or cpu_count()) as pool:
            _run(pool, call, pieces, pending, lambda lines: gathered.take(lines, ledger))
    finally:
        if ledger is not None:
            ledger.close()
    finished = Sweep(study, gathered)
    if out is not None:
        finished.write(out)
    return finished


def _run(
    pool: Executor,
    call: Callable[[Sequence[int]], str],
    pieces: Iterator[Sequence[int]],
    pending: int,
    keep: Callable[[str], None],
) -> None:
    """Give pieces to an executor and keep what comes back, in whatever order that is."""
    done: SimpleQueue[Future[str]] = SimpleQueue()
    waiting: set[Future[str]] = set()
    try:
        while True:
            for items in islice(pieces, pending - len(waiting)):
                future = pool.submit(call, items)
                waiting.add(future)
                future.add_done_callback(done.put)
            if not waiting:
                return
            future = done.get()
            waiting.discard(future)
            keep(future.result())
    except BaseException as error:
        # What has not begun is called off first: keeping may be what fails.
        over = [future for future in waiting if not future.cancel() and future.done()]
        with suppress(_maracas.Error):
            for future in over:
                if future.exception() is None:
                    keep(future.result())
        if isinstance(error, CancelledError):
            gone = "the executor gave up a piece: its cluster is gone, or somebody ended it"
            raise _maracas.Error(f"{gone}; with `out` the same call goes on") from error
        raise
