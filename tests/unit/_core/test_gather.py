from typing import Any

import pytest

from danaus._core.cast import ChildLost, ChildResumed, Relay
from danaus._core.gather import GatherNode
from danaus._core.gather_events import (
    AcknowledgeBatch,
    Adopt,
    Adopted,
    BatchAcknowledged,
    BatchArrived,
    CloseGather,
    Emit,
    Entry,
    GatherClosed,
    GatherOpened,
    ProcLost,
    ReplyArrived,
    Tick,
)
from danaus._core.history import InvariantBroken

TREE = Relay("us", (Relay("child", (Relay("grandchild"),)),))
"""Ranks 0 and 1 are here, 2 on the child, 3 on the grandchild."""


def opened(
    *,
    parent: str | None = "parent",
    depth: int = 2,
    tree: Relay = TREE,
    local: dict[int, str] | None = None,
    remote: dict[str, list[int]] | None = None,
    flush_after: float | None = None,
) -> GatherOpened:
    return GatherOpened(
        cast_id="c",
        parent=parent,
        depth=depth,
        subtree=tree,
        local={0: "proc 0", 1: "proc 1"} if local is None else local,
        remote={"child": [2], "grandchild": [3]} if remote is None else remote,
        flush_after=flush_after,
    )


def node(event: GatherOpened | None = None) -> GatherNode:
    gather = GatherNode("us", flush_after=1.0, orphan_after=60.0, remember=2)
    gather.handle(event or opened(), 0.0)
    return gather


def one_host(parent: str | None = None) -> GatherOpened:
    return opened(parent=parent, depth=0, tree=Relay("us"), remote={})


def emit(*entries: Entry, **fields: Any) -> Emit:
    defaults = {"to": "parent", "batch": 1, "since": 1, "lost": (), "complete": False}
    return Emit(cast_id="c", entries=entries, **{**defaults, **fields})


def reply(rank: int) -> ReplyArrived:
    return ReplyArrived(cast_id="c", rank=rank, payload=f"reply {rank}")


def entry(rank: int) -> Entry:
    return rank, f"reply {rank}"


def batch(*ranks: int, **fields: Any) -> BatchArrived:
    defaults = {"child": "child", "batch": 1, "since": 1, "lost": ()}
    entries = tuple(entry(rank) for rank in ranks)
    return BatchArrived(cast_id="c", entries=entries, **{**defaults, **fields})


def acknowledged(number: int) -> BatchAcknowledged:
    return BatchAcknowledged(cast_id="c", batch=number)


def test_replies_of_one_host_go_up_in_one_frame():
    gather = node(one_host())

    assert gather.handle(reply(1), 0.0) == []
    assert gather.handle(reply(0), 0.0) == [
        emit(entry(1), entry(0), to=None, batch=0, since=0, complete=True)
    ]
    assert gather.statistics().open == 0
    assert gather.deadline is None


def test_a_reply_can_be_given_without_an_event():
    gather = node(one_host())
    gather.reply("c", 0, "reply 0", 0.0)

    assert gather.reply("c", 1, "reply 1", 0.0) == [
        emit(entry(0), entry(1), to=None, batch=0, since=0, complete=True)
    ]


def test_a_reply_waits_no_longer_than_the_flush_deadline():
    gather = node()
    gather.handle(reply(0), 5.0)
    gather.handle(reply(1), 5.9)

    assert gather.deadline == 6.0
    assert gather.handle(Tick(), 5.9) == []
    assert gather.handle(Tick(), 6.0) == [emit(entry(0), entry(1))]
    assert gather.deadline is None


def test_a_gather_may_have_a_deadline_of_its_own():
    patient = node(opened(flush_after=9.0))
    patient.handle(reply(0), 5.0)
    hasty = node(opened(flush_after=0.0))

    assert patient.deadline == 14.0
    assert hasty.handle(reply(0), 5.0) == [emit(entry(0))]


def test_the_deadline_of_a_frame_that_has_gone_is_stale():
    gather = node(one_host())
    gather.handle(reply(0), 5.0)
    gather.handle(reply(1), 5.5)

    assert gather.deadline is None


def test_a_call_on_nobody_is_complete_at_once():
    gather = GatherNode("us")

    commands = gather.handle(opened(parent=None, local={}, remote={}), 0.0)

    assert commands == [emit(to=None, batch=0, since=0, complete=True)]


