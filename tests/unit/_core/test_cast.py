import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._core.cast import (
    Acknowledge,
    CastAcknowledged,
    CastArrived,
    CastRelay,
    ChildLost,
    ChildResumed,
    Deliver,
    Forward,
    HostLost,
    Relay,
    plan_tree,
)
from danaus._core.history import InvariantBroken

LEAF = Relay("leaf")
TREE = Relay("us", (Relay("left", (LEAF, Relay("other leaf"))), Relay("right")))


def arrived(
    tree: Relay = TREE, *, parent: str | None = "parent", depth: int = 1, cast_id: str = "c"
) -> CastArrived:
    return CastArrived(
        cast_id=cast_id,
        parent=parent,
        depth=depth,
        subtree=tree,
        dests=("proc 0", "proc 1"),
        payload="hi",
        nbytes=2,
    )


def forward(child: Relay, depth: int = 2) -> Forward:
    return Forward(cast_id="c", child=child.host, subtree=child, depth=depth, payload="hi")


def acknowledged(child: str) -> CastAcknowledged:
    return CastAcknowledged(cast_id="c", child=child)


def depth(relay: Relay) -> int:
    return 1 + max((depth(child) for child in relay.children), default=-1)


def widths(relay: Relay) -> list[int]:
    below = [width for child in relay.children for width in widths(child)]
    return [len(relay.children), *below]


@given(st.integers(0, 300), st.integers(2, 20))
def test_a_plan_reaches_each_host_once_in_order_and_is_flat(count: int, fanout: int):
    hosts = [f"host {n}" for n in range(count)]

    plan = plan_tree(hosts, fanout, root="me")

    assert plan.hosts() == ["me", *hosts]
    assert max(widths(plan)) <= fanout
    levels, room = 0, 0
    while room < count:
        levels += 1
        room += fanout**levels
    assert depth(plan) <= levels


def test_a_fanout_below_two_is_refused():
    with pytest.raises(ValueError, match="fanout must be 2 or more; got 1"):
        plan_tree(["a"], 1)


@pytest.mark.parametrize("hosts", [["a", "b", "a"], ["a", "me"]])
def test_a_host_that_is_named_twice_is_refused(hosts: list[str]):
    with pytest.raises(ValueError, match=r"more than once: \['(a|me)'\]"):
        plan_tree(hosts, 2, root="me")


def test_a_cast_on_one_host_is_delivered_and_acknowledged():
    relay = CastRelay("us")

    commands = relay.handle(arrived(Relay("us")), 0.0)

    assert commands == [
        Deliver(cast_id="c", dests=("proc 0", "proc 1"), payload="hi"),
        Acknowledge(cast_id="c", parent="parent"),
    ]
    assert relay.statistics().in_flight == 0


def test_a_cast_of_the_local_sender_needs_no_acknowledgement():
    relay = CastRelay("us")

    commands = relay.handle(arrived(Relay("us"), parent=None), 0.0)

    assert [type(command) for command in commands] == [Deliver]


def test_a_relay_without_procs_delivers_nothing():
    relay = CastRelay("us")
    event = CastArrived(cast_id="c", parent=None, depth=0, subtree=TREE, dests=(), payload="hi")

    assert relay.handle(event, 0.0) == [forward(child, 1) for child in TREE.children]


def test_a_cast_is_forwarded_to_each_child_with_its_subtree():
    relay = CastRelay("us")

    commands = relay.handle(arrived(), 0.0)

    assert commands[1:] == [forward(child) for child in TREE.children]
    assert relay.statistics().in_flight == 1
    assert relay.statistics().kept_bytes == 2


def test_a_cast_is_acknowledged_when_all_children_have():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)

    assert relay.handle(acknowledged("left"), 0.0) == []
    assert relay.handle(acknowledged("left"), 0.0) == []
    assert relay.handle(acknowledged("right"), 0.0) == [Acknowledge(cast_id="c", parent="parent")]
    assert relay.handle(acknowledged("right"), 0.0) == []
    assert relay.statistics().kept_bytes == 0


