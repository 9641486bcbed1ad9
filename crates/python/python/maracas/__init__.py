"""Real-time scheduling on multicore machines with shared caches and memory bus, from Python.

What the command `maracas` does on files this module does on values: `check`, `simulate`, `tree`,
`sweep`, `memory`, `reproduce`. Both run the same code, and say the same sentences where something
is wrong (`Error`).

```python
import maracas

tasks = maracas.TaskSet([
    maracas.Task("camera", cost="2ms", period="10ms"),
    maracas.Task("radio", cost="5ms", period="20ms"),
])
run = maracas.simulate(tasks, policy="g-edf", cores=1, until="1s")
print(run)            # the table that `maracas sim` prints
run.jobs              # one row for each job: polars.DataFrame(run.jobs), pyarrow.table(run.jobs)
run                   # in a notebook: the schedule as a picture
```

Times are text with a unit (`"20ms"`) or whole nanoseconds, those of a `Scenario` text. Tables
speak Arrow's PyCapsule interface, so that pandas, Polars, DuckDB and pyarrow read them without a
copy. A policy may be written in Python, as a class (`Policy`); `check_policy` holds it to the
contract.
"""

from maracas._maracas import ContractError, Error, Table, __version__
from maracas.contract import (
    AllowanceSpent,
    Arrived,
    Changed,
    Claims,
    Completed,
    Event,
    Grant,
    Left,
    Needs,
    Plan,
    Policy,
    Ran,
    Released,
    RunQueue,
    System,
    Vcpu,
    Woke,
    check_policy,
)
from maracas.journal import Journal
from maracas.papers import Experiment, experiments, memory, policies, reproduce
from maracas.scenario import Platform, Program, Scenario, ScenarioVcpu
from maracas.simulation import Refused, Simulation, Tree, Verdict, check, simulate, tree
from maracas.study import Study, Sweep, sweep
from maracas.taskset import Task, TaskSet, nanoseconds

__all__ = [
    "AllowanceSpent",
    "Arrived",
    "Changed",
    "Claims",
    "Completed",
    "ContractError",
    "Error",
    "Event",
    "Experiment",
    "Grant",
    "Journal",
    "Left",
    "Needs",
    "Plan",
    "Platform",
    "Policy",
    "Program",
    "Ran",
    "Refused",
    "Released",
    "RunQueue",
    "Scenario",
    "ScenarioVcpu",
    "Simulation",
    "Study",
    "Sweep",
    "System",
    "Table",
    "Task",
    "TaskSet",
    "Tree",
    "Vcpu",
    "Verdict",
    "Woke",
    "__version__",
    "check",
    "check_policy",
    "experiments",
    "memory",
    "nanoseconds",
    "policies",
    "reproduce",
    "simulate",
    "sweep",
    "tree",
]
