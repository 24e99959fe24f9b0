from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given

from danaus.shape import Extent, NDSlice, Point, Region, Shape, UnknownDimensionError
from tests.unit._shape.model import coordinates_of, shapes

EXTENT = Extent(["hosts", "gpus"], [2, 4])


def test_an_extent_maps_labels_to_sizes():
    assert isinstance(EXTENT, Mapping)
    assert dict(EXTENT) == {"hosts": 2, "gpus": 4}
    assert list(EXTENT.keys()) == ["hosts", "gpus"]
    assert (EXTENT.labels, EXTENT.sizes) == (["hosts", "gpus"], [2, 4])
    assert (EXTENT.nelements, len(EXTENT)) == (8, 2)


def test_lists_of_an_extent_do_not_change_it():
    EXTENT.labels.append("x")
    EXTENT.sizes.append(3)

    assert (EXTENT.labels, EXTENT.sizes) == (["hosts", "gpus"], [2, 4])


def test_an_extent_without_dimensions_has_one_point():
    empty = Extent([], [])

    assert (empty.nelements, len(empty), str(empty)) == (1, 0, "{}")
    assert str(Point(0, empty)) == "{}"
    with pytest.raises(ValueError, match=r"rank 1 out of range of {}, which has ranks 0\.\.0"):
        Point(1, empty)


@pytest.mark.parametrize("mapping", [EXTENT, Point(5, EXTENT)], ids=["extent", "point"])
def test_a_missing_label_is_a_value_error_that_lists_the_labels(mapping: Mapping[str, int]):
    expected = r"Dimension 'x' not found in {hosts: 2, gpus: 4}; it has 'hosts', 'gpus'"
    with pytest.raises(ValueError, match=expected) as raised:
        mapping["x"]

    assert raised.type is UnknownDimensionError
    assert mapping.get("x") is None
    assert "x" not in mapping


def test_the_region_of_an_extent_has_all_its_ranks():
    region = EXTENT.region

    assert region == Region(["hosts", "gpus"], NDSlice.new_row_major([2, 4]))


def test_bad_extents_are_refused():
    with pytest.raises(ValueError, match="size of dimension 'gpus' must be at least 1, got 0"):
        Extent(["hosts", "gpus"], [2, 0])
    with pytest.raises(ValueError, match="size of dimension 'a' must be at least 1, got -1"):
        Extent(["a"], [-1])
    with pytest.raises(ValueError, match="Duplicate dimension name 'a'"):
        Extent(["a", "a"], [1, 2])
    with pytest.raises(ValueError, match=r"1 labels .* for 2 dimensions"):
        Extent(["a"], [1, 2])
    with pytest.raises(TypeError, match="the one string 'ab'"):
        Extent("ab", [1, 2])


def test_an_extent_shows_labels_and_sizes():
    assert str(EXTENT) == repr(EXTENT) == "{hosts: 2, gpus: 4}"


@given(shapes())
def test_points_have_the_coordinates_of_their_rank(shape: Shape):
    extent = shape.extent

    for rank, where in enumerate(coordinates_of(extent.sizes)):
        point = Point(rank, extent)
        assert dict(point) == dict(zip(extent.labels, where, strict=True))
        assert (point.rank, point.extent, len(point)) == (rank, extent, len(where))


def test_a_point_knows_the_sizes():
    point = Point(5, EXTENT)

    assert (point.size("hosts"), point.size("gpus")) == (2, 4)
    with pytest.raises(ValueError, match="Dimension 'x' not found"):
        point.size("x")


def test_a_point_outside_is_refused():
    with pytest.raises(ValueError, match=r"rank 8 out of range of {hosts: 2, gpus: 4}.*0\.\.7"):
        Point(8, EXTENT)
    with pytest.raises(OverflowError, match="must not be negative, got -1"):
        Point(-1, EXTENT)
    with pytest.raises(TypeError):
        Point(1.0, EXTENT)  # type: ignore[arg-type]


def test_a_point_shows_coordinates_and_sizes():
    assert str(Point(5, EXTENT)) == repr(Point(5, EXTENT)) == "{'hosts': 1/2, 'gpus': 1/4}"


def test_points_are_equal_by_rank_and_extent():
    point = Point(5, EXTENT)

    assert point == Point(5, Extent(["hosts", "gpus"], [2, 4]))
    assert hash(point) == hash(Point(5, Extent(["hosts", "gpus"], [2, 4])))
    assert point not in [Point(4, EXTENT), Point(5, Extent(["a", "b"], [2, 4]))]
    assert point != dict(point)
    assert dict(EXTENT) != EXTENT


@pytest.mark.parametrize("value", [EXTENT, Point(5, EXTENT)], ids=["extent", "point"])
def test_extents_and_points_survive_pickling_with_their_hash(value: object):
    copy = pickle.loads(pickle.dumps(value))

    assert (copy, hash(copy), type(copy)) == (value, hash(value), type(value))


def test_points_of_one_extent_share_it_in_a_pickle():
    one = len(pickle.dumps([Point(0, EXTENT)]))
    hundred = len(pickle.dumps([Point(rank % 8, EXTENT) for rank in range(100)]))

    assert hundred < one + 100 * 20


@pytest.mark.parametrize(
    ("value", "name"), [(EXTENT, "sizes"), (Point(5, EXTENT), "rank"), (Point(5, EXTENT), "new")]
)
def test_extents_and_points_cannot_be_changed(value: object, name: str):
    with pytest.raises(AttributeError):
        setattr(value, name, 1)
