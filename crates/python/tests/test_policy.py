"""Policies that are written in Python: the contract, and what breaks it."""

from __future__ import annotations

from functools import partial

import pytest

import maracas
from turns import Boastful, Broken, Picky, Sleepless, Turns, Twofold


def test_a_policy_keeps_the_contract() -> None:
    admitted = maracas.check_policy(Turns, seeds=15)
    parts = ["on time", "late", "with hidden wakes", "with everything charged", "asked again"]
    assert list(admitted) == parts
    # It refuses none: of four, three, two, three and three mixes.
    assert list(admitted.values()) == [60, 45, 30, 45, 45]


def test_false_claims_are_found() -> None:
    with pytest.raises(maracas.ContractError, match="deadlines missed, though admitted"):
        maracas.check_policy(Boastful, seeds=15)


@pytest.mark.parametrize("quantum", ["10ms", "1ms", "300us"])
def test_it_schedules_as_the_same_policy_in_rust(tasks: maracas.TaskSet, quantum: str) -> None:
    ours = partial(Turns, quantum=maracas.nanoseconds(quantum))
    python = maracas.simulate(tasks, policy=ours, cores=2, until="500ms")
    rust = maracas.simulate(
        tasks, policy="round-robin", cores=2, until="500ms", params={"quantum": quantum}
    )
    assert python.pieces.to_dicts() == rust.pieces.to_dicts()
    assert python.jobs.to_dicts() == rust.jobs.to_dicts()
    assert python.report["total"] == rust.report["total"]
    assert python.report["statistics"] == [
        {"name": "vcpus", "core": None, "vcpu": None, "value": 4}
    ]


def test_scenarios_run_under_it(examples: maracas.Scenario) -> None:
    scenario = maracas.Scenario.read(f"{examples}/arrivals.toml")
    python = maracas.simulate(scenario, policy=Turns, until="2s")
    rust = maracas.simulate(scenario, policy="round-robin", until="2s")
    assert python.report["total"] == rust.report["total"]
    assert python.report["policy"] == "turns"


def test_its_own_admission_refuses(tasks: maracas.TaskSet) -> None:
    heavy = maracas.TaskSet([*tasks, maracas.Task("heavy", cost="6ms", period="10ms")])
    assert maracas.check(tasks, policy=Picky, cores=2)
    with pytest.raises(maracas.Refused, match="heavy asks for more than half a core") as raised:
        maracas.simulate(heavy, policy=Picky, cores=2)
    assert not raised.value.verdict.admitted
    assert [it["vcpu"] for it in raised.value.verdict.numbers["refused"]] == ["heavy"]


def test_what_it_raises_arrives(tasks: maracas.TaskSet) -> None:
    with pytest.raises(RuntimeError, match="lost my way at"):
        maracas.simulate(tasks, policy=Broken, cores=2)
    # And the next run is none the worse.
    assert maracas.simulate(tasks, policy=Turns, cores=2, until="1s").report["total"]["jobs"] > 0


@pytest.mark.parametrize(
    ("policy", "why"),
    [(Sleepless, "asks for a wake at .*, not after now"), (Twofold, "vcpu0")],
)
def test_a_broken_contract_is_an_exception(
    tasks: maracas.TaskSet,
    policy: type[maracas.Policy],
    why: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(maracas.ContractError, match=why):
        maracas.simulate(tasks, policy=policy, cores=2)
    assert capfd.readouterr().err == ""


def test_what_is_no_policy_is_refused(tasks: maracas.TaskSet) -> None:
    with pytest.raises(maracas.Error, match="dict is no policy; give a policy's name"):
        maracas.check(tasks, policy=dict, cores=2)  # type: ignore[arg-type]
