"""What simulating from Python costs over the command: CPU time of both, in turns, the same cases.

    python crates/python/benches/simulate.py

needs the wheel installed. The command's time is that of a whole process, Python's that of the call.
"""

import resource
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

import maracas

ROUNDS = 5
"""Turns of each; the median of their ratios is shown."""
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def command(arguments: list[str]) -> float:
    """Run the command; returns its CPU seconds."""
    path = shutil.which("maracas", path=sysconfig.get_path("scripts"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [str(path), *arguments, "--json"]
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


def main() -> None:
    """Measure some cases and print a line for each."""
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
    print(f"{'case':<28} {'command':>9} {'python':>9}  python / command")
    for label, subject, source, until, policy, cores in cases:
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
        print(f"{label:<28} {theirs:>7.2f} s {ours:>7.2f} s  {spread}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
