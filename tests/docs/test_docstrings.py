"""Examples in docstrings that need no data are run."""

import doctest
import importlib

import pytest

MODULES = ("cli.options", "config", "data.batch_random", "evaluation.audit", "evaluation.suggest", "methods.base")
MODULES += ("evaluation.novelty", "evaluation.validators", "methods.recipe")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(f"unihssl.{name}"))
    assert result.attempted and not result.failed
