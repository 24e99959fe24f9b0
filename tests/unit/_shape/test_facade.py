from __future__ import annotations

import subprocess
import sys

import pytest

import danaus.shape
from danaus.shape import NDSlice, Shape, ShapeExt

GRID = Shape(["a", "b", "c"], NDSlice.new_row_major([4, 5, 6]))


def test_shapes_are_sliced_by_ints_and_slices_at_once():
    part = ShapeExt.slice(GRID, a=2, b=slice(1, 3))

    assert part == Shape(["b", "c"], NDSlice(offset=66, sizes=[2, 6], strides=[6, 1]))


def test_slicing_a_shape_raises_what_slicing_a_mesh_does():
    with pytest.raises(TypeError, match="does not have dimension 'x'"):
        ShapeExt.slice(GRID, x=4)
    with pytest.raises(IndexError, match="out of range along 'a'"):
        ShapeExt.slice(GRID, a=-1)


def test_every_public_name_comes_from_the_module():
    assert sorted(danaus.shape.__all__) == danaus.shape.__all__
    assert all(hasattr(danaus.shape, name) for name in danaus.shape.__all__)


def test_shapes_load_without_the_heavy_standard_modules():
    heavy = ["asyncio", "dataclasses", "inspect", "json", "socket", "threading"]
    program = (
        "import sys; before = set(sys.modules); import danaus.shape; "
        f"print(sorted((set(sys.modules) - before) & set({heavy!r})))"
    )

    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    assert found.stdout == "[]\n"