def test_a_childs_batch_is_merged_with_our_replies():
    gather = node()
    gather.handle(reply(0), 0.0)
    gather.handle(reply(1), 0.0)

    assert gather.handle(batch(2, 3), 0.5) == [
        emit(entry(0), entry(1), entry(2), entry(3), complete=True)
    ]


def test_a_childs_batch_is_acknowledged_when_it_is_beyond_loss():
    gather = node()
    gather.handle(batch(2), 0.0)
    gather.handle(Tick(), 1.0)

    assert gather.handle(acknowledged(1), 2.0) == [
        AcknowledgeBatch(cast_id="c", child="child", batch=1)
    ]


def test_at_the_consumer_a_childs_batch_is_acknowledged_at_once():
    gather = node(opened(parent=None, depth=0, local={}))

    assert gather.handle(batch(2, 3), 0.0) == [
        emit(entry(2), entry(3), to=None, batch=0, since=0, complete=True),
        AcknowledgeBatch(cast_id="c", child="child", batch=1),
    ]


def test_a_batch_behind_a_missing_one_is_taken_but_not_acknowledged():
    gather = node(opened(parent=None, depth=0))

    gather.handle(batch(3, batch=2), 0.0)
    early = gather.handle(Tick(), 1.0)
    gather.handle(batch(2, batch=1), 2.0)
    late = gather.handle(Tick(), 3.0)
    again = gather.handle(batch(3, batch=2), 4.0)

    assert [type(command) for command in early] == [Emit]
    assert late[1:] == [AcknowledgeBatch(cast_id="c", child="child", batch=1)]
    assert again == [AcknowledgeBatch(cast_id="c", child="child", batch=2)]


def test_an_adopted_child_begins_with_the_batch_that_its_old_parent_did_not_have():
    gather = node(opened(parent=None, depth=0, flush_after=0.0))

    commands = gather.handle(batch(3, child="grandchild", batch=5, since=5), 0.0)

    assert commands[1:] == [AcknowledgeBatch(cast_id="c", child="grandchild", batch=5)]


def test_a_batch_that_comes_again_is_acknowledged_with_the_frame_that_has_it():
    gather = node()
    gather.handle(batch(2), 0.0)
    gather.handle(Tick(), 1.0)

    assert gather.handle(batch(2, child="other"), 1.0) == []
    assert gather.handle(acknowledged(1), 2.0) == [
        AcknowledgeBatch(cast_id="c", child="child", batch=1),
        AcknowledgeBatch(cast_id="c", child="other", batch=1),
    ]
    assert gather.handle(batch(2), 3.0) == [AcknowledgeBatch(cast_id="c", child="child", batch=1)]
    assert gather.statistics().repeated == 2


def test_frames_are_kept_until_they_are_beyond_loss():
    gather = node(one_host("parent"))
    gather.handle(reply(0), 0.0)
    gather.handle(Tick(), 1.0)
    gather.handle(reply(1), 2.0)

    assert gather.statistics().kept == 2
    gather.handle(acknowledged(1), 3.0)
    assert gather.statistics().kept == 1
    gather.handle(acknowledged(2), 3.0)
    assert gather.statistics().open == 0


def test_the_ranks_of_a_dead_proc_are_reported_as_lost():
    gather = node(one_host())
    gather.handle(reply(0), 0.0)

    assert gather.handle(ProcLost(proc="proc 1"), 0.1) == [
        emit(entry(0), to=None, batch=0, since=0, lost=(1,), complete=True)
    ]


def test_the_death_of_a_proc_that_has_answered_is_nothing():
    gather = node(one_host())
    gather.handle(reply(0), 0.0)

    assert gather.handle(ProcLost(proc="proc 0"), 0.1) == []


def test_a_proc_with_the_name_of_a_host_is_no_host():
    gather = node(opened(local={0: "child", 1: "proc 1"}))

    gather.handle(ChildLost(child="child"), 0.0)

    assert gather.handle(Tick(), 1.0) == [emit(lost=(2,))]


