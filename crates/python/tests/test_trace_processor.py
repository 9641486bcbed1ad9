"""Perfetto's own trace processor reads our traces, and its SQL finds what the run's report says.

The program is in no registry of packages; docs/output.md says how to get it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

from conftest import ROOT, Command, skip

# Time in each state by VCPU: the tracks below `VCPUs`, which are named `control (2ms/10ms)`.
STATES = """
    SELECT track.name AS vcpu, slice.name AS state, COUNT(*) AS count, SUM(slice.dur) AS ns
    FROM slice
    JOIN track ON track.id = slice.track_id
    JOIN track AS above ON above.id = track.parent_id
    WHERE above.name = 'VCPUs'
    GROUP BY vcpu, state
"""
# What ran on the cores, by VCPU; how often it went on on another core.
CORES = """
    SELECT name AS vcpu, COUNT(*) AS count, SUM(dur) AS ns, SUM(cpu != before) AS migrations
    FROM (
        SELECT thread.name, dur, cpu, LAG(cpu) OVER (PARTITION BY utid ORDER BY ts) AS before
        FROM sched_slice
        JOIN thread USING (utid)
    )
    GROUP BY vcpu
"""
# Instants and slices of the tracks `jobs`, by the first word of their names.
JOBS = """
    SELECT above.name AS vcpu, slice.name AS name, slice.dur AS ns
    FROM slice
    JOIN track ON track.id = slice.track_id
    JOIN track AS above ON above.id = track.parent_id
    WHERE track.name = 'jobs'
"""
COUNTERS = """
    SELECT track.name AS name, COUNT(*) AS count, SUM(counter.value) AS sum
    FROM counter
    JOIN counter_track AS track ON track.id = counter.track_id
    GROUP BY track.name
"""
# What the trace processor itself found wrong with a trace.
ERRORS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
MISSED = re.compile(r"deadline \d+ missed")


def rows(reader: TraceProcessor, sql: str) -> list[dict[str, Any]]:
    return [dict(row.__dict__) for row in reader.query(sql)]


@pytest.fixture
def program() -> str:
    """The trace processor of this host."""
    program = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if program is None or not Path(program).exists():
        skip("trace_processor_shell")
    return program


def opened(program: str, trace: Path) -> TraceProcessor:
    # Seconds to start: a busy host is slow.
    config = TraceProcessorConfig(bin_path=program, load_timeout=120)
    return TraceProcessor(trace=str(trace), config=config)


def traces(
    command: Command, example: str, folder: Path, *more: str
) -> tuple[dict[str, Any], list[Path]]:
    """Simulate a second; its report, and its trace as it was written and from the journal."""
    ran, again, journal = (folder / name for name in ("run.pftrace", "replay.pftrace", "journal"))
    scenario = ROOT / "examples" / f"{example}.toml"
    words = ["sim", scenario, "--until", "1s", "--json", "--trace", ran, "--journal", journal]
    simulated = command(*words, *more)
    assert simulated.returncode in (0, 4), simulated.stderr
    replayed = command("replay", journal, "--trace", again)
    assert replayed.returncode == 0, replayed.stderr
    return json.loads(simulated.stdout), [ran, again]


# With jobs in time, jobs that miss, budgets alone, memory and its limits, and migrations.
@pytest.mark.parametrize(
    "words",
    ["periodic", "periodic --policy round-robin", "quickstart", "throttle", "global"],
)
def test_sql_finds_what_the_report_says(
    words: str, program: str, command: Command, tmp_path: Path
) -> None:
    report, paths = traces(command, words.split()[0], tmp_path, *words.split()[1:])
    for path in paths:
        with opened(program, path) as reader:
            assert rows(reader, ERRORS) == []
            states = {(it["vcpu"].split(" (")[0], it["state"]): it for it in rows(reader, STATES)}
            cores = {it["vcpu"]: it for it in rows(reader, CORES)}
            jobs = rows(reader, JOBS)
            counters = {it["name"]: it for it in rows(reader, COUNTERS)}
        names = {task["name"] for task in report["tasks"]}
        assert {vcpu for vcpu, _ in states} <= names
        assert set(cores) <= names
        for task in report["tasks"]:
            check_times(task, states, cores)
            check_jobs(task, [it for it in jobs if it["vcpu"].split(" (")[0] == task["name"]])
        check_memory(report, counters)


def check_times(task: dict[str, Any], states: dict[Any, Any], cores: dict[str, Any]) -> None:
    """Times by role and core are the report's, and each interval on a core is one of a state."""
    none = {"count": 0, "ns": 0, "migrations": 0}
    of = {role: states.get((task["name"], role), none) for role in ("foreground", "background")}
    assert of["foreground"]["ns"] == task["foreground_ns"]
    assert of["background"]["ns"] == task["background_ns"]
    ran = cores.get(task["name"], none)
    assert ran["ns"] == task["foreground_ns"] + task["background_ns"]
    assert ran["count"] == of["foreground"]["count"] + of["background"]["count"]
    # Within jobs and from job to job.
    assert (ran["migrations"] or 0) == task["migrations"] + task["task_migrations"]


def check_jobs(task: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """Every job has its release; every missed deadline stands there."""
    names = [it["name"] for it in found]
    assert len([it for it in names if it.startswith("release ")]) == task["jobs"]
    assert len([it for it in names if MISSED.fullmatch(it)]) == task["misses"]
    drawn = [it for it in names if it.startswith("job ")]
    assert task["completed"] <= len(drawn) <= task["jobs"]


def check_memory(report: dict[str, Any], counters: dict[str, dict[str, Any]]) -> None:
    """Counters of memory are there where a policy samples it, and of cores that used it."""
    used = {f"core{it['core']} requests/ms" for it in report["cores"] if it["requests"]}
    assert {name for name in counters if name.endswith("requests/ms")} == used
    samples = counters.get("requests per sample", {"count": 0, "sum": 0})
    statistics = {it["name"]: it["value"] for it in report["statistics"]}
    assert samples["count"] == statistics.get("samples", 0)
    if samples["count"]:
        assert 0 < samples["sum"] <= report["memory"]["requests"]


def queries() -> Iterator[str]:
    """The queries that docs/output.md has."""
    text = (ROOT / "docs" / "output.md").read_text()
    return (block.split("```")[0] for block in text.split("```sql\n")[1:])


def test_the_queries_of_the_documents_answer(
    program: str, command: Command, tmp_path: Path
) -> None:
    report, paths = traces(command, "periodic", tmp_path)
    with opened(program, paths[0]) as reader:
        longest, shares = (rows(reader, sql) for sql in queries())
    # Each starts when its predecessor is done, and none is late: from its release to its end.
    by_vcpu = {it["vcpu"].split(" (")[0]: it for it in longest}
    for task in report["tasks"]:
        assert by_vcpu[task["name"]]["jobs"] == task["completed"]
        assert by_vcpu[task["name"]]["longest_ns"] == task["response_max_ns"]
    ran = {task["name"]: task["foreground_ns"] + task["background_ns"] for task in report["tasks"]}
    for name, ns in ran.items():
        assert sum(it["ns"] for it in shares if it["vcpu"] == name) == ns
