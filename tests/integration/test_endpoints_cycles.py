"""Calls that wait for each other (CASES E13)."""

from __future__ import annotations

import pytest

from danaus.actor import ActorError, CycleError, this_host
from tests.integration.endpoint_actors import AsyncRing, Ring


def make_ring(cls: type[Ring]) -> tuple[Ring, Ring]:
    """Two actors that know each other."""
    mesh = this_host().spawn_procs(per_host={"gpus": 2}).spawn("ring", cls)
    one, other = mesh.slice(gpus=0), mesh.slice(gpus=1)
    one.join.call_one(one, other).get(10)
    other.join.call_one(other, one).get(10)
    return one, other


@pytest.mark.parametrize(
    ("cls", "method", "path"),
    [
        (Ring, "ask_myself", "ring.ask_myself → ring.answer"),
        (Ring, "ask_round", "ring.ask_round → ring.ask_back → ring.answer"),
        (Ring, "ask_round_by_stream", "ring.ask_round_by_stream → ring.ask_back → ring.answer"),
        (AsyncRing, "ask_round", "ring.ask_round → ring.ask_back → ring.answer"),
        (AsyncRing, "await_myself", "ring.await_myself → ring.answer"),
        (AsyncRing, "await_round", "ring.await_round → ring.await_back → ring.answer"),
    ],
)
def test_a_cycle_of_waits_is_an_error_that_shows_it(cls: type[Ring], method: str, path: str):
    """E13: a cycle is reported, and all actors in it go on."""
    one, other = make_ring(cls)

    with pytest.raises(CycleError) as raised:
        getattr(one, method).call_one().get(10)

    assert isinstance(raised.value, ActorError)
    assert f"calls wait for each other: {path}." in str(raised.value)
    assert one.answer.call_one().get(10) == "here"
    assert other.answer.call_one().get(10) == "here"


@pytest.mark.parametrize(
    ("cls", "method", "answer"),
    [
        (Ring, "ask_one_that_asks_and_does_not_wait", "went on"),
        (Ring, "ask_slow", "slowly"),
        (AsyncRing, "ask_slow", "slowly"),
        (AsyncRing, "await_beside", "here"),
    ],
)
def test_what_can_end_is_waited_for(cls: type[Ring], method: str, answer: str):
    """E13: a call that nobody waits for, a slow one, and a concurrent one make no cycle."""
    one, _ = make_ring(cls)

    assert getattr(one, method).call_one().get(10) == answer
