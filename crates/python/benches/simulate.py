"""What simulating from Python costs over the command: CPU time of both, in turns, the same cases.

    python crates/python/benches/simulate.py [--instructions]

needs the wheel installed. The command's time is that of a whole process, Python's that of the call.
With `--instructions` valgrind counts what a simulated second takes in either: the difference of a
long and a short run of whole processes, which is the same on a busy machine.
"""

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import maracas

ROUNDS = 9
"""Turns of each; the median of their ratios is shown."""
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def program() -> str:
    """Find the command of the wheel."""
    return str(shutil.which("maracas", path=sysconfig.get_path("scripts")))


def command(arguments: list[str]) -> float:
    """Run the command; returns its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [program(), *arguments, "--json"]
    done = subprocess.run(line, check=False, stdout=subprocess.DEVNULL)
    # 4 is a run in which a promise was not kept: late jobs of global EDF.
    assert done.returncode in (0, 4)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def call(subject: maracas.Scenario | maracas.TaskSet, until: str, **case: object) -> float:
    """Simulate in this process; returns its CPU seconds."""
    before = time.process_time()
    report = maracas.simulate(subject, until=until, **case).report  # type: ignore[arg-type]
    assert report["duration_ns"] > 0
    return time.process_time() - before


def instructions(line: list[str]) -> int:
    """Run a program under valgrind; returns how many instructions it took."""
    grind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    seed = {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*grind, *line], check=False, capture_output=True, text=True, env=os.environ | seed
    )
    assert done.returncode in (0, 4), done.stderr
    counted = re.search(r"Collected : (\d+)", done.stderr)
    assert counted, done.stderr
    return int(counted[1])


SCRIPT = """
import sys, maracas
source, until, policy = sys.argv[1:4]
if policy:
    subject, case = maracas.TaskSet.read(source), {"policy": policy, "cores": 4}
else:
    subject, case = maracas.Scenario.read(source), {}
print(maracas.simulate(subject, until=until, **case).report["duration_ns"])
"""


def count(label: str, source: list[str], policy: str | None) -> None:
    """Print what a simulated second takes from Python and by the command."""
    options = [] if policy is None else ["--policy", policy, "--cores", "4"]
    ours, theirs = [], []
    # Python's start takes some million instructions more or less by the seed of its hashes.
    for until in ("1s", "51s"):
        line = [program(), "sim", *source, *options, "--until", until, "--json"]
        theirs.append(instructions(line))
        line = [sys.executable, "-c", SCRIPT, source[-1], until, policy or ""]
        ours.append(instructions(line))
    each = [(long - short) / 50 for short, long in (theirs, ours)]
    print(f"{label:<28} {each[0]:>11.0f} {each[1]:>11.0f}  {each[1] / each[0]:.3f}", flush=True)


def main() -> None:
    """Measure some cases and print a line for each."""
    counts = sys.argv[1:] == ["--instructions"]
    folder = Path(tempfile.mkdtemp())
    tasks = maracas.TaskSet.generate(4, "90%", 20, periods="automotive", seed=1)
    file = folder / "set.csv"
    file.write_text(tasks.to_csv())
    cases = [
        (f"20 tasks, 4 cores, {policy}", tasks, ["--taskset", str(file)], until, policy, 4)
        for policy, until in [("p-edf", "1000s"), ("g-edf", "1000s"), ("run", "300s")]
    ]
    for name, until in [("quickstart", "2000s"), ("memory", "60s")]:
        scenario = EXAMPLES / f"{name}.toml"
        read = maracas.Scenario.read(scenario)
        cases.append((f"examples/{name}.toml", read, [str(scenario)], until, None, None))
    print(f"{'case':<28} {'command':>11} {'python':>11}  python / command")
    for label, subject, source, until, policy, cores in cases:
        if counts:
            count(label, source, policy)
            continue
        options = ["--until", until]
        case = {}
        if policy is not None:
            options += ["--policy", policy, "--cores", str(cores)]
            case = {"policy": policy, "cores": cores}
        pairs = []
        for turn in range(ROUNDS):
            if turn % 2 == 0:
                theirs = command(["sim", *source, *options])
                pairs.append((theirs, call(subject, until, **case)))
            else:
                ours = call(subject, until, **case)
                pairs.append((command(["sim", *source, *options]), ours))
        theirs, ours = (statistics.median(each) for each in zip(*pairs, strict=True))
        ratios = sorted(ours / theirs for theirs, ours in pairs)
        middle = statistics.median(ratios)
        spread = f"{middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        print(f"{label:<28} {theirs:>9.2f} s {ours:>9.2f} s  {spread}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
