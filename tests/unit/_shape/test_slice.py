from __future__ import annotations

import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus.shape import NDSlice, Slice
from tests.unit._shape.model import coordinates_of, size_lists, slices, values_of

TWO_BY_THREE = NDSlice(offset=0, sizes=[2, 3], strides=[3, 1])


@given(slices())
def test_values_are_enumerated_in_row_major_order(ndslice: NDSlice):
    values = values_of(ndslice)

    assert list(ndslice) == values
    assert ndslice.ranks() == values
    assert len(ndslice) == len(values)
    assert [value for row in ndslice.rows() for value in row] == values


@given(slices())
def test_each_position_gives_its_value_and_back(ndslice: NDSlice):
    for position, value in enumerate(values_of(ndslice)):
        assert ndslice[position] == ndslice.get(position) == value
        assert ndslice.index(value) == position


@given(slices())
def test_each_value_gives_its_coordinates_and_back(ndslice: NDSlice):
    for where, value in zip(coordinates_of(ndslice.sizes), values_of(ndslice), strict=True):
        assert ndslice.coordinates(value) == list(where)
        assert ndslice.nditem(where) == value


@given(slices())
def test_only_the_values_are_in_a_slice(ndslice: NDSlice):
    values = values_of(ndslice)

    for value in range(-2, max(values) + 3):
        assert (value in ndslice) == (value in values)


@given(slices(), st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.integers(1, 3))
def test_python_slices_pick_values_by_position(
    ndslice: NDSlice, start: int | None, stop: int | None, step: int
):
    key = slice(start, stop, step)

    assert ndslice[key] == tuple(values_of(ndslice)[key])


@given(st.data(), slices())
def test_a_restricted_slice_has_the_values_at_the_selectors(data: st.DataObject, ndslice: NDSlice):
    selectors = [data.draw(selector(size)) for size in ndslice.sizes]

    part = ndslice.restrict(selectors)

    chosen = [s if isinstance(s, range) else [s] for s in selectors]
    assert list(part) == [
        value
        for where, value in zip(coordinates_of(ndslice.sizes), values_of(ndslice), strict=True)
        if all(c in picked for c, picked in zip(where, chosen, strict=True))
    ]
    assert NDSlice(offset=part.offset, sizes=part.sizes, strides=part.strides) == part


def selector(size: int) -> st.SearchStrategy[int | range]:
    ranges = st.builds(range, st.integers(0, size - 1), st.just(size), st.integers(1, 3))
    return st.integers(0, size - 1) | ranges


@given(st.data(), slices())
def test_positions_of_a_part_lead_to_its_values(data: st.DataObject, ndslice: NDSlice):
    part = ndslice.restrict([data.draw(selector(size)) for size in ndslice.sizes])

    positions = ndslice.positions_of(part)

    assert [values_of(ndslice)[position] for position in positions] == values_of(part)


@given(slices(), slices())
def test_positions_of_strangers_are_refused(ours: NDSlice, theirs: NDSlice):
    missing = [value for value in values_of(theirs) if value not in values_of(ours)]

    if missing:
        with pytest.raises(ValueError, match=f"^value {missing[0]} of .* not in "):
            ours.positions_of(theirs)
    else:
        assert [ours[position] for position in ours.positions_of(theirs)] == list(theirs)


def test_positions_of_the_same_values_in_other_axes_are_a_range():
    flat = NDSlice(offset=5, sizes=[6], strides=[1])
    split = NDSlice(offset=5, sizes=[2, 1, 3], strides=[3, 3, 1])

    assert flat.positions_of(split) == range(6)


@given(size_lists)
def test_row_major_slices_count_from_zero(sizes: list[int]):
    ndslice = NDSlice.new_row_major(sizes)

    assert list(ndslice) == list(range(len(ndslice)))
    assert ndslice.is_dense


@given(slices())
def test_a_slice_is_dense_when_its_values_are_consecutive(ndslice: NDSlice):
    values = values_of(ndslice)

    assert ndslice.is_dense == (values == list(range(values[0], values[0] + len(values))))


@given(st.lists(st.integers(0, 30), max_size=20))
def test_slices_from_a_list_cover_it_in_ascending_order(ranks: list[int]):
    parts = NDSlice.from_list(ranks)

    assert [value for part in parts for value in part] == sorted(ranks)


def test_slices_from_a_list_are_as_long_as_the_values_allow():
    assert NDSlice.from_list([]) == []
    assert NDSlice.from_list([5, 1, 3]) == [NDSlice(offset=1, sizes=[3], strides=[2])]
    assert NDSlice.from_list([1, 2, 4, 5, 6]) == [
        NDSlice(offset=1, sizes=[2], strides=[1]),
        NDSlice(offset=4, sizes=[3], strides=[1]),
    ]


def test_a_list_with_a_negative_rank_has_no_slices():
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        NDSlice.from_list([-1, 3])


def test_a_slice_without_axes_has_one_value():
    assert list(NDSlice(offset=37, sizes=[], strides=[])) == [37]


def test_strides_may_descend_or_ascend():
    assert list(NDSlice(offset=0, sizes=[2, 2, 2], strides=[4, 32, 1])) == [
        *[0, 1, 32, 33],
        *[4, 5, 36, 37],
    ]


def test_a_stride_along_an_axis_of_one_value_does_not_matter():
    assert list(NDSlice(offset=1, sizes=[1, 2], strides=[1, 1])) == [1, 2]