def test_the_children_of_a_dead_child_are_adopted_and_its_ranks_lost():
    gather = node()

    assert gather.handle(ChildLost(child="child"), 0.0) == [
        Adopt(cast_id="c", child="grandchild", depth=3)
    ]
    assert gather.handle(Tick(), 1.0) == [emit(lost=(2,))]
    assert gather.statistics().waiting == 3


def test_the_death_of_a_stranger_is_nothing():
    gather = node()

    assert gather.handle(ChildLost(child="stranger"), 0.0) == []
    assert gather.deadline is None


def test_lost_ranks_of_a_child_are_passed_on():
    gather = node()

    gather.handle(batch(3, lost=(2,)), 0.0)

    assert gather.handle(Tick(), 1.0) == [emit(entry(3), lost=(2,))]


def test_a_reply_that_was_reported_as_lost_before_is_passed_on():
    gather = node()
    gather.handle(batch(lost=(2,)), 0.0)
    gather.handle(Tick(), 1.0)

    gather.handle(batch(2, batch=2), 1.0)

    assert gather.handle(Tick(), 2.0) == [emit(entry(2), batch=2)]


def test_a_reply_overtakes_the_news_that_it_is_lost():
    gather = node()
    gather.handle(batch(lost=(2,)), 0.0)

    gather.handle(batch(2, batch=2), 0.5)

    assert gather.handle(Tick(), 1.0) == [emit(entry(2))]


def test_a_rank_that_replied_cannot_be_lost():
    gather = node()
    gather.handle(batch(2), 0.0)

    gather.handle(batch(lost=(2,), batch=2), 0.0)

    assert gather.handle(Tick(), 1.0) == [emit(entry(2))]


def test_a_late_reply_of_a_lost_rank_passes_through_a_finished_gather():
    gather = node(one_host())
    gather.handle(reply(0), 0.0)
    gather.handle(ProcLost(proc="proc 1"), 0.0)

    assert gather.handle(reply(1), 9.0) == [
        emit(entry(1), to=None, batch=0, since=0, complete=True)
    ]
    assert gather.handle(reply(1), 9.0) == []
    assert gather.handle(reply(0), 9.0) == []


def test_a_late_batch_relieves_its_sender():
    gather = node(one_host())
    gather.handle(reply(0), 0.0)
    gather.handle(ProcLost(proc="proc 1"), 0.0)

    assert gather.handle(batch(0, 1, batch=4), 9.0) == [
        emit(entry(1), to=None, batch=0, since=0, complete=True),
        AcknowledgeBatch(cast_id="c", child="child", batch=4),
    ]
    assert gather.handle(batch(1, batch=0, since=0), 9.0) == []


def test_a_batch_that_asks_for_no_acknowledgement_gets_none():
    gather = node(opened(parent=None, depth=0, flush_after=0.0))
    gather.handle(batch(lost=(2,)), 0.0)

    assert gather.handle(batch(2, batch=0, since=0), 0.0) == [
        emit(entry(2), to=None, batch=0, since=0)
    ]


def test_after_an_adoption_what_is_not_beyond_loss_is_emitted_again():
    gather = node()
    for rank in (0, 1):
        gather.handle(reply(rank), 0.0)
        gather.handle(Tick(), 1.0)
    gather.handle(batch(2), 1.0)
    gather.handle(Tick(), 2.0)
    gather.handle(acknowledged(1), 2.0)

    commands = gather.handle(Adopted(cast_id="c", parent="grandparent", depth=1), 3.0)

    assert commands == [
        emit(entry(1), to="grandparent", batch=2, since=2),
        emit(entry(2), to="grandparent", batch=3, since=2),
    ]


@pytest.mark.parametrize("parent", ["old parent", None])
def test_a_parent_that_is_farther_from_the_root_is_not_heeded(parent: str | None):
    gather = node()

    gather.handle(opened(parent=parent, depth=3), 0.0)
    gather.handle(reply(0), 0.0)

    assert gather.handle(Tick(), 1.0) == [emit(entry(0))]


def test_a_cast_that_comes_from_an_ancestor_changes_the_parent():
    gather = node()
    gather.handle(reply(0), 0.0)
    gather.handle(Tick(), 1.0)

    assert gather.handle(opened(parent="grandparent", depth=1), 2.0) == [
        emit(entry(0), to="grandparent")
    ]


