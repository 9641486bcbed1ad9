"""The contract between a policy and a machine, for policies written in Python.

A policy learns what happened by `Policy.on_event` and says by `Policy.plan` what should happen
until something else is decided. It must be pure: no clock, no randomness, no sets whose order
varies, so that the same events give the same plans. All times are whole ticks: nanoseconds, unless
an exact study scales them (`System.ticks_per_ns`). Rules, for policies:

1. A VCPU stands on at most one core's queue.
2. `plan` called twice changes nothing; any legal order of events and any lateness must leave the
   policy's invariants whole.
3. Replenishment instants come from releases and periods, never from a late `now`.
4. After `plan`, `Plan.wake` lies after `now`.

Between decisions every core runs by itself the first runnable VCPU of its queue whose grant is not
spent: of the foreground, else, if that is allowed, of the background; else it idles. A VCPU with
jobs is runnable while it has an uncompleted released job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from maracas import _maracas


class Vcpu(NamedTuple):
    """The one schedulable thing: a task, or threads with one reservation."""

    id: int
    """Its name in events and plans."""
    budget: int
    """C: time on a core per period; 0 = it is promised nothing."""
    period: int
    """T."""
    deadline: int
    """D, at most T."""
    arrival: Literal["periodic", "sporadic", "none"]
    """How its jobs come; `"none"` = it has none."""
    offset: int
    """Release of the first job of a periodic one."""
    role: Literal["main", "io", "monitor", "migration"]
    """What it is for."""
    core: int | None
    """The core that the user demands, if any."""
    weight: int
    """Share among equals where a policy weighs them."""
    bandwidth: int | None
    """Memory bandwidth of its own in bytes per second, where a policy regulates it."""

    @property
    def utilization(self) -> Fraction:
        """C / T."""
        return Fraction(self.budget, self.period)


class System(NamedTuple):
    """The platform and the VCPUs that are there from the start."""

    cores: int
    """How many cores; they are numbered from 0."""
    vcpus: tuple[Vcpu, ...]
    """By increasing id."""
    capacity_parts: tuple[int, int]
    """Numerator and denominator of `capacity`."""
    speeds: tuple[int, ...]
    """By core, how fast it is, the fastest class being 1000."""
    ticks_per_ns: int
    """Ticks in a nanosecond; 1 unless an exact study scales time."""

    @property
    def capacity(self) -> Fraction:
        """The share of each core that reservations may take."""
        return Fraction(*self.capacity_parts)


class Ran(NamedTuple):
    """A VCPU ran for one segment on one core in one mode."""

    vcpu: int
    """Which."""
    core: int
    """Where."""
    mode: Literal["foreground", "background"]
    """On its budget, or on surplus time."""
    start: int
    """When it began."""
    stop: int
    """When it ended."""
    service: int
    """Time on the core as its meter charges it."""
    end: Literal["blocked", "preempted", "limit", "memory", "moved", "metered", "exited"]
    """Why it ended: its grant's `"limit"`, its `"memory"` limit, nothing to run, ..."""
    references: int
    """References to the last-level cache."""
    reads: int
    """Memory reads."""
    writes: int
    """Memory writes."""
    instructions: int
    """Instructions retired."""


class Released(NamedTuple):
    """A job was released."""

    vcpu: int
    """Whose."""
    job: int
    """Its number, from 0."""
    release: int
    """When, by the task's own time."""
    deadline: int
    """Its absolute deadline."""


class Completed(NamedTuple):
    """A job received all its service."""

    vcpu: int
    """Whose."""
    job: int
    """Its number, from 0."""


class Woke(NamedTuple):
    """A VCPU became runnable other than by a release."""

    vcpu: int
    """Which."""
    on_behalf: int | None
    """The VCPU for which an I/O VCPU was woken, where known."""
    exact: bool
    """False where the wake was seen only when the VCPU was switched in."""


class AllowanceSpent(NamedTuple):
    """A core's memory meter reached its allowance; the core is closed."""

    core: int
    """Which."""


class Arrived(NamedTuple):
    """A VCPU asks to be admitted; the next plan answers, by `Plan.admit` or `Plan.refuse`."""

    vcpu: Vcpu
    """What it asks for."""


class Left(NamedTuple):
    """A VCPU is gone; its id is never used again."""

    vcpu: int
    """Which."""


class Changed(NamedTuple):
    """The reservation of a VCPU must be replaced; answered like `Arrived`."""

    vcpu: Vcpu
    """What it asks for."""


Event = Ran | Released | Completed | Woke | AllowanceSpent | Arrived | Left | Changed
"""Something that happened."""


class Grant(NamedTuple):
    """Leave to run while the VCPU's meter of this mode reads less than `until`.

    A limit is a reading of a meter, not an amount of time: the service that the VCPU received in
    this mode since it came. So a late or a repeated plan does no harm.
    """

    vcpu: int
    """The VCPU that may run."""
    until: int | None = None
    """Up to which reading of its meter; None = for ever."""
    memory: int | None = None
    """Up to which reading of its memory meter; None = whatever it uses."""


@dataclass(frozen=True, slots=True)
class RunQueue:
    """What one core may run until the next decision, in order of priority."""

    foreground: tuple[Grant, ...] = ()
    """VCPUs in budget."""
    background: tuple[Grant, ...] = ()
    """VCPUs that may use surplus time."""
    background_allowed: bool = True
    """Whether surplus time may be used at all."""
    allowance: int | None = None
    """The reading of the core's memory meter at which the core closes."""


