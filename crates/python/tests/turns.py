"""Policies for the tests: round-robin, as CONTRIBUTING.md grows it in Rust, and wrong ones."""

from __future__ import annotations

from typing import ClassVar

from maracas import (
    Arrived,
    Changed,
    Claims,
    Event,
    Grant,
    Left,
    Needs,
    Plan,
    Policy,
    Ran,
    System,
    Vcpu,
)


class Turns(Policy):
    """The VCPUs of a core take turns, a quantum each; promises nothing."""

    name: ClassVar[str] = "turns"
    summary: ClassVar[str] = "the VCPUs of a core take turns, a quantum each"
    needs: ClassVar[Needs] = Needs(budgets=False)
    claims: ClassVar[Claims] = Claims(partitioned=True, work_conserving=True)

    def __init__(self, system: System, quantum: int = 10_000_000) -> None:
        self.quantum = quantum
        self.queues: list[list[int]] = [[] for _ in range(system.cores)]
        self.meters: dict[int, int] = {}
        self.until: dict[int, int] = {}
        self.stale: set[int] = set()
        self.answers: list[tuple[int, int]] = []
        for vcpu in system.vcpus:
            self.enter(vcpu)

    def host(self, vcpu: Vcpu) -> int:
        cores = len(self.queues)
        return vcpu.id % cores if vcpu.core is None or vcpu.core >= cores else vcpu.core

    def enter(self, vcpu: Vcpu) -> None:
        core = self.host(vcpu)
        self.queues[core].append(vcpu.id)
        self.meters.setdefault(vcpu.id, 0)
        self.until.setdefault(vcpu.id, self.quantum)
        self.stale.add(core)
        self.answers.append((vcpu.id, core))

    def leave(self, vcpu: int) -> None:
        for core, queue in enumerate(self.queues):
            if vcpu in queue:
                queue.remove(vcpu)
                self.stale.add(core)

    def on_event(self, at: int, event: Event) -> None:
        match event:
            case Ran() if event.vcpu in self.queues[event.core]:
                self.meters[event.vcpu] += event.service
                if event.end in ("limit", "memory", "blocked"):
                    self.until[event.vcpu] = self.meters[event.vcpu] + self.quantum
                    self.queues[event.core].remove(event.vcpu)
                    self.queues[event.core].append(event.vcpu)
                    self.stale.add(event.core)
            case Arrived(vcpu):
                self.enter(vcpu)
            case Changed(vcpu):
                self.leave(vcpu.id)
                self.enter(vcpu)
            case Left(vcpu):
                self.leave(vcpu)
            case _:
                pass

    def plan(self, now: int, plan: Plan) -> None:
        for vcpu, core in self.answers:
            plan.set_home(vcpu, core)
            plan.admit(vcpu, core)
        for core in sorted(self.stale):
            plan.run(core, background=[Grant(it, self.until[it]) for it in self.queues[core]])
        self.answers, self.stale = [], set()

    def statistics(self) -> dict[str, int]:
        return {"vcpus": len(self.meters)}


class Picky(Turns):
    """Refuses VCPUs that ask for more than half a core."""

    name = "picky"

    @classmethod
    def admit(cls, system: System) -> dict[int, str]:
        heavy = [it.id for it in system.vcpus if it.utilization > 1 / 2]
        return {it: f"vcpu{it} asks for more than half a core; lower its budget" for it in heavy}


class Boastful(Turns):
    """Claims that no job is late, which is not so."""

    name = "boastful"
    claims = Claims(partitioned=True, no_miss_when_admitted=True)


class Sleepless(Turns):
    """Asks to be woken at once, which the contract forbids."""

    name = "sleepless"

    def plan(self, now: int, plan: Plan) -> None:
        super().plan(now, plan)
        plan.wake = now


class Twofold(Turns):
    """Puts a VCPU on the queues of two cores."""

    name = "twofold"

    def plan(self, now: int, plan: Plan) -> None:
        super().plan(now, plan)
        for core in range(len(plan)):
            plan.run(core, background=[Grant(0)])


class Broken(Turns):
    """Raises in the middle of a run."""

    name = "broken"

    def on_event(self, at: int, event: Event) -> None:
        if at > 5_000_000:
            raise RuntimeError(f"lost my way at {at}")
        super().on_event(at, event)
