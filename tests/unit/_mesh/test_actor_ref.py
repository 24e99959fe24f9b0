import pickle

import msgspec

from danaus._mesh.actor_ref import ActorRef
from danaus._mesh.proc_table import ProcTable
from danaus._shape import NDSlice, Shape


class Trainer:
    pass


def ref(shape: Shape | None = None) -> ActorRef:
    table = ProcTable("procs", [(f"proc-{i}", f"agent-{i // 2}") for i in range(4)])
    return ActorRef("uid", "trainer", Trainer, table, shape or grid())


def grid() -> Shape:
    return Shape(["hosts", "gpus"], NDSlice.new_row_major([2, 2]))


def test_targets_are_the_processes_with_their_ranks():
    assert ref().targets() == [
        ("proc-0", "agent-0", 0),
        ("proc-1", "agent-0", 1),
        ("proc-2", "agent-1", 2),
        ("proc-3", "agent-1", 3),
    ]


def test_ranks_of_a_part_count_from_zero_and_base_ranks_do_not():
    part = ref().reshaped(grid().at("gpus", 1))

    assert part.targets() == [("proc-1", "agent-0", 0), ("proc-3", "agent-1", 1)]
    assert part.base_ranks() == [1, 3]


def test_the_process_of_a_rank_that_was_respawned_is_the_new_one():
    whole = ref()
    part = whole.reshaped(grid().at("hosts", 1))
    assert part.targets()[0][0] == "proc-2"

    whole.table.replace(2, "proc-new", "elsewhere")

    assert part.targets()[0] == ("proc-new", "elsewhere", 0)
    assert whole.targets()[2] == ("proc-new", "elsewhere", 2)


def test_targets_are_made_once():
    whole = ref()

    assert whole.targets() is whole.targets()
    assert whole.base_ranks() is whole.base_ranks()


def test_the_extent_travels_as_labels_and_sizes():
    assert msgspec.msgpack.decode(ref().encoded_extent()) == [["hosts", "gpus"], [2, 2]]


def test_a_single_actor_has_no_extent():
    one = ref(Shape([], NDSlice(offset=3, sizes=[], strides=[])))

    assert one.encoded_extent() == b""
    assert one.targets() == [("proc-3", "agent-1", 0)]


def test_replies_come_in_the_same_dimensions_with_ranks_from_zero():
    part = ref().reshaped(grid().select("hosts", slice(1, 2)))

    shape = part.reply_shape()

    assert list(shape.labels) == ["hosts", "gpus"]
    assert shape.ndslice.ranks() == [0, 1]


def test_a_table_of_processes_can_be_sent():
    table = ProcTable("procs", [("proc-0", "agent-0")])
    table.replace(0, "proc-1", "agent-0")

    copy = pickle.loads(pickle.dumps(table))

    assert (copy.mesh, copy.procs, copy.version) == ("procs", [("proc-1", "agent-0")], 1)
