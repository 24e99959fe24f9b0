from __future__ import annotations

import pickle

import numpy as np
import pytest

from danaus._shape.dimensions import (
    UnknownDimensionError,
    check_labels,
    check_sizes,
    format_sizes,
    list_labels,
)


def test_labels_become_a_tuple():
    assert check_labels(iter(["hosts", "gpus"]), 2) == ("hosts", "gpus")


def test_one_string_is_not_a_sequence_of_labels():
    with pytest.raises(TypeError, match="got the one string 'ab'"):
        check_labels("ab", 2)


def test_labels_must_match_the_dimensions_in_number():
    with pytest.raises(ValueError, match=r"mismatch: 1 labels .* for 2 dimensions"):
        check_labels(["a"], 2)


def test_labels_must_be_strings():
    with pytest.raises(TypeError, match="dimension name must be a str, got 3"):
        check_labels(["a", 3], 2)  # type: ignore[list-item]


def test_labels_must_differ():
    with pytest.raises(ValueError, match="Duplicate dimension name 'b' in"):
        check_labels(["a", "b", "b"], 3)


def test_sizes_become_a_tuple_of_ints():
    sizes = check_sizes(np.array([1, 2]))

    assert sizes == (1, 2)
    assert {type(size) for size in sizes} == {int}


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_by_name(size: int):
    with pytest.raises(ValueError, match=f"dimension 'gpus' must be at least 1, got {size}"):
        check_sizes([2, size], ["hosts", "gpus"])


def test_a_size_below_one_is_refused_by_number_without_names():
    with pytest.raises(ValueError, match="size of dimension 1 must"):
        check_sizes([2, 0])


def test_a_size_must_be_an_integer():
    with pytest.raises(TypeError):
        check_sizes([2.0])  # type: ignore[list-item]


def test_no_labels_are_shown_in_words():
    assert list_labels([]) == "no dimensions"


def test_of_many_labels_eight_are_shown():
    shown = list_labels([f"d{number}" for number in range(11)])

    assert shown.endswith("'d7', and 3 more")


def test_sizes_are_shown_with_their_labels():
    assert format_sizes(["hosts", "gpus"], [2, 8]) == "{hosts: 2, gpus: 8}"


def test_an_unknown_dimension_is_a_value_error_and_a_key_error():
    error = UnknownDimensionError("no 'x' here")

    assert isinstance(error, ValueError)
    assert isinstance(error, KeyError)


def test_the_text_of_an_unknown_dimension_survives_pickling_unquoted():
    copy = pickle.loads(pickle.dumps(UnknownDimensionError("no 'x' here")))

    assert type(copy) is UnknownDimensionError
    assert str(copy) == "no 'x' here"
