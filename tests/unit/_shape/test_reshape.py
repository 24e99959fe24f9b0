from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from danaus._shape.reshape import (
    AxisSelector,
    flatten_shape,
    rename_shape,
    slice_shape,
    split_shape,
)
from danaus.shape import NDSlice, Shape
from tests.unit._shape.model import shapes

GRID = Shape(["hosts", "gpus"], NDSlice.new_row_major([60, 24]))


@st.composite
def selections(draw: st.DrawFn, shape: Shape) -> dict[str, AxisSelector]:
    """Draw a valid selector for some of the dimensions."""
    chosen: dict[str, AxisSelector] = {}
    for label, size in shape.extent.items():
        bounds = st.none() | st.integers(-size - 1, size + 1)
        part = st.builds(slice, bounds, bounds, st.none() | st.integers(1, 3))
        kept = part.filter(lambda s, size=size: bool(range(*s.indices(size))))
        selector = draw(st.none() | st.integers(0, size - 1) | kept)
        if selector is not None:
            chosen[label] = selector
    return chosen


@given(st.data(), shapes())
def test_a_part_has_the_ranks_that_python_would_pick(data: st.DataObject, shape: Shape):
    chosen = data.draw(selections(shape))

    part = slice_shape(shape, chosen)

    whole = [range(size) for size in shape.extent.sizes]
    picked = [
        numbers[chosen.get(label, slice(None))]
        for label, numbers in zip(shape.labels, whole, strict=True)
    ]
    lists = [[one] if isinstance(one, int) else list(one) for one in picked]
    assert part.ranks() == [shape.ndslice.nditem(where) for where in product(*lists)]
    assert part.labels == [
        label for label in shape.labels if not isinstance(chosen.get(label), int)
    ]


def test_ints_drop_and_slices_keep_dimensions():
    part = slice_shape(GRID, {"hosts": 2, "gpus": slice(1, 7, 4)})

    assert part == Shape(["gpus"], NDSlice(offset=49, sizes=[2], strides=[4]))


def test_slicing_an_unknown_dimension_is_a_type_error():
    expected = r"{hosts: 60, gpus: 24} does not have dimension 'x'; it has 'hosts', 'gpus'"
    with pytest.raises(TypeError, match=expected):
        slice_shape(GRID, {"x": 0})


@pytest.mark.parametrize("index", [24, -1])
def test_slicing_out_of_range_is_an_index_error(index: int):
    expected = rf"index {index} out of range along 'gpus' \(size 24\).*Valid indices are 0\.\.23"
    with pytest.raises(IndexError, match=expected):
        slice_shape(GRID, {"gpus": index})


def test_slicing_by_something_else_is_a_type_error():
    with pytest.raises(TypeError, match="'gpus' is sliced by an int or a slice, got 'all'"):
        slice_shape(GRID, {"gpus": "all"})  # type: ignore[dict-item]


def test_a_slice_of_nothing_is_a_value_error():
    with pytest.raises(ValueError, match=r"empty range 3:3:1 along 'gpus' \(size 24\)"):
        slice_shape(GRID, {"gpus": slice(3, 3)})


def test_a_slice_with_a_negative_step_is_a_value_error():
    with pytest.raises(ValueError, match=r"step along 'gpus' of .* must be at least 1, got -1"):
        slice_shape(GRID, {"gpus": slice(None, None, -1)})


