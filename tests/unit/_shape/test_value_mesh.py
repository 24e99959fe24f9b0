from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus.shape import NDSlice, Point, Shape, ValueMesh
from tests.unit._shape.model import shapes

SHAPE = Shape(["hosts", "gpus"], NDSlice.new_row_major([2, 3]))
LETTERS = ValueMesh(SHAPE, list("abcdef"))
THREE = Shape(["n"], NDSlice.new_row_major([3]))


@given(shapes())
def test_values_stand_at_the_coordinates_of_their_ranks(shape: Shape):
    mesh = ValueMesh(shape, shape.ranks())

    for point, value in mesh:
        assert shape.coordinates(value) == dict(point)
        assert mesh.item(**point) == mesh.get(point.rank) == value


@given(st.data(), shapes())
def test_a_sliced_mesh_has_the_values_of_its_ranks(data: st.DataObject, shape: Shape):
    mesh = ValueMesh(shape, [f"rank {rank}" for rank in shape.ranks()])
    chosen: dict[str, int | slice] = {}
    for label, size in shape.extent.items():
        start = data.draw(st.integers(0, size - 1))
        step = data.draw(st.integers(1, 2))
        chosen[label] = data.draw(st.sampled_from([start, slice(start, None, step)]))

    part = mesh.slice(**chosen)

    assert part.values() == [f"rank {rank}" for rank in part._shape.ranks()]


@given(shapes(dense=True))
def test_reshaping_keeps_the_values_in_order(shape: Shape):
    mesh = ValueMesh(shape, shape.ranks())
    flat = mesh.flatten("all")

    assert flat.values() == mesh.values()
    assert flat.split(all=("a", "b"), b=1).values() == mesh.values()
    assert flat.rename(all="n").sizes == {"n": len(mesh)}


def test_items_are_points_and_values_in_rank_order():
    items = list(LETTERS.items())

    assert items == list(LETTERS)
    assert items[4] == (Point(4, SHAPE.extent), "e")
    assert dict(items[4][0]) == {"hosts": 1, "gpus": 1}


def test_a_value_mesh_has_the_labels_and_ranks_of_its_shape():
    assert (LETTERS._labels, LETTERS._ndslice) == (["hosts", "gpus"], SHAPE.ndslice)
    assert (LETTERS.extent, LETTERS.size("gpus"), len(LETTERS)) == (SHAPE.extent, 3, 6)


def test_slices_of_slices_find_their_values():
    assert LETTERS.slice(gpus=slice(1, 3)).slice(hosts=1).values() == ["e", "f"]
    assert LETTERS.slice(hosts=1).slice(gpus=2).item() == "f"


def test_a_mesh_of_a_sparse_shape_counts_from_its_own_first_rank():
    mesh = ValueMesh(Shape(["n"], NDSlice(offset=4, sizes=[3], strides=[2])), ["x", "y", "z"])

    assert (mesh.get(1), mesh.item(n=1), mesh.slice(n=1).item()) == ("y", "y", "y")
    assert [point.rank for point, _ in mesh] == [0, 1, 2]


def test_a_shape_with_ranks_that_are_not_here_is_refused():
    with pytest.raises(ValueError, match=r"value 6 of .* not in"):
        LETTERS._new_with_shape(Shape(["n"], NDSlice(offset=5, sizes=[2], strides=[1])))


def test_the_number_of_values_must_be_that_of_the_ranks():
    expected = r"expected 6 values for {hosts=2,gpus=3}, but it contains 1$"
    with pytest.raises(ValueError, match=expected):
        ValueMesh(SHAPE, ["a"])


def test_making_a_mesh_does_not_copy_its_values():
    class Uncopied(list[int]):
        def __iter__(self):
            raise AssertionError("somebody reads all the values")

    values = Uncopied(range(100_000))
    mesh = ValueMesh(Shape(["n"], NDSlice.new_row_major([100_000])), values)

    assert mesh.get(99_999) == 99_999
    assert mesh.flatten("all").split(all=("a", "b"), a=10).item(a=9, b=9_999) == 99_999


def test_values_are_a_fresh_list():
    LETTERS.values().clear()

    assert LETTERS.values() == list("abcdef")


@pytest.mark.parametrize("rank", [6, -1])
def test_a_rank_out_of_range_is_a_value_error(rank: int):
    with pytest.raises(ValueError, match=rf"index {rank} out of range \(len=6\)"):
        LETTERS.get(rank)