def test_a_cast_that_comes_again_does_not_open_a_finished_gather():
    gather = node(one_host("parent"))
    gather.handle(reply(0), 0.0)
    gather.handle(reply(1), 0.0)
    gather.handle(acknowledged(1), 0.0)

    assert gather.handle(one_host("grandparent"), 1.0) == []
    assert gather.statistics().open == 0


def test_an_orphan_keeps_its_replies_until_it_is_adopted():
    gather = node()
    gather.handle(ChildLost(child="parent"), 0.0)
    gather.handle(reply(0), 0.0)

    assert gather.handle(Tick(), 1.0) == []
    assert gather.handle(Adopted(cast_id="c", parent="grandparent", depth=1), 2.0) == [
        emit(entry(0), to="grandparent")
    ]
    assert gather.deadline is None


def test_an_orphan_that_nobody_adopts_closes():
    gather = node()
    gather.handle(ChildLost(child="parent"), 10.0)
    gather.handle(ChildLost(child="parent"), 20.0)

    assert gather.deadline == 70.0
    assert gather.handle(Tick(), 70.0) == [CloseGather(cast_id="c", child="child")]
    assert gather.statistics().open == 0


def test_after_a_broken_link_everything_is_said_again():
    gather = node()
    gather.handle(reply(0), 0.0)
    gather.handle(Tick(), 1.0)

    assert gather.handle(ChildResumed(child="parent"), 2.0) == [emit(entry(0))]
    assert gather.handle(ChildResumed(child="child"), 2.0) == [
        Adopt(cast_id="c", child="child", depth=3)
    ]
    assert gather.handle(ChildResumed(child="stranger"), 2.0) == []


def test_closing_tells_the_children():
    gather = node()

    assert gather.handle(GatherClosed(cast_id="c", parent="parent"), 0.0) == [
        CloseGather(cast_id="c", child="child")
    ]
    assert gather.handle(reply(0), 1.0) == []
    assert gather.statistics().repeated == 1


def test_only_the_parent_can_close():
    gather = node()

    assert gather.handle(GatherClosed(cast_id="c", parent="old parent"), 0.0) == []
    assert gather.statistics().open == 1


@pytest.mark.parametrize(
    "event",
    [
        acknowledged(1),
        Adopted(cast_id="c", parent="grandparent", depth=1),
        GatherClosed(cast_id="c", parent="parent"),
        ProcLost(proc="proc 0"),
        ChildResumed(child="child"),
    ],
)
def test_news_of_an_unknown_gather_mean_nothing(event: Any):
    assert GatherNode("us").handle(event, 0.0) == []


def test_finished_gathers_are_forgotten_in_time():
    gather = GatherNode("us", remember=2)
    for number in range(3):
        cast_id = str(number)
        event = GatherOpened(
            cast_id=cast_id, parent=None, depth=0, subtree=Relay("us"), local={0: "proc 0"}
        )
        gather.handle(event, 0.0)
        gather.handle(ProcLost(proc="proc 0"), 0.0)
        gather.check()

    assert len(gather.reply("2", 0, "late", 0.0)) == 1
    assert gather.reply("0", 0, "too late", 0.0) == []


def test_an_unknown_event_is_refused():
    class Nonsense:
        cast_id = "c"

    with pytest.raises(AssertionError):
        node().handle(Nonsense(), 0.0)  # pyright: ignore[reportArgumentType]  # the point


def test_the_repr_names_the_host_and_the_load():
    assert repr(node()) == "<GatherNode us 1 open>"


@pytest.mark.parametrize(
    "damage", ["idle", "deadline", "lost", "new lost", "kept", "taken", "finished"]
)
def test_check_finds_a_damaged_node(damage: str):
    node_ = node()
    node_.check()
    gather = node_._gathers["c"]

    if damage == "idle":
        gather.waiting.clear()
    elif damage == "deadline":
        gather.deadline = 1.0
    elif damage == "lost":
        gather.lost.add(0)
    elif damage == "new lost":
        gather.new_lost.add(9)
        gather.deadline = 1.0
    elif damage == "kept":
        gather.kept[1] = (emit(), {})
        gather.parent = None
    elif damage == "taken":
        gather.taken["child"] = 1
    else:
        node_._finished["c"] = (None, set())

    with pytest.raises(InvariantBroken, match="gather node on 'us'"):
        node_.check()
