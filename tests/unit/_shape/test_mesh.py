from __future__ import annotations

from collections.abc import Iterable

import pytest

from danaus.shape import Extent, MeshTrait, NDSlice, Shape


class NamedMesh(MeshTrait):
    """A mesh that has nothing but its shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @property
    def _ndslice(self) -> NDSlice:
        return self.shape.ndslice

    @property
    def _labels(self) -> Iterable[str]:
        return self.shape.labels

    def _new_with_shape(self, shape: Shape) -> NamedMesh:
        return NamedMesh(shape)


MESH = NamedMesh(Shape(["hosts", "gpus"], NDSlice.new_row_major([2, 4])))


def test_a_mesh_has_an_extent_and_sizes():
    assert MESH.extent == Extent(["hosts", "gpus"], [2, 4])
    assert MESH.sizes == {"hosts": 2, "gpus": 4}
    assert len(MESH) == 8


def test_size_is_that_of_all_of_one_or_of_several_dimensions():
    assert MESH.size() == 8
    assert MESH.size("gpus") == 4
    assert MESH.size(["gpus", "hosts"]) == 8
    assert MESH.size([]) == 1


@pytest.mark.parametrize("dim", ["x", ["hosts", "x"]])
def test_the_size_of_an_unknown_dimension_is_a_key_error(dim: str | list[str]):
    with pytest.raises(KeyError) as raised:
        MESH.size(dim)

    assert str(raised.value) == (
        "NamedMesh {hosts: 2, gpus: 4} does not have dimension 'x'; it has 'hosts', 'gpus'"
    )


def test_slice_makes_a_mesh_of_the_same_kind():
    part = MESH.slice(hosts=1, gpus=slice(0, 4, 2))

    assert isinstance(part, NamedMesh)
    assert part.shape == Shape(["gpus"], NDSlice(offset=4, sizes=[2], strides=[2]))


def test_a_mesh_sliced_by_ints_only_has_one_element_and_no_dimensions():
    point = MESH.slice(hosts=1, gpus=1)

    assert (len(point), point.sizes, point.size()) == (1, {}, 1)


def test_slices_of_slices_keep_the_ranks_of_the_first_mesh():
    part = MESH.slice(gpus=slice(1, 3)).slice(hosts=1).slice(gpus=1)

    assert part.shape.ranks() == [6]


def test_slice_without_arguments_is_the_same_mesh():
    assert MESH.slice().shape == MESH.shape


def test_split_flatten_and_rename_make_meshes():
    assert MESH.split(gpus=("a", "b"), b=2).sizes == {"hosts": 2, "a": 2, "b": 2}
    assert MESH.flatten("rank").sizes == {"rank": 8}
    assert MESH.rename(hosts="node").sizes == {"node": 2, "gpus": 4}


def test_dimensions_may_be_called_self():
    mesh = NamedMesh(Shape(["self"], NDSlice.new_row_major([4])))

    assert mesh.slice(self=1).shape.ranks() == [1]
    assert mesh.rename(self="other").sizes == {"other": 4}
    assert mesh.split(self=("a", "b"), a=2).sizes == {"a": 2, "b": 2}


def test_errors_of_a_slice_are_raised_at_once():
    with pytest.raises(TypeError, match="does not have dimension 'x'"):
        MESH.slice(x=0)
    with pytest.raises(IndexError, match="index 2 out of range along 'hosts'"):
        MESH.slice(hosts=2)


@pytest.mark.parametrize("part", ["_ndslice", "_labels"])
def test_a_mesh_without_its_parts_says_which_are_missing(part: str):
    with pytest.raises(NotImplementedError, match=f"MeshTrait must define {part}"):
        getattr(MeshTrait(), part)
    with pytest.raises(NotImplementedError, match="MeshTrait must define _new_with_shape"):
        MeshTrait()._new_with_shape(MESH.shape)


def test_a_subclass_may_have_slots_and_a_metaclass():
    class Meta(type):
        pass

    class Slotted(MeshTrait, metaclass=Meta):
        __slots__ = ("shape",)

    assert not hasattr(Slotted(), "__dict__")
