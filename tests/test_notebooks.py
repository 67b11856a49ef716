"""The notebooks run, from the first cell to the last, and are kept without their outputs.

`make test` runs the one that shows what a notebook needs; the others are for `make test-long`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = "consistency"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "strip the outputs"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem == QUICK else pytest.mark.long)
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = str(FOLDER.parent / "python")
    paths = [python, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    client = NotebookClient(read(path), timeout=None, kernel_name="python3")
    done = client.execute(cwd=str(tmp_path))
    pictures = [
        output
        for cell in done.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert pictures


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2 and QUICK in {path.stem for path in NOTEBOOKS}
