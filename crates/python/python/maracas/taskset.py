"""Bare task sets: tasks alone, no scenario around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from maracas import _maracas

Time = str | int
"""A time: text with its unit, such as `"20ms"`, or whole nanoseconds."""


def nanoseconds(time: Time) -> int:
    """Return `time` in nanoseconds; raises `Error` where the text says none."""
    return _maracas.time(time) if isinstance(time, str) else time


def _micros(time: Time) -> str:
    """Write `time` as the columns of a task set do, exactly."""
    whole, rest = divmod(nanoseconds(time), 1000)
    return f"{whole}.{rest:03}" if rest else str(whole)


@dataclass(frozen=True, slots=True)
class Task:
    """A task: every job costs C, jobs come every T and are due D after their release."""

    name: str
    """What it is called in tables, charts and journals."""
    cost: Time
    """C, of every job."""
    period: Time
    """T."""
    deadline: Time | None = None
    """D, at most T; T where nothing is said."""
    offset: Time = 0
    """Release of the first job of a periodic task."""
    jobs: Literal["periodic", "sporadic"] = "periodic"
    """How jobs come: exactly T apart, or at least."""

    def _row(self) -> str:
        deadline = "" if self.deadline is None else _micros(self.deadline)
        times = f"{_micros(self.cost)},{_micros(self.period)},{deadline},{_micros(self.offset)}"
        return f"{self.name},{times},{self.jobs}"


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks, of our own making, from a file, or drawn at random."""

    tasks: Sequence[Task] = ()
    """The tasks, where they were given one by one; empty for those of a file."""
    file: str = field(default="<tasks>", compare=False)
    """What errors call it."""
    text: str | None = None
    """The text of a file, in place of `tasks`."""
    format: Literal["csv", "rt-app", "simso", "schedcat"] | None = None
    """The format of the text; by its file's name and its beginning where nothing is said."""

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        format: Literal["csv", "rt-app", "simso", "schedcat"] | None = None,
    ) -> TaskSet:
        """Read a file of any format that docs/formats.md lists."""
        return cls(file=str(path), text=Path(path).read_text(encoding="utf-8"), format=format)

    @classmethod
    def generate(
        cls,
        cores: int,
        utilization: str | float,
        tasks: int | None = None,
        *,
        loads: str = "randfixedsum",
        periods: str = "harmonic",
        seed: int = 1,
        sporadic: bool = False,
        offsets: bool = False,
        exact: bool = False,
    ) -> TaskSet:
        """Draw a random set, as `maracas generate` does by the same options and seed.

        `utilization` is a percentage of the cores (`"90%"`), or in cores (`3.6`, rounded to nine
        decimals); docs/tasksets.md has the words of `loads` and `periods`.
        """
        if not isinstance(utilization, str):
            utilization = f"{utilization:.9f}".rstrip("0").rstrip(".")
        text = _maracas.generate(
            cores, utilization, tasks, loads, periods, seed, sporadic, offsets, exact
        )
        return cls(file="<generated>", text=text, format="csv")

    def to_csv(self) -> str:
        """Return the set as CSV (docs/formats.md); raises for the text of another format."""
        if self.text is not None:
            # Those begin with a bracket or a comment, which no CSV does.
            other = self.format is None and self.text.lstrip()[:1] in ("{", "[", "/", "<")
            if other or self.format not in (None, "csv"):
                what = self.format or "it"
                raise _maracas.Error(f"{self.file}: `maracas convert` writes {what} as CSV")
            return self.text
        rows = [task._row() for task in self.tasks]
        head = "name,cost_us,period_us,deadline_us,offset_us,jobs"
        return "\n".join([head, *rows]) + "\n"

    def __iter__(self) -> Iterator[Task]:
        """Iterate over the tasks that were given one by one; raises for those of a text."""
        if self.text is not None:
            raise _maracas.Error(f"{self.file}: its tasks are text; `to_csv` returns them")
        return iter(self.tasks)

    def _source(self) -> tuple[str, str, str | None]:
        if self.text is None:
            return self.to_csv(), self.file, "csv"
        return self.text, self.file, self.format
