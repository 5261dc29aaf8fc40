"""The notebook of the documentation runs from top to bottom."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "start.ipynb"


def test_the_notebook_runs():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # it is kept without
    nbclient.NotebookClient(notebook, timeout=300).execute()
    last = notebook.cells[-1].outputs[0].data["text/plain"]
    assert "True" in last
