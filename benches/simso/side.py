"""SimSo's side of `cargo xtask bench peers`.

Reads one case a line from standard input and answers each with one line:

    POLICY CORES HORIZON COST:PERIOD COST:PERIOD ...   ->   JOBS LATE SECONDS | failed WHY

Times are in ticks of which 2**20 are one of SimSo's milliseconds, so that its floats are exact.
What is timed is what a user runs: the model is built, run, and its results are worked out; in CPU
time, so that other processes do not count. SimSo is used as it is installed; nothing in it is
changed.
"""

import gc
import os
import sys
import time

from simso.configuration import Configuration
from simso.core import Model

TICKS_PER_MS = 1 << 20
SCHEDULERS = {
    "p-edf": "simso.schedulers.P_EDF",
    "g-edf": "simso.schedulers.EDF",
    "run": "simso.schedulers.RUN",
}


def configuration(policy, cores, horizon, tasks):
    """The case as SimSo has it: every job takes its worst-case time, nothing costs anything."""
    made = Configuration()
    made.cycles_per_ms = TICKS_PER_MS
    made.duration = horizon
    for number, (cost, period) in enumerate(tasks, start=1):
        ms = period / TICKS_PER_MS
        made.add_task(
            name=f"task{number}",
            identifier=number,
            period=ms,
            activation_date=0,
            wcet=cost / TICKS_PER_MS,
            deadline=ms,
        )
    for core in range(cores):
        made.add_processor(name=f"core{core}", identifier=core)
    made.scheduler_info.clas = SCHEDULERS[policy]
    made.check_all()
    return made


def run(words):
    """Runs one case; the answer to it."""
    policy, cores, horizon = words[0], int(words[1]), int(words[2])
    if policy not in SCHEDULERS:
        return "failed it has no such scheduler"
    tasks = [tuple(int(number) for number in word.split(":")) for word in words[3:]]
    made = configuration(policy, cores, horizon, tasks)
    gc.collect()
    start = time.process_time()
    model = Model(made)
    model.run_model()
    results = model.results
    counts = (results.total_exceeded_count, results.total_preemptions, results.total_migrations)
    seconds = time.process_time() - start
    # A job that is released on the horizon is none of the run.
    done = [job for task in results.tasks.values() for job in task.jobs]
    jobs = sum(1 for job in done if job.activation_date < horizon)
    return f"{jobs} {counts[0]} {seconds:.6f}"


def main():
    answers = sys.stdout
    # SimSo's global EDF prints each decision.
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    for line in sys.stdin:
        try:
            answer = run(line.split())
        except Exception as error:  # Whatever SimSo fails with is its answer.
            answer = f"failed {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
