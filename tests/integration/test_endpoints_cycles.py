"""Calls that wait for each other (CASES E13)."""

from __future__ import annotations

import re

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
    ("cls", "method", "back"),
    [
        (Ring, "ask_myself", ""),
        (Ring, "ask_round", "ask_back"),
        (Ring, "ask_round_by_stream", "ask_back"),
        (AsyncRing, "ask_round", "ask_back"),
        (AsyncRing, "await_myself", ""),
        (AsyncRing, "await_round", "await_back"),
    ],
)
def test_a_cycle_of_waits_is_an_error_that_shows_it(cls: type[Ring], method: str, back: str):
    """E13: a cycle is reported, by whichever actor finds it first, and all of them go on."""
    one, other = make_ring(cls)

    with pytest.raises(CycleError) as raised:
        getattr(one, method).call_one().get(10)

    assert isinstance(raised.value, ActorError)
    path = re.search(r"calls wait for each other: (.*?)\. None", str(raised.value))
    assert path
    assert set(re.findall(r"ring\.(\w+)", path[1])) == {method, "answer", back} - {""}
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
