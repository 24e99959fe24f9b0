from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "danaus.shape",
    "danaus._shape.extent",
    "danaus._shape.runs",
    "danaus._shape.selection",
    "danaus._shape.shape",
    "danaus._shape.slice",
    "danaus._shape.value_mesh",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str):
    result = doctest.testmod(importlib.import_module(name))

    assert result.attempted > 0
    assert result.failed == 0
