"""Perfetto's own message classes read our trace, and find in it what the run's report says."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

import maracas
from conftest import ROOT

LENGTH = 1_000_000_000


def unknown(message: Any) -> list[str]:
    """Fields that the published definitions do not have, within the message and below."""
    name = message.DESCRIPTOR.name
    found = [f"{name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                found += unknown(inner)
    return found


class Read:
    """Slices, instants and counters by track, and what ran on each core, as a viewer reads them."""

    def __init__(self, trace: bytes) -> None:
        file = perfetto.Trace.FromString(trace)
        assert unknown(file) == []
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.counters: set[int] = set()
        self.slices: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
        self.instants: dict[int, list[str]] = defaultdict(list)
        self.ran: Counter[str] = Counter()
        on: dict[int, tuple[str, int]] = {}
        opened: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for packet in file.packet:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                self.names[track.uuid] = track.name
                self.parents[track.uuid] = track.parent_uuid
                if track.HasField("counter"):
                    self.counters.add(track.uuid)
        # The viewer sorts packets by time; of equal ones it keeps the order of the file.
        for packet in sorted(file.packet, key=lambda it: it.timestamp):
            if packet.HasField("track_event"):
                self.event(packet.timestamp, packet.track_event, opened)
            if packet.HasField("generic_kernel_task_state_event"):
                state = packet.generic_kernel_task_state_event
                if state.state == state.TASK_STATE_RUNNING:
                    assert state.cpu not in on, "two on one core"
                    on[state.cpu] = (state.comm, packet.timestamp)
                elif state.HasField("cpu"):
                    name, since = on.pop(state.cpu)
                    assert name == state.comm
                    self.ran[name] += packet.timestamp - since
        assert not any(opened.values()), "a slice without an end"

    def event(self, at: int, event: Any, opened: dict[int, list[tuple[str, int]]]) -> None:
        """Take in one event; its track was described."""
        track = event.track_uuid
        assert track in self.names
        if event.type == event.TYPE_SLICE_BEGIN:
            opened[track].append((event.name, at))
        elif event.type == event.TYPE_SLICE_END:
            name, since = opened[track].pop()
            self.slices[track].append((name, since, at))
        elif event.type == event.TYPE_INSTANT:
            self.instants[track].append(event.name)
        else:
            assert event.type == event.TYPE_COUNTER
            assert track in self.counters, "a value of what is no counter"


@pytest.mark.parametrize("example", ["periodic", "quickstart", "memory"])
def test_a_trace_says_what_the_report_says(example: str) -> None:
    scenario = maracas.Scenario.read(ROOT / "examples" / f"{example}.toml")
    run = maracas.simulate(scenario, until="1s", journal=True)
    report = run.report
    assert report["duration_ns"] == LENGTH
    read = Read(run.journal.perfetto())
    top = next(uuid for uuid, name in read.names.items() if name == "VCPUs")
    tracks = {
        name.split(" (")[0]: uuid for uuid, name in read.names.items() if read.parents[uuid] == top
    }
    for task in report["tasks"]:
        of = tracks[task["name"]]
        took: Counter[str] = Counter()
        for name, since, until in read.slices[of]:
            took[name] += until - since
        assert took["foreground"] == task["foreground_ns"]
        assert took["background"] == task["background_ns"]
        assert read.ran[task["name"]] == task["foreground_ns"] + task["background_ns"]
        jobs = [it for it, up in read.parents.items() if up == of and read.names[it] == "jobs"]
        released = [it for uuid in jobs for it in read.instants[uuid] if it.startswith("release")]
        assert len(released) == task["jobs"]
        missed = [it for uuid in jobs for it in read.instants[uuid] if "missed" in it]
        assert len(missed) == task["misses"]
        if task["jobs"]:
            drawn = {name for uuid in jobs for name, _, _ in read.slices[uuid]}
            assert task["completed"] <= len(drawn) <= task["jobs"]
