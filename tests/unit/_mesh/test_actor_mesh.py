import pickle
from typing import Any

import pytest

from danaus._mesh.actor import Actor, endpoint
from danaus._mesh.actor_mesh import ActorMesh, NotAnEndpoint, endpoint_collisions
from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.endpoint import Endpoint, as_endpoint, send
from danaus._mesh.proc_mesh import ProcMesh
from danaus._mesh.proc_table import ProcTable
from danaus._shape import NDSlice, Shape


class Counter(Actor):
    field = 3

    @endpoint
    def add(self, n: int) -> int:
        return n

    def plain(self, n: int) -> int:
        return n


SHAPE = Shape(["hosts", "gpus"], NDSlice.new_row_major([2, 3]))


def table() -> ProcTable:
    return ProcTable("procs", [(f"proc-{i}", f"agent-{i // 3}") for i in range(6)])


def mesh(shape: Shape = SHAPE) -> ActorMesh[Counter]:
    return ActorMesh(ActorRef("uid", "counter", Counter, table(), shape), owned=True)


def test_endpoints_are_attributes_and_made_once():
    counters = mesh()

    assert isinstance(counters.add, Endpoint)
    assert counters.add is counters.add
    assert counters.add.name == "add"


def test_an_undecorated_method_cannot_be_called_and_says_what_to_do():
    plain = mesh().plain

    assert isinstance(plain, NotAnEndpoint)
    for use in (plain, plain.call, plain.call_one, plain.choose, plain.stream, plain.broadcast):
        with pytest.raises(RuntimeError, match=r"Actor Counter\.plain is not annotated"):
            use(1)


def test_an_undecorated_method_can_be_made_an_endpoint():
    made = as_endpoint(mesh().plain)

    assert isinstance(made, Endpoint)
    assert made.name == "plain"


@pytest.mark.parametrize("thing", [mesh().add, Counter.plain, 3])
def test_what_is_no_method_of_a_mesh_cannot_be_made_an_endpoint(thing: Any):
    with pytest.raises(ValueError, match="expected an method of a spawned actor"):
        as_endpoint(thing)


def test_an_unknown_attribute_is_an_error_that_suggests_a_near_one():
    with pytest.raises(AttributeError, match=r"Counter has no attribute 'ad'; did you mean 'add'"):
        mesh().ad  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute '_private'"):
        mesh()._private  # noqa: B018


def test_a_field_of_the_actors_is_not_reachable():
    with pytest.raises(AttributeError, match=r"Counter\.field is not an endpoint"):
        mesh().field  # noqa: B018


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [((), {}, "missing"), ((1, 2), {}, "too many"), ((1,), {"x": 1}, "unexpected keyword")],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    args: tuple[Any, ...], kwargs: dict[str, Any], why: str
):
    add = mesh().slice(hosts=0, gpus=0).add

    for adverb in (add.call, add.call_one, add.choose, add.stream, add.broadcast):
        with pytest.raises(TypeError, match=f"endpoint Counter.add.*{why}"):
            adverb(*args, **kwargs)


def test_calling_one_needs_exactly_one():
    with pytest.raises(ValueError, match="call_one requires exactly 1 actor, but mesh has 6"):
        mesh().add.call_one(1)


def test_a_selection_that_is_none_is_refused():
    with pytest.raises(ValueError, match="Invalid selection: some"):
        send(mesh().add, (1,), {}, selection="some")


def test_a_remote_reference_needs_a_tensor_engine():
    with pytest.raises(NotImplementedError, match="rref needs a tensor engine"):
        mesh().add.rref(1)


def test_a_slice_refers_to_its_part_of_the_processes():
    part = mesh().slice(gpus=slice(1, 3)).slice(hosts=1)

    assert part.sizes == {"gpus": 2}
    assert part._actors.targets() == [("proc-4", "agent-1", 0), ("proc-5", "agent-1", 1)]
    assert part._actors.base_ranks() == [4, 5]


def test_a_reshaped_mesh_keeps_its_actors():
    flat = mesh().flatten("all")

    assert flat.sizes == {"all": 6}
    assert [proc for proc, _, _ in flat._actors.targets()] == [f"proc-{i}" for i in range(6)]


def test_a_received_mesh_equals_the_one_that_was_sent():
    sent = mesh().slice(gpus=slice(0, 2))

    received = pickle.loads(pickle.dumps(sent))

    assert received == sent
    assert hash(received) == hash(sent)
    assert received.sizes == sent.sizes
    assert received._actors.targets() == sent._actors.targets()


def test_meshes_are_equal_if_they_are_of_the_same_actors_in_the_same_shape():
    assert mesh() == mesh()
    assert mesh() != mesh().slice(hosts=0)
    assert mesh() != mesh().flatten("all")
    assert mesh() != 3


def test_a_mesh_shows_its_name_class_and_shape():
    assert repr(mesh()) == "<ActorMesh counter of Counter {hosts: 2, gpus: 3}>"
    assert repr(mesh().add) == "<Endpoint add of counter of Counter {hosts: 2, gpus: 3}>"


def test_a_mesh_is_true_also_if_it_is_one_actor():
    assert mesh().slice(hosts=0, gpus=0)


class Colliding(Actor):
    @endpoint
    def stop(self) -> None: ...

    @endpoint
    def size(self) -> None: ...


class Overriding(Actor):
    def stop(self) -> None: ...  # type: ignore[override]


def test_endpoints_that_a_mesh_would_hide_are_found():
    assert endpoint_collisions(Colliding) == ["size", "stop"]
    assert endpoint_collisions(Overriding) == []
    assert endpoint_collisions(Counter) == []


def procs() -> ProcMesh:
    return ProcMesh("procs", "procs", table(), SHAPE)


@pytest.mark.parametrize("thing", [int, Actor(), "Counter", None])
def test_only_actors_are_spawned(thing: Any):
    with pytest.raises(ValueError, match="is not an Actor class"):
        procs().spawn("name", thing)


def test_a_class_whose_endpoints_would_be_hidden_is_not_spawned():
    collides = "ActorMesh has an attribute that collides with an endpoint name: 'size'"
    with pytest.raises(ValueError, match=collides):
        procs().spawn("name", Colliding)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "tab\t", "\0"])
def test_a_name_that_cannot_be_is_refused(name: str):
    with pytest.raises(ValueError, match="needs a name of 1 to 255 printable characters"):
        procs().spawn(name, Counter)


@pytest.mark.parametrize("name", [None, 3, b"bytes"])
def test_a_name_is_a_text(name: Any):
    with pytest.raises(TypeError, match="the name of an actor mesh is a str"):
        procs().spawn(name, Counter)
