"""Checking, simulating and drawing one case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

from maracas import _maracas
from maracas.contract import Policy, System, _entry
from maracas.journal import SPAN, Journal
from maracas.scenario import Scenario, Value
from maracas.taskset import TaskSet, Time, nanoseconds

Chosen = str | type[Policy] | Callable[[System], Policy] | None
"""A policy: its name, a class of our own, or what makes one (`functools.partial` of a class)."""


class Refused(_maracas.Error):
    """The policy does not admit the system; `verdict` has every test's numbers."""

    def __init__(self, verdict: Verdict) -> None:
        """Say why, in the words of `maracas check`."""
        super().__init__(str(verdict).strip())
        self.verdict = verdict

    def __reduce__(self) -> tuple[type[Refused], tuple[Verdict]]:
        """Travel between processes with the verdict."""
        return Refused, (self.verdict,)


class Verdict:
    """What the policy's admission says of a system (`maracas check`)."""

    def __init__(self, text: str, numbers: dict[str, Any]) -> None:
        """Take the text and the numbers."""
        self._text = re.sub("\x1b\\[[0-9;]*m", "", text)
        self.numbers = numbers
        """Everything, as `maracas check --json` prints it."""

    @property
    def admitted(self) -> bool:
        """Whether everything is admitted."""
        return bool(self.numbers["admitted"])

    def __bool__(self) -> bool:
        """Return whether everything is admitted."""
        return self.admitted

    def __str__(self) -> str:
        """Return the verdict as `maracas check` prints it."""
        return self._text

    @property
    def notes(self) -> list[str]:
        """What was assumed and what this host lacks, a sentence each."""
        return list(self.numbers["notes"])

    @property
    def suggestions(self) -> list[str]:
        """Changes each of which would be admitted, where it is refused and they were asked for."""
        return list(self.numbers["suggestions"])

    @property
    def fit(self) -> Scenario | None:
        """The scenario in which no job is late, where jobs may be and one was asked for and found.

        `numbers["fit"]` says what was changed, or what stands in the way.
        """
        fit = self.numbers["fit"] or {}
        return Scenario(text=fit["scenario"]) if "scenario" in fit else None

    def __repr__(self) -> str:
        """Return the answer in a word."""
        return f"<maracas.Verdict: {self.numbers['verdict']}>"


class Simulation:
    """A run in the simulator.

    The report is there at once. What only a journal tells (`jobs`, charts) is simulated again with
    one when it is first asked for: the same case gives the same run.
    """

    def __init__(
        self,
        case: _maracas.Case,
        options: tuple[int | None, int, bool],
        keep: bool,
    ) -> None:
        """Simulate `case`; raises `Refused` where its policy does."""
        done = case.simulate(*options, keep)
        if done is None:
            raise Refused(_verdict(case))
        self._case, self._options = case, options
        self._report, self._table, self.notes, _ = done
        """Sentences for the user: what was assumed, what was refused when it arrived."""
        self._journal = _kept(done) if keep else None

    @cached_property
    def report(self) -> dict[str, Any]:
        """What was delivered, as `maracas sim --json` prints it (docs/output.md)."""
        report: dict[str, Any] = json.loads(self._report)
        return report

    @property
    def journal(self) -> Journal:
        """The journal, which is made when it is first asked for unless it was kept."""
        if self._journal is None:
            done = self._case.simulate(*self._options, True)
            self._journal = _kept(done)
        return self._journal

    @property
    def kept(self) -> bool:
        """Whether all that was promised was kept."""
        return bool(self.report["promise"]["kept"])

    @property
    def misses(self) -> int:
        """Jobs that were due by the end and unfinished at their deadline."""
        return int(self.report["total"]["misses"])

    @property
    def jobs(self) -> _maracas.Table:
        """One row for each job; the columns are those of `jobs.csv` (docs/output.md)."""
        return self.journal.jobs

    @property
    def pieces(self) -> _maracas.Table:
        """One row for each piece of a job, cut where its mode or core changes."""
        return self.journal.pieces

    def svg(self, start: Time = 0, end: Time | None = None, *, by_core: bool = False) -> str:
        """Draw the schedule from `start` to `end`, 100 ms of it where no end is said."""
        return self._until(start, end).svg(start, end, by_core=by_core)

    def text(
        self, start: Time = 0, end: Time | None = None, *, by_core: bool = False, width: int = 100
    ) -> str:
        """Draw the schedule with characters, on so many columns."""
        return self._until(start, end).text(start, end, by_core=by_core, width=width)

    def _until(self, start: Time, end: Time | None) -> Journal:
        """Return a journal that goes up to the end of a chart: what comes later changes nothing."""
        if self._journal is not None:
            return self._journal
        last = nanoseconds(start) + nanoseconds(SPAN) if end is None else nanoseconds(end)
        last = min(last, int(self.report["duration_ns"]))
        done = self._case.simulate(last, *self._options[1:], True)
        return _kept(done)

    def __str__(self) -> str:
        """Return the table that `maracas sim` prints."""
        return self._table

    def __repr__(self) -> str:
        """Return the run in a line."""
        total, seconds = self.report["total"], self.report["duration_ns"] / 1e9
        jobs, misses = total["jobs"], total["misses"]
        policy = self.report["policy"]
        return f"<maracas.Simulation: {policy}, {seconds:g} s, {jobs} jobs, {misses} missed>"

    def _repr_html_(self) -> str:
        """Show the begin of the schedule in a notebook."""
        return self.svg()


