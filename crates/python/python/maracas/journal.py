"""Journals: the whole of a run, event by event."""

from __future__ import annotations

import json
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from maracas import _maracas
from maracas.taskset import Time, nanoseconds

SPAN = "100ms"
"""How much of a schedule is drawn where no end is said."""


class Journal:
    """A journal, of a simulation or of a live run, and what is made of it."""

    def __init__(self, journal: bytes | _maracas.Journal) -> None:
        """Take the bytes of a journal; raises `Error` where they are none."""
        self._journal = _maracas.Journal(journal) if isinstance(journal, bytes) else journal

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Journal:
        """Read the file that `maracas run --journal` or `maracas sim --journal` wrote."""
        return cls(Path(path).read_bytes())

    def __bytes__(self) -> bytes:
        """Return the bytes, as `maracas replay` reads them."""
        return self._journal.to_bytes()

    @cached_property
    def report(self) -> dict[str, Any]:
        """What was delivered, as `maracas sim --json` prints it (docs/output.md)."""
        report: dict[str, Any] = json.loads(self._journal.report())
        return report

    @cached_property
    def jobs(self) -> _maracas.Table:
        """One row for each job; the columns are those of `jobs.csv` (docs/output.md)."""
        return self._journal.jobs()

    @cached_property
    def pieces(self) -> _maracas.Table:
        """One row for each piece of a job, cut where its mode or core changes."""
        return self._journal.pieces()

    @cached_property
    def samples(self) -> _maracas.Table:
        """One row for each sample of memory."""
        return self._journal.samples()

    @cached_property
    def speeds(self) -> _maracas.Table:
        """One row for each VCPU and window of time, on cores of uneven speed."""
        return self._journal.speeds()

    def replay(self) -> dict[str, Any]:
        """Give the events to a fresh policy and compare every decision (`maracas replay`)."""
        replayed: dict[str, Any] = json.loads(self._journal.replay())
        return replayed

    def perfetto(self) -> bytes:
        """Return a trace that Perfetto opens (ui.perfetto.dev)."""
        return self._journal.perfetto()

    def svg(self, start: Time = 0, end: Time | None = None, *, by_core: bool = False) -> str:
        """Draw the schedule from `start` to `end`, 100 ms of it where no end is said."""
        first, last = _span(start, end)
        return self._journal.svg(first, last, by_core)

    def text(
        self, start: Time = 0, end: Time | None = None, *, by_core: bool = False, width: int = 100
    ) -> str:
        """Draw the schedule with characters, on so many columns."""
        first, last = _span(start, end)
        return self._journal.text(first, last, by_core, width)

    def _repr_html_(self) -> str:
        """Show the begin of the schedule in a notebook."""
        return self.svg()


def _span(start: Time, end: Time | None) -> tuple[int, int]:
    first = nanoseconds(start)
    last = first + nanoseconds(SPAN) if end is None else nanoseconds(end)
    if last <= first:
        raise _maracas.Error(f"the end {end} must lie after the start {start}")
    return first, last
