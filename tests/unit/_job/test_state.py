from __future__ import annotations

import copy

import pytest

from danaus._job.state import JobState
from danaus._mesh.host_mesh import HostMesh
from danaus._shape import NDSlice, Shape


def mesh(size: int) -> HostMesh:
    hosts = [(f"h{i}", f"/nowhere/{i}") for i in range(size)]
    return HostMesh(hosts, Shape(["hosts"], NDSlice.new_row_major([size])))


def test_each_mesh_is_an_attribute():
    trainers, loaders = mesh(4), mesh(1)

    state = JobState({"trainers": trainers, "loaders": loaders})

    assert state.trainers is trainers
    assert state.loaders is loaders
    assert {"trainers", "loaders"} <= set(dir(state))


def test_an_unknown_name_is_refused_with_the_names_that_there_are():
    state = JobState({"trainers": mesh(1), "loaders": mesh(1)})

    with pytest.raises(
        AttributeError,
        match=r"'gpus' is not a valid host mesh name\. Available names: trainers, loaders",
    ):
        _ = state.gpus


def test_a_state_can_be_copied():
    state = copy.copy(JobState({"trainers": mesh(2)}))

    assert dict(state.trainers.extent) == {"hosts": 2}
