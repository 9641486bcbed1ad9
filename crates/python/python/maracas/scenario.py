"""Scenarios: programs, what each is promised, and the machine that they run on.

The fields are the keys of docs/scenario.md, which says what each means and may hold; a scenario is
written as such a file and read by the same reader as the command's, so that what is wrong is said
in the same words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from maracas import _maracas

Value = str | int | float | bool
"""A value of a key."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The machine: `[platform]`."""

    cores: int | None = None
    """How many; those of the preset, or of this machine, where nothing is said."""
    preset: str | None = None
    """A platform known by name, such as `"i5-2500k"`."""
    mhz: int | None = None
    """The clock in whose cycles memory latency is counted."""
    colors: Sequence[int] | None = None
    """Page colours of each core."""
    ways: Sequence[int] | None = None
    """Ways of each core, where the cache is split so."""
    dram: Mapping[str, Any] | None = None
    """Timings of the memory."""
    cache: Mapping[str, Any] | None = None
    """The last-level cache."""
    classes: Sequence[Mapping[str, Any]] | None = field(default=None, metadata={"key": "class"})
    """Classes of cores of uneven speed: `name`, `cores`, `speed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioVcpu:
    """A VCPU that several programs share: `[[vcpu]]`."""

    name: str
    """Its name, which programs say by `vcpu`."""
    budget: str | None = None
    """C, such as `"2ms"`."""
    period: str | None = None
    """T."""
    deadline: str | None = None
    """D; T where nothing is said."""
    core: int | None = None
    """The core that it must have."""
    colors: int | None = None
    """Page colours that its core must have."""
    weight: int | None = None
    """Its share among equals."""
    bandwidth: str | None = None
    """Memory bandwidth of its own."""
    criticality: Literal["high", "low"] | None = None
    """Whether its pages may be recoloured while it runs."""
    cores_class: str | None = field(default=None, metadata={"key": "class"})
    """The class of cores on which its budget is meant."""
    speedup: float | None = None
    """How much faster it is on the fastest class than on the slowest."""
    kind: Literal["main", "io"] | None = None
    """What it is for."""
    jobs: Literal["periodic", "sporadic"] | None = None
    """How its jobs come, where it has jobs."""
    offset: str | None = None
    """Release of its first job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(ScenarioVcpu):
    """A program, with a VCPU of its own unless `vcpu` names one: `[[program]]`."""

    command: Sequence[str] | None = None
    """What to start, on a live machine."""
    vcpu: str | None = None
    """The VCPU on which it runs, where that is not its own."""
    workload: Mapping[str, Any] | None = None
    """What it does with its time, in simulation: `{"kind": "periodic", "cost": "2ms"}`."""
    memory: Mapping[str, Any] | str | None = None
    """What it does to memory."""
    pace: Mapping[str, Any] | None = None
    """How fast it is on each class of cores."""
    threads: int | None = None
    """How many threads it has."""
    start: str | None = None
    """When it arrives."""
    stop: str | None = None
    """When it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario, from its parts or from the text of a file."""

    programs: Sequence[Program] = ()
    """The programs."""
    vcpus: Sequence[ScenarioVcpu] = ()
    """VCPUs for several programs."""
    platform: Platform = field(default_factory=Platform)
    """The machine."""
    policy: str = "maracas"
    """The policy."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """Its parameters, by name."""
    duration: str | None = None
    """How long."""
    seed: int = 1
    """The seed of everything random."""
    overheads: Mapping[str, str] = field(default_factory=dict)
    """What the simulator charges."""
    devices: Sequence[Mapping[str, Any]] = ()
    """What uses memory besides the cores."""
    file: str = field(default="<scenario>", compare=False)
    """What errors call it."""
    text: str | None = None
    """The text of a file, in place of all other fields."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Scenario:
        """Take the text of a file; it is checked where it is used."""
        return cls(file=str(path), text=Path(path).read_text(encoding="utf-8"))

    def to_toml(self) -> str:
        """Return the scenario as the file that the command reads."""
        if self.text is not None:
            return self.text
        run = {"duration": self.duration, "seed": self.seed}
        document: dict[str, Any] = {
            "version": 1,
            "platform": self.platform,
            "policy": {"name": self.policy, **self.params},
            "run": run,
            "overheads": self.overheads,
            "device": list(self.devices),
            "vcpu": list(self.vcpus),
            "program": list(self.programs),
        }
        return "\n".join(f"{key} = {_toml(value)}" for key, value in document.items() if value)

    def _source(self) -> tuple[str, str, str | None]:
        return self.to_toml(), self.file, "scenario"


def _pairs(value: Any) -> dict[str, Any]:
    """Return what stands in a table, without what is not said."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {it.metadata.get("key", it.name): getattr(value, it.name) for it in fields(value)}
    if not isinstance(value, Mapping):
        why = "is no value of a key; a policy class is for `simulate` and `check`"
        raise _maracas.Error(f"{value!r} {why}")
    return {key: it for key, it in value.items() if it is not None}


def _toml(value: Any) -> str:
    """Write a value on one line; JSON's strings, numbers, truths and lists are TOML's too."""
    if hasattr(value, "tolist"):
        # An array or a number of NumPy.
        value = value.tolist()
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        if value and not isinstance(value[0], str | int | float):
            # One a line, so that errors say which.
            return "[\n  " + ",\n  ".join(_toml(it) for it in value) + ",\n]"
        return "[" + ", ".join(_toml(it) for it in value) + "]"
    pairs = (f"{json.dumps(key)} = {_toml(it)}" for key, it in _pairs(value).items())
    return "{ " + ", ".join(pairs) + " }"
