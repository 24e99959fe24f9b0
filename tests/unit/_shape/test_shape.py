from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus.shape import Extent, NDSlice, Point, Region, Shape
from tests.unit._shape.model import coordinates_of, shapes, values_of

SHAPE = Shape(["label0", "label1"], NDSlice.new_row_major([2, 3]))
ODD_HOSTS = Shape(["hosts", "gpus"], NDSlice(offset=4, sizes=[2, 4], strides=[8, 1]))


@given(shapes())
def test_a_shape_names_the_axes_of_its_ranks(shape: Shape):
    ranks = values_of(shape.ndslice)

    assert shape.ranks() == ranks
    assert len(shape) == len(ranks)
    for where, rank in zip(coordinates_of(shape.extent.sizes), ranks, strict=True):
        assert shape.coordinates(rank) == dict(zip(shape.labels, where, strict=True))


@given(st.data(), shapes())
def test_index_keeps_the_ranks_with_these_coordinates(data: st.DataObject, shape: Shape):
    labels = data.draw(st.sets(st.sampled_from(shape.labels))) if shape.labels else set()
    chosen = {label: data.draw(st.integers(0, shape.extent[label] - 1)) for label in labels}

    part = shape.index(**chosen)

    assert part.labels == [label for label in shape.labels if label not in chosen]
    assert part.ranks() == [
        rank for rank in shape.ranks() if chosen.items() <= shape.coordinates(rank).items()
    ]


def test_at_drops_the_dimension():
    part = ODD_HOSTS.at("hosts", 1)

    assert part == Shape(["gpus"], NDSlice(offset=12, sizes=[4], strides=[1]))


def test_select_keeps_the_dimension():
    part = ODD_HOSTS.select("gpus", slice(1, None, 2))

    assert part == Shape(["hosts", "gpus"], NDSlice(offset=5, sizes=[2, 2], strides=[8, 2]))


def test_select_counts_from_the_end_as_python_does():
    assert ODD_HOSTS.select("gpus", slice(-2, 99)).ranks() == [6, 7, 14, 15]


def test_select_with_a_step_that_leaves_a_rest_takes_what_there_is():
    assert SHAPE.select("label1", slice(None, None, 2)).ranks() == [0, 2, 3, 5]


def test_an_unknown_label_is_a_value_error():
    expected = "invalid label 'x': {hosts=2,gpus=4} has 'hosts', 'gpus'"
    for call in (
        lambda: ODD_HOSTS.at("x", 0),
        lambda: ODD_HOSTS.index(x=0),
        lambda: ODD_HOSTS.select("x", slice(1)),
    ):
        with pytest.raises(ValueError, match=expected):
            call()


def test_an_index_beyond_the_size_is_a_value_error():
    expected = r"index 2 out of range along 'hosts' \(size 2\) of {hosts=2,gpus=4}"
    with pytest.raises(ValueError, match=expected):
        ODD_HOSTS.at("hosts", 2)


def test_a_negative_index_is_an_overflow_error():
    with pytest.raises(OverflowError, match=r"index along 'hosts' of .* not be negative, got -1"):
        ODD_HOSTS.at("hosts", -1)


def test_selecting_nothing_is_a_value_error():
    with pytest.raises(ValueError, match=r"empty range 2:2:1 along 'gpus' \(size 4\)"):
        ODD_HOSTS.select("gpus", slice(2, 2))


@pytest.mark.parametrize(("step", "text"), [(-1, "at least 1, got -1"), (0, "cannot be zero")])
def test_a_step_below_one_is_a_value_error(step: int, text: str):
    with pytest.raises(ValueError, match=text):
        ODD_HOSTS.select("gpus", slice(None, None, step))


def test_selecting_by_an_int_is_a_type_error():
    with pytest.raises(TypeError, match="dimension 'gpus' is selected by a slice, got 1"):
        ODD_HOSTS.select("gpus", 1)  # type: ignore[arg-type]


def test_a_rank_outside_has_no_coordinates():
    with pytest.raises(ValueError, match="value 8 not in Slice"):
        ODD_HOSTS.coordinates(8)