@pytest.mark.parametrize(
    ("sizes", "strides"), [([2, 2], [1, 1]), ([3, 2], [1, 2]), ([2, 2], [8, 5, 1]), ([2], [0])]
)
def test_strides_that_do_not_nest_are_refused(sizes: list[int], strides: list[int]):
    with pytest.raises(ValueError, match="stride"):
        NDSlice(offset=0, sizes=sizes, strides=strides)


def test_colliding_strides_are_shown():
    with pytest.raises(ValueError, match=r"stride 2 must be larger than 2.*\[3, 2\].*\[1, 2\]"):
        NDSlice(offset=0, sizes=[3, 2], strides=[1, 2])


def test_sizes_and_strides_must_match_in_number():
    with pytest.raises(ValueError, match=r"invalid dims: 1 sizes \(2,\) but 2 strides"):
        NDSlice(offset=0, sizes=[2], strides=[1, 2])


@pytest.mark.parametrize("size", [0, -2])
def test_sizes_below_one_are_refused(size: int):
    with pytest.raises(ValueError, match=f"at least 1, got {size}"):
        NDSlice.new_row_major([2, size])


def test_a_negative_offset_is_refused():
    with pytest.raises(ValueError, match="offset of a slice must not be negative, got -1"):
        NDSlice(offset=-1, sizes=[2], strides=[1])


def test_more_values_than_can_be_counted_are_refused():
    with pytest.raises(ValueError, match=f"more than {sys.maxsize} values"):
        NDSlice.new_row_major([2**40, 2**40])


def test_a_slice_of_billions_costs_nothing():
    huge = NDSlice.new_row_major([2**20, 2**20])

    assert huge[2**39 + 1] == 2**39 + 1
    assert huge.coordinates(2**39 + 1) == [2**19, 1]


def test_other_than_integers_are_refused():
    with pytest.raises(TypeError):
        NDSlice(offset=0.5, sizes=[2], strides=[1])  # type: ignore[arg-type]


def test_a_negative_index_is_a_type_error_in_brackets_and_an_overflow_in_get():
    with pytest.raises(TypeError, match="must not be negative, got -1"):
        TWO_BY_THREE[-1]
    with pytest.raises(OverflowError, match="must not be negative, got -1"):
        TWO_BY_THREE.get(-1)


def test_an_index_beyond_the_end_is_an_index_error_in_brackets_and_a_value_error_in_get():
    with pytest.raises(IndexError, match=r"index 6 out of range \(len=6\)"):
        TWO_BY_THREE[6]
    with pytest.raises(ValueError, match=r"index 6 out of range \(len=6\)"):
        TWO_BY_THREE.get(6)


@pytest.mark.parametrize("value", [-1, 6])
def test_a_value_outside_has_no_index_and_no_coordinates(value: int):
    with pytest.raises(ValueError, match=f"value {value} not in Slice {{"):
        TWO_BY_THREE.index(value)
    with pytest.raises(ValueError, match=f"value {value} not in Slice {{"):
        TWO_BY_THREE.coordinates(value)


def test_coordinates_outside_have_no_value():
    with pytest.raises(IndexError, match="expected 2 coordinates, got 1"):
        TWO_BY_THREE.nditem([1])
    with pytest.raises(IndexError, match=r"coordinate 3 out of range along axis 1 \(size 3\)"):
        TWO_BY_THREE.nditem([0, 3])


def test_what_is_no_integer_is_not_in_a_slice():
    assert "1" not in TWO_BY_THREE
    assert 1.0 not in TWO_BY_THREE


def test_attributes_are_lists_that_do_not_change_the_slice():
    TWO_BY_THREE.sizes.append(4)
    TWO_BY_THREE.strides.append(4)

    assert (TWO_BY_THREE.sizes, TWO_BY_THREE.strides) == ([2, 3], [3, 1])
    assert (TWO_BY_THREE.offset, TWO_BY_THREE.ndim) == (0, 2)


@pytest.mark.parametrize("name", ["offset", "sizes", "other"])
def test_a_slice_cannot_be_changed(name: str):
    with pytest.raises(AttributeError):
        setattr(TWO_BY_THREE, name, 1)


@given(slices())
def test_slices_survive_pickling_with_their_hash(ndslice: NDSlice):
    copy = pickle.loads(pickle.dumps(ndslice))

    assert copy == ndslice
    assert hash(copy) == hash(ndslice)


def test_the_pickle_of_a_slice_is_small():
    assert len(pickle.dumps(TWO_BY_THREE)) < 80


def test_slices_differ_by_offset_sizes_and_strides():
    others = [
        NDSlice(offset=1, sizes=[2, 3], strides=[3, 1]),
        NDSlice(offset=0, sizes=[3, 2], strides=[2, 1]),
        NDSlice(offset=0, sizes=[2, 3], strides=[4, 1]),
    ]

    assert TWO_BY_THREE not in others
    assert TWO_BY_THREE != [0, 1, 2, 3, 4, 5]


def test_a_slice_shows_offset_sizes_and_strides():
    assert repr(TWO_BY_THREE) == "Slice { offset: 0, sizes: [2, 3], strides: [3, 1] }"
    assert str(TWO_BY_THREE) == repr(TWO_BY_THREE)


def test_slice_is_another_name_of_ndslice():
    assert Slice is NDSlice