class Plan:
    """What should happen until something else is decided: the policy's own last plan, to change."""

    __slots__ = ("_answers", "_changed", "_homes", "_queues", "wake", "wake_metered")

    def __init__(self, cores: int) -> None:
        """Begin with empty queues: everything idles."""
        self._queues = [RunQueue()] * cores
        self._changed: set[int] = set()
        self._homes: list[tuple[int, int | None]] = []
        self._answers: list[tuple[int, int, str | None]] = []
        self.wake: int | None = None
        """When to ask again at the latest; None = only after events."""
        self.wake_metered = False
        """Whether the running segments must be reported at `wake`."""

    def __len__(self) -> int:
        """Return the number of cores."""
        return len(self._queues)

    def __getitem__(self, core: int) -> RunQueue:
        """Return the queue of a core."""
        return self._queues[core]

    def __setitem__(self, core: int, queue: RunQueue) -> None:
        """Replace the queue of a core."""
        self._queues[core] = queue
        self._changed.add(core)

    def run(
        self, core: int, foreground: Iterable[Grant] = (), background: Iterable[Grant] = ()
    ) -> None:
        """Replace the queue of a core by these grants."""
        self[core] = RunQueue(tuple(foreground), tuple(background))

    def set_home(self, vcpu: int, core: int | None) -> None:
        """Say where a VCPU waits while it stands on no queue; None = wherever it last ran."""
        self._homes.append((vcpu, core))

    def admit(self, vcpu: int, core: int = 0) -> None:
        """Answer `Arrived` or `Changed`: yes, on this core (0 where the policy is global)."""
        self._answers.append((vcpu, core, None))

    def refuse(self, vcpu: int, reason: str) -> None:
        """Answer `Arrived` or `Changed`: no, and why, in a sentence."""
        self._answers.append((vcpu, 0, reason))

    def _take(self) -> tuple[Any, ...]:
        """Hand over what changed, once."""
        queues = []
        for core in sorted(self._changed):
            queue = self._queues[core]
            lists = [list(queue.foreground), list(queue.background)]
            queues.append((core, *lists, queue.background_allowed, queue.allowance))
        taken = (queues, self._homes, self._answers, self.wake, self.wake_metered)
        self._changed, self._homes, self._answers = set(), [], []
        return taken


@dataclass(frozen=True, slots=True)
class Needs:
    """What a policy requires of a machine."""

    jobs: bool = False
    """Demand must come as jobs whose ends are reported."""
    visible_wakes: bool = False
    """Wakes must be seen when they happen."""
    counters: bool = False
    """Memory counters must work."""
    budgets: bool = True
    """Every VCPU must have a reservation."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a policy claims, and `check_policy` checks."""

    partitioned: bool = False
    """No VCPU changes core."""
    work_conserving: bool = False
    """No core idles while an admitted VCPU is runnable: anywhere, or there where partitioned."""
    no_miss_when_admitted: bool = False
    """No job of an admitted set misses its deadline while every job stays within its budget."""


class Policy:
    """A scheduling policy. Derive from it, and give it where a policy's name may stand.

    It is made anew for each run, by the class itself or by what is given in its place: for a policy
    with parameters, `functools.partial(MyPolicy, quantum=5_000_000)`.
    """

    name: ClassVar[str] = "python"
    """What reports call it."""
    summary: ClassVar[str] = ""
    """One sentence."""
    needs: ClassVar[Needs] = Needs()
    """What it requires."""
    claims: ClassVar[Claims] = Claims()
    """What it claims."""

    def __init__(self, system: System) -> None:
        """Begin on a system that was admitted; keep what is needed of it."""

    @classmethod
    def admit(cls, system: System) -> Mapping[int, str]:
        """Return the VCPUs that are refused, by id, each with a sentence that says why."""
        return {}

    def on_event(self, at: int, event: Event) -> None:
        """Learn what happened, and when: at or before now, in order on each core, perhaps late."""
        raise NotImplementedError

    def plan(self, now: int, plan: Plan) -> None:
        """Decide. May be called at any time; calling it again changes nothing."""
        raise NotImplementedError

    def statistics(self) -> Mapping[str, int]:
        """Return what the policy counted of its own doings, for reports."""
        return {}


class _Entry(NamedTuple):
    """What the machine knows of a policy, and how it makes one."""

    name: str
    summary: str
    needs: Needs
    claims: Claims
    admit: Callable[[System], dict[int, str]]
    build: Callable[[System], Policy]


def _entry(make: Callable[[System], Policy]) -> _Entry:
    """Return the entry of a class, or of what makes its objects."""
    of = make.func if isinstance(make, partial) else make
    if not (isinstance(of, type) and issubclass(of, Policy)):
        shown = getattr(make, "__name__", repr(make))
        raise _maracas.Error(
            f"{shown} is no policy; give a policy's name, a class derived from maracas.Policy, or "
            "a functools.partial of one"
        )
    return _Entry(of.name, of.summary, of.needs, of.claims, lambda it: dict(of.admit(it)), make)


def check_policy(policy: Callable[[System], Policy], seeds: int = 20) -> dict[str, int]:
    """Hold a policy to the contract tests that the project's own policies pass.

    Each test runs it on `seeds` random systems of every kind: on time, late, with hidden wakes,
    with everything charged, and asked again. Returns by test how many systems it admitted; raises
    `ContractError` with the case at the first that fails, or what the policy itself raises.
    """
    return dict(_maracas.check_policy(_entry(policy), seeds))
