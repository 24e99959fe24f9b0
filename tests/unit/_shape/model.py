"""The plain model that shapes are compared with: every coordinate, enumerated.

A slice is known by its offset, sizes and strides; the model computes each value from its
coordinates and looks things up by searching.
"""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from danaus.shape import NDSlice, Shape

__all__ = ["coordinates_of", "label_lists", "shapes", "size_lists", "slices", "values_of"]

size_lists = st.lists(st.integers(1, 4), max_size=4)

LABELS = ["hosts", "gpus", "racks", "x"]
label_lists = st.lists(st.sampled_from(LABELS), unique=True, max_size=4)


@st.composite
def slices(draw: st.DrawFn, sizes: list[int] | None = None) -> NDSlice:
    """Draw a slice with gaps and with its axes in any order of strides."""
    sizes = draw(size_lists) if sizes is None else sizes
    order = draw(st.permutations(range(len(sizes))))
    strides = [1] * len(sizes)
    span = 0
    for axis in order:
        strides[axis] = span + draw(st.integers(1, 3))
        span += (sizes[axis] - 1) * strides[axis]
    return NDSlice(offset=draw(st.integers(0, 20)), sizes=sizes, strides=strides)


@st.composite
def shapes(draw: st.DrawFn, *, dense: bool = False) -> Shape:
    """Draw a shape; a dense one has the ranks 0, 1, 2…"""
    labels = draw(label_lists)
    sizes = [draw(st.integers(1, 4)) for _ in labels]
    return Shape(labels, NDSlice.new_row_major(sizes) if dense else draw(slices(sizes)))


def coordinates_of(sizes: list[int]) -> list[tuple[int, ...]]:
    """Enumerate all coordinates in row-major order."""
    return list(product(*map(range, sizes)))


def values_of(ndslice: NDSlice) -> list[int]:
    """Enumerate the values in row-major order."""
    return [
        ndslice.offset + sum(c * s for c, s in zip(where, ndslice.strides, strict=True))
        for where in coordinates_of(ndslice.sizes)
    ]
