"""The module against the command: the same answers, the same sentences, tables without copies."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import maracas
from conftest import Command


def test_the_wheel_holds_the_command_of_its_version(command: Command) -> None:
    assert command("--version").stdout == f"maracas {maracas.__version__}\n"


@pytest.mark.parametrize("name", ["quickstart", "periodic", "io", "memory", "uneven"])
def test_scenarios_come_out_as_the_command_says(
    examples: Path, command: Command, name: str
) -> None:
    file = examples / f"{name}.toml"
    scenario = maracas.Scenario.read(file)
    ran = maracas.simulate(scenario, until="1s")
    theirs = command("sim", file, "--until", "1s", "--json", "--quiet")
    assert ran.report == json.loads(theirs.stdout)
    assert str(ran) == command("sim", file, "--until", "1s", "--quiet").stdout
    verdict = maracas.check(scenario)
    assert str(verdict) == command("check", file).stdout
    assert verdict.admitted
    numbers = json.loads(command("check", file, "--json").stdout)
    assert verdict.numbers == {key: numbers[key] for key in verdict.numbers}


@pytest.fixture
def tasks_file(tasks: maracas.TaskSet, tmp_path: Path) -> Path:
    file = tmp_path / "set.csv"
    file.write_text(tasks.to_csv())
    return file


@pytest.mark.parametrize("policy", ["run", "g-edf", "qps"])
def test_task_sets_come_out_as_the_command_says(
    tasks: maracas.TaskSet, tasks_file: Path, command: Command, policy: str, tmp_path: Path
) -> None:
    if policy != "g-edf":
        # The optimal ones take implicit deadlines only.
        tasks = maracas.TaskSet([maracas.Task(it.name, it.cost, it.period) for it in tasks])
        tasks_file.write_text(tasks.to_csv())
    ran = maracas.simulate(tasks, policy=policy, cores=2, until="2s", seed=7)
    case = ["--taskset", tasks_file, "--policy", policy, "--cores", "2"]
    sim = ["sim", *case, "--until", "2s", "--seed", "7", "--json", "--csv", tmp_path / "csv"]
    theirs = command(*sim, "--journal", tmp_path / "run.journal")
    assert ran.report == json.loads(theirs.stdout)
    assert bytes(ran.journal) == (tmp_path / "run.journal").read_bytes()
    jobs = pl.read_csv(tmp_path / "csv" / "jobs.csv", schema_overrides={"cores": pl.String})
    assert pl.DataFrame(ran.jobs).to_dicts() == jobs.to_dicts()


def test_what_is_wrong_is_said_in_the_same_words(
    tasks: maracas.TaskSet, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('version = 1\n[[program]]\nname = "a"\nbudget = "30ms"\nperiod = "20ms"\n')
    with pytest.raises(maracas.Error) as raised:
        maracas.check(maracas.Scenario.read(file))
    assert f"maracas: {raised.value}\n" == command("check", file).stderr
    with pytest.raises(
        maracas.Error, match='unknown policy "g-edff"; did you mean "g-edf"'
    ) as raised:
        maracas.simulate(tasks, policy="g-edff", cores=2)
    with pytest.raises(maracas.Error, match="needs --policy"):
        maracas.check(tasks, cores=2)
    with pytest.raises(maracas.Error, match='"20 ms fast" has an unknown unit'):
        maracas.nanoseconds("20 ms fast")
    with pytest.raises(maracas.Error, match="`quantm` is no parameter of round-robin"):
        maracas.check(tasks, policy="round-robin", cores=2, params={"quantm": "1ms"})
    with pytest.raises(maracas.Refused) as refused:
        maracas.simulate(tasks, policy="p-edf", cores=1)
    assert "refused" in str(refused.value)


def test_a_scenario_of_dataclasses_is_one_of_a_file(command: Command, tmp_path: Path) -> None:
    scenario = maracas.Scenario(
        platform=maracas.Platform(preset="i5-2500k", colors=[4, 4, 10, 14]),
        vcpus=[maracas.ScenarioVcpu(name="shared", budget="1ms", period="10ms", weight=3)],
        programs=[
            maracas.Program(
                name="control",
                budget="2ms",
                period="10ms",
                jobs="periodic",
                workload={"kind": "periodic", "cost": {"uniform": ["1ms", "2ms"]}},
            ),
            maracas.Program(name="a", vcpu="shared", workload={"kind": "busy"}),
        ],
        params={"admission": "rta"},
        duration="500ms",
        seed=42,
    )
    file = tmp_path / "scenario.toml"
    file.write_text(scenario.to_toml())
    theirs = json.loads(command("sim", file, "--json", "--quiet").stdout)
    assert maracas.simulate(scenario).report == theirs
    assert theirs["seed"] == 42
    assert [it["name"] for it in theirs["tasks"]][:2] == ["shared", "control"]
    with pytest.raises(maracas.Error, match="<scenario>:6:"):
        maracas.check(maracas.Scenario(programs=[maracas.Program(name="a", budget="1")]))


def test_tables_are_read_by_other_libraries_without_a_copy(tasks: maracas.TaskSet) -> None:
    table = maracas.simulate(tasks, policy="g-edf", cores=2, until="1s").jobs
    rows = table.to_dicts()
    assert len(rows) == len(table) > 190
    arrow = pa.table(table)
    assert arrow.to_pylist() == rows
    assert pl.DataFrame(table).to_dicts() == rows
    duck = duckdb.sql("select count(*), sum(acet_ns), max(response_ns) from arrow").fetchall()
    assert duck == [(len(rows), sum(table["acet_ns"]), max(table["response_ns"]))]
    frame = pd.DataFrame.from_arrow(table)
    assert frame["task"].tolist() == table["task"]
    # Two readers see one buffer: no bytes were copied on the way.
    first, second = pa.table(table), pa.table(table)
    for name in ("acet_ns", "task"):
        buffers = [it[name].chunk(0).buffers()[-1].address for it in (first, second)]
        assert buffers[0] == buffers[1]
    with pytest.raises(KeyError, match='no column "respons_ns"; did you mean "response_ns"'):
        table["respons_ns"]


def test_a_schedule_is_drawn(tasks: maracas.TaskSet, command: Command, tmp_path: Path) -> None:
    ran = maracas.simulate(tasks, policy="g-edf", cores=2, until="1s")
    journal, svg = tmp_path / "run.journal", tmp_path / "chart.svg"
    journal.write_bytes(bytes(ran.journal))
    assert command("gantt", journal, "--svg", svg).returncode == 0
    html = ran._repr_html_()
    assert html == svg.read_text()
    # The journal is not needed for it.
    fresh = maracas.simulate(tasks, policy="g-edf", cores=2, until="1s")
    assert fresh.svg("20ms", "60ms", by_core=True) == ran.svg("20ms", "60ms", by_core=True)
    assert "camera" in ran.text("0ms", "50ms")
    with pytest.raises(maracas.Error, match="must lie after the start"):
        ran.svg("50ms", "50ms")


def test_journals_are_read_and_replayed(tasks: maracas.TaskSet) -> None:
    ran = maracas.simulate(tasks, policy="g-edf", cores=2, until="1s", journal=True)
    journal = maracas.Journal(bytes(ran.journal))
    assert journal.replay()["exact"] is True
    assert journal.report["total"] == ran.report["total"]
    assert journal.perfetto()[:1] == b"\n"
    with pytest.raises(maracas.Error):
        maracas.Journal(b"no journal")


def test_trees_memories_and_menus(tasks_file: Path, command: Command) -> None:
    tasks = maracas.TaskSet.generate(3, 3.0, 8, seed=5)
    tasks_file.write_text(tasks.to_csv())
    made = maracas.tree(tasks, policy="run", cores=3)
    case = ["tree", "--taskset", tasks_file, "--policy", "run", "--cores", "3"]
    assert str(made).split("\n", 1)[1] == command(*case).stdout.split("\n", 1)[1]
    assert made.nodes["subsystems"] == json.loads(command(*case, "--json").stdout)["subsystems"]
    assert made._repr_html_().startswith("<svg")
    with pytest.raises(maracas.Error, match="g-edf has no tree; these have: qps, run"):
        maracas.tree(tasks, policy="g-edf", cores=3)
    one = {"pattern": "jump", "W": 2, "Z_ns": 3.1, "wb": 0}
    solved = maracas.memory("ddr3-1333", [one])
    assert 0 < solved["total_GBps"] < 10.7
    with pytest.raises(maracas.Error, match='requestors\\[0\\] has no "pattern"; add it'):
        maracas.memory("ddr3-1333", [{}])
    assert {"run", "g-edf", "maracas"} <= {it["name"] for it in maracas.policies()}


def test_papers_are_reproduced(command: Command) -> None:
    (table2,) = maracas.reproduce("maracas-table2")
    theirs = json.loads(command("reproduce", "maracas-table2", "--json", "--quiet").stdout)
    assert table2.findings == theirs["maracas-table2"]
    assert "maracas-table2" in {it["name"] for it in maracas.experiments()}
    with pytest.raises(maracas.Error, match='unknown experiment "maracas-tabel2"; did you mean'):
        maracas.reproduce("maracas-tabel2")


def test_generated_sets_are_those_of_the_command(command: Command) -> None:
    options = ["--cores", "4", "--tasks", "20", "--utilization", "90%", "--seed", "3"]
    ours = maracas.TaskSet.generate(4, "90%", 20, seed=3)
    assert ours.to_csv() == command("generate", *options).stdout


TOO_MUCH = """version = 1
[platform]
cores = 1
[policy]
name = "maracas"
[[program]]
name = "a"
command = ["/bin/true"]
budget = "6ms"
period = "10ms"
[[program]]
name = "b"
command = ["/bin/true"]
budget = "6ms"
period = "10ms"
"""


def test_what_would_be_admitted_is_suggested_as_the_command_does(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "much.toml"
    file.write_text(TOO_MUCH)
    verdict = maracas.check(maracas.Scenario.read(file), suggest=True)
    assert str(verdict) == command("check", file, "--suggest").stdout
    assert not verdict
    assert verdict.suggestions
    assert verdict.fit is None
    assert maracas.check(maracas.Scenario.read(file)).suggestions == []


def test_scenarios_are_checked_for_this_host(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(TOO_MUCH.replace("6ms", "3ms"))
    verdict = maracas.check(maracas.Scenario.read(file), machine="live")
    theirs = json.loads(command("check", file, "--machine", "live", "--json").stdout)
    # The figures of this host are measured anew each time, and a note on budgets that end late is
    # there only where they say so.
    for key in ("machine", "verdict", "refused", "cores", "suggestions"):
        assert verdict.numbers[key] == theirs[key]
    assert verdict.numbers["machine"] == "live"
    assert verdict.notes == verdict.numbers["notes"]
    for notes in (verdict.notes, theirs["notes"]):
        assert notes[0].startswith("agents will take")
        assert all("this host ends a budget" in note for note in notes[1:])
    file.write_text(TOO_MUCH.replace("/bin/true", "/bin/not-there"))
    with pytest.raises(maracas.Error, match="not-there"):
        maracas.check(maracas.Scenario.read(file), machine="live")
    tasks = maracas.TaskSet([maracas.Task("a", "1ms", "10ms")])
    with pytest.raises(maracas.Error, match="can be simulated only"):
        maracas.check(tasks, policy="run", cores=1, machine="live")
    with pytest.raises(maracas.Error, match='machine is "lab"; give "sim" or "live"'):
        maracas.check(tasks, policy="run", cores=1, machine="lab")  # type: ignore[arg-type]


class EnoughError(Exception):
    """What a handler of signals raises."""


def test_signals_end_a_simulation() -> None:
    tasks = maracas.TaskSet.generate(4, "90%", 20, seed=1)
    seen = 0

    def handle(*_: object) -> None:
        nonlocal seen
        seen += 1
        # Signals that nobody looks for during the call would be one at its end.
        if seen == 3:
            raise EnoughError

    def simulate() -> None:
        maracas.simulate(tasks, policy="run", cores=4, until="86400s")
        signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with pytest.raises(EnoughError):
            simulate()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_interpreter_runs_on_while_it_simulates() -> None:
    tasks = maracas.TaskSet.generate(4, "90%", 20, seed=1)
    done = threading.Event()
    ran: list[int] = []

    def simulate() -> None:
        ran.append(maracas.simulate(tasks, policy="g-edf", cores=4, until="2000s").misses)
        done.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    ticks = 0
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    # It would see none, or one, if the lock were held all the time.
    assert ran
    assert ticks > 5


def test_computed_numbers_and_arrays_are_taken() -> None:
    load = 4 * (0.1 + 0.2)
    assert str(load) == "1.2000000000000002"
    drawn = maracas.TaskSet.generate(4, load, 8, seed=1)
    assert drawn.to_csv() == maracas.TaskSet.generate(4, "1.2", 8, seed=1).to_csv()
    loads = pd.Series([0.5, 0.1 + 0.2 + 0.3]).to_numpy()
    study = maracas.Study.of(
        sweep={"cores": 2, "utilization": loads, "sets": 3, "duration": "100ms"},
        tasks={"count": 4, "loads": "uunifast", "periods": "harmonic"},
        policy=[{"name": "p-edf"}],
    )
    assert study.items == 6


def test_a_text_is_neither_csv_nor_tasks(examples: Path) -> None:
    with pytest.raises(maracas.Error, match="maracas convert"):
        maracas.TaskSet.read(examples / "pipeline.json").to_csv()
    with pytest.raises(maracas.Error, match="its tasks are text"):
        list(maracas.TaskSet.generate(2, 1.0, 4))


def test_a_policy_class_is_no_value_of_a_key() -> None:
    with pytest.raises(maracas.Error, match="a policy class is for"):
        maracas.Study.of(policy=[{"name": maracas.Policy}])


def test_notes_on_files_are_kept(tmp_path: Path) -> None:
    timer = {"ref": "t", "period": 10_000}
    tasks = {"a": {"cpus": [0], "run": 2000, "timer": timer}}
    for name in ["a.json", "b.json"]:
        (tmp_path / name).write_text(json.dumps({"tasks": tasks}))
    file = tmp_path / "s.toml"
    lines = ["[sweep]", "cores = 1", 'duration = "1s"', "[tasks]", 'files = ["a.json", "b.json"]']
    file.write_text("\n".join([*lines, "[[policy]]", 'name = "p-edf"', ""]))
    notes = maracas.Study.read(file).notes
    assert any("a.json and 1 more: a: `cpus` is left aside" in note for note in notes), notes