@given(st.data(), shapes())
def test_split_keeps_ranks_and_order(data: st.DataObject, shape: Shape):
    assume(shape.labels)
    label = data.draw(st.sampled_from(shape.labels))
    size = shape.extent[label]
    divisor = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))

    outer = split_shape(shape, {label: ("a", "b"), "a": divisor})
    inner = split_shape(shape, {label: ["a", "b"], "b": divisor})

    assert outer.ranks() == inner.ranks() == shape.ranks()
    assert (outer.extent["a"], outer.extent["b"]) == (divisor, size // divisor)
    assert (inner.extent["a"], inner.extent["b"]) == (size // divisor, divisor)


def test_split_puts_new_dimensions_in_the_place_of_the_old():
    split = split_shape(GRID, {"hosts": ("dp", "pp"), "gpus": ("tp",), "pp": 4})

    assert split.labels == ["dp", "pp", "tp"]
    assert (split.ndslice.sizes, split.ndslice.strides) == ([15, 4, 24], [96, 24, 1])


def test_split_may_give_every_size_and_reuse_the_old_name():
    split = split_shape(GRID, {"gpus": ("node", "half", "gpus"), "node": 3, "half": 2})

    assert split.extent.sizes == [60, 3, 2, 4]
    assert split_shape(GRID, {"gpus": ("a", "b"), "a": 6, "b": 4}).extent.sizes == [60, 6, 4]


def test_split_into_nothing_drops_a_dimension_of_size_one():
    single = Shape(["a", "b"], NDSlice(offset=3, sizes=[1, 2], strides=[9, 4]))

    assert split_shape(single, {"a": ()}) == Shape(["b"], NDSlice(offset=3, sizes=[2], strides=[4]))


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ({"hosts": "x"}, "^expected a sequence of dimensions, but got 'x'$"),
        ({"hosts": 3}, "^expected a sequence of dimensions, but got 3$"),
        (
            {"x": ("a", "b")},
            r"^'x' is not an existing dim\. Expected .* new dim\. {hosts: 60, gpus: 24} has 'hosts'",
        ),
        ({"hosts": ("a", "b"), "a": 1.5}, "^'a' is not an existing dim. Expected an integer"),
        (
            {"hosts": ("a", "b", "c"), "b": 2},
            r"^Cannot infer size of \('a', 'b', 'c'\) because both c and a .* e\.g\. c=4$",
        ),
        (
            {"hosts": ("a", "b"), "a": 7},
            r"^Dimension 'hosts' of size 60 is not evenly divided by .* sizes \(7, '\?'\)$",
        ),
        ({"hosts": ("a", "b"), "a": 6, "b": 5}, r"is not evenly divided .* sizes \(6, 5\)$"),
        ({"hosts": ()}, r"is not evenly divided by \(\) with sizes \(\)$"),
        (
            {"hosts": ("a", "b"), "a": 4, "z": 3},
            r"^unused size constraints: \('z',\); new names are 'a', 'b'$",
        ),
        ({"z": 3}, r"^unused size constraints: \('z',\)"),
        ({"hosts": ("a", "gpus"), "a": 4}, "^Duplicate dimension name 'gpus'"),
        ({"hosts": ("a", "a"), "a": 4}, "^Duplicate dimension name 'a'"),
        ({"hosts": ("a", "b"), "a": 0}, "^size of new dimension 'a' must be at least 1, got 0$"),
        ({"hosts": ("a", "b"), "a": -4}, "^size of new dimension 'a' must be .*, got -4$"),
    ],
)
def test_a_split_that_does_not_work_out_is_a_value_error(requests: dict[str, object], text: str):
    with pytest.raises(ValueError, match=text):
        split_shape(GRID, requests)  # type: ignore[arg-type]


def test_split_names_must_be_strings():
    with pytest.raises(TypeError, match="dimension name must be a str, got 3"):
        split_shape(GRID, {"hosts": (3,)})  # type: ignore[dict-item]


@given(shapes())
def test_flatten_works_exactly_on_consecutive_ranks(shape: Shape):
    ranks = shape.ranks()

    if ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        flat = flatten_shape(shape, "all")
        assert (flat.labels, flat.ranks()) == (["all"], ranks)
    else:
        with pytest.raises(ValueError, match="cannot flatten sparse mesh"):
            flatten_shape(shape, "all")


def test_flattening_a_sparse_shape_tells_what_to_do():
    column = GRID.at("gpus", 0)

    expected = (
        r"cannot flatten sparse mesh {hosts: 60}: its strides \[24\] are not \[1\], .*Flatten"
    )
    with pytest.raises(ValueError, match=expected):
        flatten_shape(column, "all")


def test_flatten_of_one_rank_makes_a_dimension_of_size_one():
    point = GRID.index(hosts=2, gpus=3)

    assert flatten_shape(point, "all") == Shape(["all"], NDSlice(offset=51, sizes=[1], strides=[1]))


def test_rename_changes_names_only():
    assert rename_shape(GRID, {"hosts": "dp"}) == Shape(["dp", "gpus"], GRID.ndslice)
    assert rename_shape(GRID, {"hosts": "gpus", "gpus": "hosts"}).labels == ["gpus", "hosts"]


def test_renaming_an_unknown_dimension_is_a_value_error():
    expected = "cannot rename 'x': it is not an existing dim of {hosts: 60, gpus: 24}"
    with pytest.raises(ValueError, match=expected):
        rename_shape(GRID, {"x": "y"})


def test_renaming_to_a_name_in_use_is_a_value_error():
    with pytest.raises(ValueError, match="Duplicate dimension name 'gpus'"):
        rename_shape(GRID, {"hosts": "gpus"})


def test_renaming_to_something_else_than_a_name_is_a_type_error():
    with pytest.raises(TypeError, match="dimension name must be a str, got 3"):
        rename_shape(GRID, {"hosts": 3})  # type: ignore[dict-item]
