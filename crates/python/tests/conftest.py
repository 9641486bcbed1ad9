"""What several tests use: the project's files, and the command of the wheel."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import maracas

ROOT = Path(__file__).resolve().parents[3]
"""The project."""


def skip(what: str) -> NoReturn:
    """Skip a test that needs what is not here; `cargo xtask ci` counts it (xtask/src/skips.rs)."""
    if os.environ.get("MARACAS_LIVE") == "required":
        pytest.fail(f"needs {what}")
    if skips := os.environ.get("MARACAS_SKIPS"):
        with Path(skips).open("a") as file:
            file.write(f"skipped: needs {what}\n")
    pytest.skip(f"needs {what}")


@pytest.fixture
def examples() -> Path:
    return ROOT / "examples"


@pytest.fixture
def tasks() -> maracas.TaskSet:
    """Two thirds of two cores, which partitioned and global policies admit."""
    return maracas.TaskSet(
        [
            maracas.Task("camera", cost="2ms", period="10ms"),
            maracas.Task("radio", cost="4ms", period="20ms", deadline="15ms"),
            maracas.Task("video", cost="12.5ms", period="25ms"),
            maracas.Task("logger", cost="13ms", period="40ms", jobs="sporadic"),
        ]
    )


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command() -> Command:
    """The command that the wheel installed."""
    path = shutil.which("maracas", path=sysconfig.get_path("scripts"))
    assert path is not None, "the wheel has no command"

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        line = [path, *map(str, args)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    return run
