"""Sweeps: many task sets under many policies, in pieces that any executor runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike, cpu_count, fspath
from pathlib import Path

from maracas import _maracas
from maracas.scenario import _toml

PIECE = 64
"""Sets of a piece where nothing is said: some seconds of work on usual sweeps."""


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
        """Write a sweep file from its tables: `sweep`, `tasks`, `policy` and `overheads`."""
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

    def run(self, items: list[int]) -> str:
        """Run the sets of these numbers: a line for each, which `Sweep` puts together.

        What a line says depends on the study and its number alone, not on where or when it runs.
        """
        return self._study.run(items)

    def __getstate__(self) -> dict[str, str]:
        """Travel to other processes as text."""
        return {"text": self.text, "file": self.file, "folder": self.folder}


class Sweep:
    """A finished sweep."""

    def __init__(self, study: Study, lines: str) -> None:
        """Put the lines of all sets together, in whatever order they came."""
        self._study, self._lines = study._study, lines
        self.runs, self.points, self.pairs = self._study.tables(lines)
        """Runs, points and pairs: the tables of docs/sweep.md."""

    @cached_property
    def figures(self) -> dict[str, str]:
        """The figures over the points: SVG, by name."""
        return dict(self._study.figures(self._lines))

    def write(self, folder: str | PathLike[str]) -> None:
        """Write the files that `maracas sweep` writes, the same bytes."""
        self._study.write(Path(folder), self._lines)

    def _repr_html_(self) -> str:
        """Show the figures in a notebook."""
        return "\n".join(self.figures.values())


@lru_cache(maxsize=4)
def _known(text: str, file: str, folder: str) -> Study:
    return Study(text, file, folder)


def _piece(text: str, file: str, folder: str, items: list[int]) -> str:
    """Run a piece, in whatever process this is."""
    return _known(text, file, folder).run(items)


def _pieces(items: list[int], size: int) -> Iterator[list[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def sweep(
    study: Study | str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    piece: int = PIECE,
) -> Sweep:
    """Run a sweep, on `jobs` threads or on any executor of `concurrent.futures`.

    With `out` what is finished is kept in that folder at once: after an interruption the same call
    goes on, and the folder gets the files of `maracas sweep`, the same bytes whatever ran the
    pieces. An executor gets pieces of so many sets, and needs this package where it runs them.
    """
    if not isinstance(study, Study):
        study = Study.read(study)
    if piece < 1:
        raise _maracas.Error(f"piece is {piece}; give 1 or more")
    native = study._study
    ledger, known = (None, "") if out is None else native.open(fspath(out))
    lines = [known]
    size = piece if executor is not None else 1
    threads = nullcontext(executor) if executor else ThreadPoolExecutor(jobs or cpu_count())
    with threads as pool:
        asked = [
            pool.submit(_piece, study.text, study.file, study.folder, items)
            for items in _pieces(native.missing(known), size)
        ]
        waiting = set(asked)
        try:
            for done in as_completed(asked):
                lines.append(done.result())
                waiting.discard(done)
                if ledger is not None:
                    ledger.note(lines[-1])
        except BaseException:
            # What is finished is kept; what has not begun is not worth waiting for.
            for future in waiting:
                over = not future.cancel() and future.done()
                if ledger is not None and over and future.exception() is None:
                    ledger.note(future.result())
            raise
        finally:
            if ledger is not None:
                ledger.close()
    finished = Sweep(study, "".join(lines))
    if out is not None:
        finished.write(out)
    return finished
