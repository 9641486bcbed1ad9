"""The notebooks run, and what they assert holds; with figures kept where MARACAS_NOTEBOOKS says."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_all_notebooks_are_there() -> None:
    names = [it.stem for it in NOTEBOOKS]
    assert names == ["first-schedule", "my-policy", "optimal-against-edf"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": path.parent}}).execute()
    data = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    svg = [it["text/html"] for it in data if it.get("text/html", "").startswith("<svg")]
    png = [base64.b64decode(it["image/png"]) for it in data if "image/png" in it]
    assert svg or png, "it draws nothing"
    folder = os.environ.get("MARACAS_NOTEBOOKS")
    if folder is not None:
        for number, picture in enumerate(svg):
            (Path(folder) / f"{path.stem}-{number}.svg").write_text(picture)
        for number, image in enumerate(png):
            (Path(folder) / f"{path.stem}-{number}.png").write_bytes(image)
