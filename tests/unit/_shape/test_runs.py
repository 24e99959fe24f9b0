from __future__ import annotations

import pickle
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._shape.runs import Runs, arithmetic_runs
from danaus.shape import NDSlice
from tests.unit._shape.model import slices, values_of

integers = st.lists(st.integers(-5, 5) | st.integers(0, 2**40), max_size=30)
progressions = st.builds(
    lambda start, step, count: [start + step * i for i in range(count)],
    st.integers(-20, 20),
    st.integers(-3, 3),
    st.integers(1, 6),
)
joined = st.lists(progressions, max_size=5).map(lambda parts: list(chain.from_iterable(parts)))
lists = integers | joined


@given(lists)
def test_runs_hold_the_values_in_their_order(values: list[int]):
    runs = Runs.from_values(values)

    assert list(runs) == values
    assert len(runs) == len(values)
    assert [runs[position] for position in range(len(values))] == values


@given(lists)
def test_the_wire_form_is_made_of_ints_and_gives_the_runs_back(values: list[int]):
    runs = Runs.from_values(values)
    encoded = runs.to_tuple()

    assert all(type(number) is int for number in encoded)
    assert Runs.from_tuple(encoded) == runs
    assert hash(Runs.from_tuple(list(encoded))) == hash(runs)


@given(lists, st.integers(-30, 30))
def test_runs_find_values_as_a_list_does(values: list[int], wanted: int):
    runs = Runs.from_values(values)

    assert (wanted in runs) == (wanted in values)
    for value in values:
        assert value in runs
        assert runs.index(value) == values.index(value)


@given(slices())
def test_rows_of_a_slice_become_runs(ndslice: NDSlice):
    runs = Runs.from_ranges(ndslice.rows())

    assert list(runs) == values_of(ndslice)


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-3, 3).filter(bool))
def test_a_range_becomes_one_run(start: int, stop: int, step: int):
    values = range(start, stop, step)

    assert list(Runs.from_values(values)) == list(values)
    assert Runs.from_values(values) == Runs.from_values(list(values))


def test_runs_of_equal_and_of_regular_values_are_short():
    assert Runs.from_values([4] * 1000).to_tuple() == (4, 0, 1000)
    assert Runs.from_values(range(0, 1000, 8)).to_tuple() == (0, 8, 125)
    assert Runs.from_values([7]).to_tuple() == (7, 0, 1)
    assert Runs.from_values([]).to_tuple() == ()


def test_values_are_cut_greedily():
    assert list(arithmetic_runs([1, 2, 4, 5, 6])) == [(1, 1, 2), (4, 1, 3)]


def test_huge_runs_are_handled_by_arithmetic():
    runs = Runs.from_values(range(0, 2**62, 2))

    assert len(runs) == 2**61
    assert 2**61 in runs
    assert 2**61 + 1 not in runs
    assert runs[2**60] == 2**61
    assert runs.index(2**61) == 2**60


def test_negative_positions_count_from_the_end():
    assert Runs.from_values([1, 2, 9])[-1] == 9


@pytest.mark.parametrize("position", [3, -4])
def test_a_position_outside_is_an_index_error(position: int):
    with pytest.raises(IndexError, match=rf"position {position} out of range \(len=3\)"):
        Runs.from_values([1, 2, 9])[position]


def test_a_value_that_does_not_occur_has_no_index():
    with pytest.raises(ValueError, match="value 3 not in <Runs of 2 values in 1 runs>"):
        Runs.from_values([1, 2]).index(3)


def test_what_is_no_integer_is_not_in_runs():
    assert "1" not in Runs.from_values([1, 2])


def test_wire_input_of_wrong_length_is_refused():
    with pytest.raises(ValueError, match="three integers each, got 4"):
        Runs.from_tuple((1, 1, 3, 4))


@pytest.mark.parametrize("bad", [1.0, "1", None, True])
def test_wire_input_of_other_types_is_refused(bad: object):
    with pytest.raises(TypeError, match="runs are made of integers"):
        Runs.from_tuple((1, 1, bad))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1])
def test_wire_input_with_an_empty_run_is_refused(count: int):
    with pytest.raises(ValueError, match=f"at least 1 value, got {count}"):
        Runs.from_tuple((1, 1, 2, 5, 1, count))


def test_wire_input_that_stands_for_too_many_values_is_refused():
    assert len(Runs.from_tuple((0, 1, 5, 9, 0, 5), limit=10)) == 10
    with pytest.raises(ValueError, match="stand for 10 values, at most 9"):
        Runs.from_tuple((0, 1, 5, 9, 0, 5), limit=9)


def test_runs_are_not_equal_to_other_things():
    assert Runs.from_values([1]) != [1]


def test_runs_survive_pickling():
    runs = Runs.from_values([1, 2, 3, 9])

    assert pickle.loads(pickle.dumps(runs)) == runs