def test_the_children_of_a_dead_child_are_adopted():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)

    commands = relay.handle(ChildLost(child="left"), 0.0)

    assert commands == [
        HostLost(cast_id="c", host="left"),
        forward(LEAF),
        forward(Relay("other leaf")),
    ]
    assert relay.statistics().adopted == 2


def test_a_cast_is_acknowledged_when_the_last_child_dies():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)
    relay.handle(acknowledged("left"), 0.0)

    assert relay.handle(ChildLost(child="right"), 0.0) == [
        HostLost(cast_id="c", host="right"),
        Acknowledge(cast_id="c", parent="parent"),
    ]


def test_the_death_of_a_child_that_has_acknowledged_is_nothing():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)
    relay.handle(acknowledged("left"), 0.0)

    assert relay.handle(ChildLost(child="left"), 0.0) == []


def test_after_a_broken_link_the_cast_is_sent_again():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)
    relay.handle(acknowledged("right"), 0.0)

    assert relay.handle(ChildResumed(child="left"), 0.0) == [forward(TREE.children[0])]
    assert relay.handle(ChildResumed(child="right"), 0.0) == []


def test_a_cast_that_comes_again_is_not_delivered_again():
    relay = CastRelay("us")
    relay.handle(arrived(Relay("us")), 0.0)

    commands = relay.handle(arrived(Relay("us"), parent="grandparent"), 0.0)

    assert commands == [Acknowledge(cast_id="c", parent="grandparent")]
    assert relay.statistics().repeated == 1


def test_a_finished_cast_that_the_local_sender_repeats_needs_no_answer():
    relay = CastRelay("us")
    relay.handle(arrived(Relay("us")), 0.0)

    assert relay.handle(arrived(Relay("us"), parent=None), 0.0) == []


def test_all_parents_get_the_acknowledgement():
    relay = CastRelay("us")
    relay.handle(arrived(Relay("us", (LEAF,)), depth=2), 0.0)

    assert relay.handle(arrived(parent="grandparent"), 0.0) == []
    assert relay.handle(arrived(parent="grandparent"), 0.0) == []
    assert relay.handle(arrived(parent=None), 0.0) == []
    assert relay.handle(ChildResumed(child="leaf"), 0.0) == [forward(LEAF)]  # nearer to the root
    assert relay.handle(acknowledged("leaf"), 0.0) == [
        Acknowledge(cast_id="c", parent="parent"),
        Acknowledge(cast_id="c", parent="grandparent"),
    ]


def test_finished_casts_are_forgotten_in_time():
    relay = CastRelay("us", remember=2)

    for number in range(3):
        relay.handle(arrived(Relay("us"), cast_id=str(number)), 0.0)
        relay.check()

    assert len(relay.handle(arrived(Relay("us"), cast_id="2"), 0.0)) == 1
    assert len(relay.handle(arrived(Relay("us"), cast_id="0"), 0.0)) == 2


def test_an_unknown_event_is_refused():
    with pytest.raises(AssertionError):
        CastRelay("us").handle("nonsense", 0.0)  # pyright: ignore[reportArgumentType]  # the point


def test_the_repr_names_the_host_and_the_load():
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)

    assert repr(relay) == "<CastRelay us 1 in flight>"


@pytest.mark.parametrize("damage", ["idle", "finished", "self"])
def test_check_finds_a_damaged_relay(damage: str):
    relay = CastRelay("us")
    relay.handle(arrived(), 0.0)
    relay.check()

    if damage == "idle":
        relay._casts["c"].waiting.clear()
    elif damage == "finished":
        relay._finished["c"] = None
    else:
        relay._casts["c"].waiting["us"] = TREE

    with pytest.raises(InvariantBroken, match="cast relay on 'us'"):
        relay.check()
