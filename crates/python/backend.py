"""What pip builds the package by: maturin, and the command `maracas` put beside the module.

The command must be the real program, since a live run starts its own file once more as the
guardian. So it is compiled by cargo and lies in the wheel as it is.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import get_requires_for_build_wheel

__all__ = ["build_wheel", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]

COMMAND = "maracas"
MODULE = "maracas-python"
HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "maracas.data" / "scripts"
"""Where maturin takes what goes into the wheel's scripts; it must be there from the start."""


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """Write the metadata; returns the name of their folder."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    name = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return str(name)


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Compile command and module and build the wheel; returns the name of its file."""
    root = HERE.parent.parent
    build = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
    # The module with it: alone, each would have other features of libraries that both depend on,
    # and cargo would compile everything above those twice.
    packages = ["--package", COMMAND, "--package", MODULE]
    subprocess.run([*build, *packages], cwd=root, check=True)
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    shutil.copy2(target / "release" / COMMAND, SCRIPTS / COMMAND)
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))