def test_an_item_needs_every_dimension():
    with pytest.raises(KeyError) as raised:
        LETTERS.item(hosts=1)

    assert "{hosts: 2, gpus: 3} needs a coordinate for 'gpus'" in str(raised.value)


def test_an_item_takes_no_other_dimension():
    with pytest.raises(KeyError) as raised:
        LETTERS.item(hosts=1, gpus=1, x=0)

    assert str(raised.value).startswith("item has extra dimensions: ['x']; ")


@pytest.mark.parametrize("coordinate", [3, -1])
def test_an_item_out_of_range_is_an_index_error(coordinate: int):
    expected = rf"coordinate {coordinate} out of range along 'gpus' \(size 3\).*0\.\.2"
    with pytest.raises(IndexError, match=expected):
        LETTERS.item(hosts=1, gpus=coordinate)


def test_indexed_values_may_come_in_any_order():
    mesh = ValueMesh.from_indexed(THREE, [(2, "c"), (0, "a"), (1, "b")])

    assert mesh.values() == ["a", "b", "c"]


def test_of_values_with_the_same_index_the_last_wins():
    mesh = ValueMesh.from_indexed(THREE, [(0, 7), (1, 8), (1, 88), (2, 9)])

    assert mesh.values() == [7, 88, 9]


def test_a_missing_index_is_a_value_error():
    with pytest.raises(ValueError, match=r"expected 3 .* contains 2"):
        ValueMesh.from_indexed(THREE, [(0, 10), (1, 20)])


@pytest.mark.parametrize("rank", [3, -1])
def test_an_index_outside_is_a_value_error(rank: int):
    with pytest.raises(ValueError, match=rf"rank {rank} out of range \(len=3\) of {{n=3}}"):
        ValueMesh.from_indexed(THREE, [(rank, 10)])


def test_value_meshes_survive_pickling():
    copy = pickle.loads(pickle.dumps(LETTERS.slice(hosts=1)))

    assert type(copy) is ValueMesh
    assert (copy.values(), copy.sizes) == (["d", "e", "f"], {"gpus": 3})
    assert copy._shape == SHAPE.at("hosts", 1)


def test_equal_values_are_pickled_once():
    shape = Shape(["n"], NDSlice.new_row_major([1000]))

    assert len(pickle.dumps(ValueMesh(shape, ["x" * 1000] * 1000))) < 5_000


def test_the_type_may_be_subscripted():
    assert ValueMesh[int](THREE, [1, 2, 3]).values() == [1, 2, 3]


def test_a_value_mesh_cannot_be_changed():
    with pytest.raises(AttributeError):
        LETTERS.anything = 1  # type: ignore[attr-defined]


def test_a_short_mesh_is_shown_on_a_line():
    mesh = ValueMesh(Shape(["hosts", "gpus"], NDSlice.new_row_major([1, 2])), [1, "b"])

    assert repr(mesh) == (
        "ValueMesh({hosts: 1, gpus: 2}):\n"
        "  (({'hosts': 0/1, 'gpus': 0/2}, 1), ({'hosts': 0/1, 'gpus': 1/2}, 'b'))"
    )


def test_a_long_mesh_is_shown_with_a_value_on_each_line():
    mesh = ValueMesh(THREE, ["x" * 30, "y" * 30, "z"])

    assert repr(mesh) == (
        "ValueMesh({n: 3}):\n"
        f"  (({{'n': 0/3}}, '{'x' * 30}'),\n"
        f"   ({{'n': 1/3}}, '{'y' * 30}'),\n"
        "   ({'n': 2/3}, 'z'))"
    )


def test_a_mesh_of_one_value_is_shown_as_a_tuple():
    assert repr(ValueMesh(Shape.unity(), [1])) == "ValueMesh({}):\n  (({}, 1),)"


def test_a_huge_mesh_is_shown_in_part():
    shape = Shape(["n"], NDSlice.new_row_major([100_000]))

    shown = repr(ValueMesh(shape, range(100_000)))

    assert shown.endswith("   ({'n': 63/100000}, 63),\n   … 99936 more)")


def test_all_coordinates_of_a_mesh_have_items():
    found = [LETTERS.item(hosts=h, gpus=g) for h, g in product(range(2), range(3))]

    assert found == list("abcdef")