def test_unity_is_one_rank_without_dimensions():
    unity = Shape.unity()

    assert (unity.ranks(), unity.labels, str(unity), len(unity)) == ([0], [], "{}", 1)


def test_a_shape_has_an_extent_and_a_region():
    assert ODD_HOSTS.extent == Extent(["hosts", "gpus"], [2, 4])
    assert ODD_HOSTS.region == Region(["hosts", "gpus"], ODD_HOSTS.ndslice)
    assert ODD_HOSTS.region.as_shape() == ODD_HOSTS


def test_labels_must_fit_the_slice():
    with pytest.raises(ValueError, match=r"1 labels .* for 2 dimensions"):
        Shape(["a"], SHAPE.ndslice)
    with pytest.raises(ValueError, match="Duplicate dimension name 'a'"):
        Shape(["a", "a"], SHAPE.ndslice)


def test_a_shape_needs_a_slice():
    with pytest.raises(TypeError, match=r"a shape needs an NDSlice, got \[2, 3\]"):
        Shape(["a", "b"], [2, 3])  # type: ignore[arg-type]


@given(shapes())
def test_shapes_survive_pickling_and_bytes(shape: Shape):
    for copy in (pickle.loads(pickle.dumps(shape)), Shape.from_bytes(shape.to_bytes())):
        assert copy == shape
        assert hash(copy) == hash(shape)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\xff",
        b"[]",
        b"{}",
        b'{"labels": ["a"], "slice": {"offset": 0, "sizes": [0], "strides": [1]}}',
        b'{"labels": 3, "slice": {"offset": 0, "sizes": [1], "strides": [1]}}',
        b"[" * 100_000,
    ],
)
def test_other_bytes_are_no_shape(data: bytes):
    with pytest.raises(ValueError, match="not a shape written by to_bytes"):
        Shape.from_bytes(data)


def test_shapes_differ_by_labels_and_ranks():
    assert Shape(["a", "b"], SHAPE.ndslice) != SHAPE
    assert Shape(SHAPE.labels, NDSlice.new_row_major([3, 2])) != SHAPE
    assert SHAPE.ndslice != SHAPE


def test_a_shape_shows_sizes_or_everything():
    assert str(SHAPE) == "{label0=2,label1=3}"
    assert repr(SHAPE) == (
        'Shape { labels: ["label0", "label1"], '
        "slice: Slice { offset: 0, sizes: [2, 3], strides: [3, 1] } }"
    )


def test_quotes_in_labels_are_escaped():
    assert 'labels: ["a\\"b\\\\"]' in repr(Shape(['a"b\\'], NDSlice.new_row_major([2])))


@pytest.mark.parametrize("value", [SHAPE, SHAPE.region], ids=["shape", "region"])
def test_shapes_and_regions_cannot_be_changed(value: object):
    with pytest.raises(AttributeError):
        value.labels = []  # type: ignore[attr-defined]


@given(shapes())
def test_a_region_finds_the_point_of_a_base_rank(shape: Shape):
    region = shape.region

    for position, rank in enumerate(shape.ranks()):
        assert region.point_of_base_rank(rank) == Point(position, shape.extent)


def test_a_base_rank_outside_has_no_point():
    with pytest.raises(ValueError, match="base rank 8 out of range: it does not belong"):
        ODD_HOSTS.region.point_of_base_rank(8)


def test_a_region_has_labels_ranks_and_extent():
    region = ODD_HOSTS.region

    assert region.labels == ["hosts", "gpus"]
    assert region.slice() == ODD_HOSTS.ndslice
    assert region.extent == ODD_HOSTS.extent
    assert len(region) == 8


def test_regions_survive_pickling_with_their_hash():
    copy = pickle.loads(pickle.dumps(ODD_HOSTS.region))

    assert copy == ODD_HOSTS.region
    assert hash(copy) == hash(ODD_HOSTS.region)


def test_a_region_is_not_equal_to_its_shape():
    assert ODD_HOSTS.region != ODD_HOSTS


def test_a_region_shows_everything():
    assert repr(Region(["a"], NDSlice(offset=4, sizes=[2], strides=[2]))) == (
        'Region { labels: ["a"], slice: Slice { offset: 4, sizes: [2], strides: [2] } }'
    )