def _kept(done: _maracas._Simulated | None) -> Journal:
    """Return the journal of a simulation that was admitted and kept one."""
    if done is None or done[3] is None:
        raise _maracas.Error("the simulation kept no journal")
    return Journal(done[3])


class Tree:
    """What an optimal scheduler made of a task set before it started."""

    def __init__(self, text: str, svg: str, nodes: dict[str, Any]) -> None:
        """Take the three forms of it."""
        self._text = re.sub("\x1b\\[[0-9;]*m", "", text)
        self.svg = svg
        """The tree as a picture."""
        self.nodes = nodes
        """The tree as `maracas tree --json` prints it."""

    def __str__(self) -> str:
        """Return the tree as `maracas tree` prints it."""
        return self._text

    def _repr_html_(self) -> str:
        """Show the tree in a notebook."""
        return self.svg


def _case(
    subject: Scenario | TaskSet,
    policy: Chosen,
    cores: int | None,
    params: Mapping[str, Value] | None,
    seed: int | None = None,
    machine: Literal["sim", "live"] = "sim",
) -> _maracas.Case:
    if machine not in ("sim", "live"):
        raise _maracas.Error(f'machine is "{machine}"; give "sim" or "live"')
    live = machine == "live"
    text, file, format = subject._source()
    if params and policy is not None and not isinstance(policy, str):
        raise _maracas.Error("a policy class takes no `params`; use functools.partial")
    given = [(name, _given(value)) for name, value in (params or {}).items()]
    if policy is None or isinstance(policy, str):
        return _maracas.Case(text, file, format, policy, given, cores, seed, live, None)
    return _maracas.Case(text, file, format, None, given, cores, seed, live, _entry(policy))


def _given(value: Value) -> str | int | bool:
    return str(value) if isinstance(value, float) else value


def _verdict(case: _maracas.Case, suggest: bool = False) -> Verdict:
    text, numbers = case.verdict(suggest)
    return Verdict(text, json.loads(numbers))


def check(
    subject: Scenario | TaskSet,
    *,
    policy: Chosen = None,
    cores: int | None = None,
    params: Mapping[str, Value] | None = None,
    machine: Literal["sim", "live"] = "sim",
    suggest: bool = False,
) -> Verdict:
    """Say whether a scenario or task set would be admitted, with every test's numbers.

    A task set needs `policy` and `cores`; for a scenario they take the place of its own. `params`
    are parameters of the policy (`maracas policies NAME` lists them).

    With `machine="live"` it is this host that a scenario is checked for, as `maracas run` would do
    before it starts anything; that needs no rights. `suggest` asks for what would be admitted in
    its place: `Verdict.suggestions` and `Verdict.fit`.
    """
    return _verdict(_case(subject, policy, cores, params, machine=machine), suggest)


def simulate(
    subject: Scenario | TaskSet,
    *,
    policy: Chosen = None,
    cores: int | None = None,
    params: Mapping[str, Value] | None = None,
    until: Time | None = None,
    seed: int | None = None,
    late: Time = 0,
    hidden_wakes: bool = False,
    journal: bool = False,
) -> Simulation:
    """Simulate a scenario or task set, as `maracas sim` does; raises `Refused` where it is refused.

    `until` is how long: else the scenario's duration, or 10 s. Decisions come late by up to `late`;
    with `hidden_wakes` wakes show only at switch-in, as on a live machine. `journal` keeps one at
    once, for whoever will ask for it anyway.
    """
    until_ns = None if until is None else nanoseconds(until)
    options = (until_ns, nanoseconds(late), hidden_wakes)
    return Simulation(_case(subject, policy, cores, params, seed), options, journal)


def tree(
    subject: Scenario | TaskSet,
    *,
    policy: str | None = None,
    cores: int | None = None,
    params: Mapping[str, Value] | None = None,
) -> Tree:
    """Return RUN's reduction tree or QPS's hierarchy; raises `Refused` where these refuse."""
    case = _case(subject, policy, cores, params)
    drawn = case.tree()
    if drawn is None:
        raise Refused(_verdict(case))
    text, svg, nodes = drawn
    return Tree(text, svg, json.loads(nodes))
