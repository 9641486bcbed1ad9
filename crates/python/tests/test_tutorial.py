"""The commands of the researcher's tutorial, in order and as the page shows them.

A comment above a block says what it is: `<!-- file: NAME -->` a file to save, `<!-- output -->`
what the commands above print. `crates/cli/tests/live_tutorial.rs` does so with the engineer's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from conftest import ROOT

PAGE = ROOT / "docs" / "tutorial-researcher.md"
FIGURE = ROOT / "docs" / "figures" / "tutorial-researcher.svg"
INSTALL = "pip install ./crates/python polars matplotlib\n"
BLOCK = re.compile(r"(?:<!-- (\w+)(?:: (\S+))? -->\n)?```(\w+)\n(.*?)```\n", re.DOTALL)


def run(commands: str, folder: Path) -> str:
    """What the commands print; they must succeed."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout


def test_every_command_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    steps = BLOCK.findall(PAGE.read_text())
    assert len(steps) >= 14
    printed, compared = "", 0
    for kind, name, language, block in steps:
        if kind == "file":
            (tmp_path / name).write_text(block)
        elif kind == "output":
            assert printed == block
            compared += 1
        else:
            assert (kind, language) == ("", "sh")
            # That is how this Python got the module; the tests' libraries hold the rest.
            printed = "" if block == INSTALL else run(block, tmp_path)
    assert compared >= 4
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF-")
    success = tmp_path / "results" / "success-2-cores-6-tasks.svg"
    assert success.read_text() == FIGURE.read_text()
