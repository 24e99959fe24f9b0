"""Probes along waits: whoever is in a cycle finds it, and nobody else does."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._runtime.future import new_future
from danaus._runtime.outgoing import OutgoingCall
from danaus._runtime.waits import FIRST_LOOK, Blocked, Waits
from danaus._wire import kinds
from danaus.errors import CycleError


class Process:
    """One process of a network in memory, with one actor in it."""

    def __init__(self, network: dict[str, Process], number: int) -> None:
        self.network = network
        self.id = f"p{number}"
        network[self.id] = self
        self.routes: Any = SimpleNamespace(dead={})
        self.outbox = self
        self.probes = 0
        self.waits = Waits(self)  # type: ignore[arg-type]
        self.cell: Any = SimpleNamespace(
            uid="mesh",
            birth=SimpleNamespace(name=f"a{number}"),
            runtime=self,
            running=None,
            queue=deque[Any](),
            blocked=None,
        )
        self.cells = {self.cell.uid: self.cell}

    def send_frame(self, kind: int, to: tuple[str, str], routing: bytes) -> bool:
        assert kind == kinds.PROBE
        self.probes += 1
        self.network[to[0]].waits.on_probe(msgspec.msgpack.decode(routing))
        return True

    def wait_for(self, *others: Process, queued: bool = False) -> Blocked:
        """Call the actors of others, and wait for them; they handle the call, or have it queued."""
        call = OutgoingCall("mesh", others[0].cell.birth.name, "Actor", "m")
        call.port = len(self.network) + self.probes
        call.targets = [(other.id, "", i) for i, other in enumerate(others)]
        for other in others:
            item = SimpleNamespace(source=self.id, port=call.port, method="m")
            if queued:
                other.cell.queue.append(item)
                other.cell.running = other.cell.running or SimpleNamespace(
                    source="elsewhere", port=1, method="busy"
                )
            else:
                other.cell.running = item
        blocked = self.cell.blocked = Blocked(self.cell, new_future(None, call))
        return blocked


def make(count: int) -> list[Process]:
    """So many processes."""
    network: dict[str, Process] = {}
    return [Process(network, i) for i in range(count)]


def test_an_actor_that_waits_for_itself_is_told():
    (one,) = make(1)
    blocked = one.wait_for(one, queued=True)

    blocked.probe()

    with pytest.raises(CycleError, match=r"calls wait for each other: a0\.busy → a0\.m\. None"):
        blocked.future.get(0)


def test_a_cycle_is_told_to_the_one_that_looks():
    one, two, three = make(3)
    waits = [one.wait_for(two), two.wait_for(three), three.wait_for(one, queued=True)]

    waits[0].probe()

    with pytest.raises(CycleError, match=r"a0\.busy → a1\.m → a2\.m → a0\.m\."):
        waits[0].future.get(0)
    assert not waits[1].future.done
    assert not waits[2].future.done


def test_who_waits_behind_another_call_is_shown():
    one, two = make(2)
    first = one.wait_for(two, queued=True)
    two.wait_for(one, queued=True)

    first.probe()

    with pytest.raises(CycleError, match=r"a1\.m \(which waits behind a1\.busy\) → a0\.m"):
        first.future.get(0)


def test_a_call_that_was_answered_meanwhile_ends_the_probe():
    one, two = make(2)
    first = one.wait_for(two)
    two.wait_for(one)
    two.cell.running = None

    first.probe()

    assert not first.future.done


def test_an_actor_that_has_gone_on_ends_the_probe():
    one, two = make(2)
    first = one.wait_for(two)
    two.wait_for(one).end()

    first.probe()

    assert not first.future.done


def test_a_dead_process_is_not_asked():
    one, two = make(2)
    first = one.wait_for(two)
    one.routes.dead[two.id] = None

    first.probe()

    assert one.probes == 0


def test_one_that_waits_for_several_is_held_up_by_any_of_them():
    one, two, three = make(3)
    first = one.wait_for(two, three)
    three.wait_for(one)

    first.probe()

    assert isinstance(first.future.exception(0), CycleError)


def test_a_cycle_that_the_looking_actor_is_not_in_does_not_go_round_for_ever():
    one, two, three = make(3)
    first = one.wait_for(two)
    second = two.wait_for(three, queued=True)
    third = three.wait_for(two, queued=True)

    first.probe()
    assert one.probes + two.probes + three.probes < 10
    assert not first.future.done

    second.probe()
    assert isinstance(second.future.exception(0), CycleError)
    assert not third.future.done


def test_looks_become_seldom():
    one, two = make(2)
    blocked = one.wait_for(two)
    pauses: list[float] = []
    for _ in range(8):
        pauses.append(blocked.pause)
        blocked.probe()

    assert pauses[:3] == [FIRST_LOOK, 4 * FIRST_LOOK, 16 * FIRST_LOOK]
    assert pauses[-1] == pauses[-2] == 30.0


def test_a_wait_that_is_over_is_forgotten():
    one, two = make(2)
    blocked = one.wait_for(two)

    blocked.end()

    assert one.cell.blocked is None


@given(st.lists(st.none() | st.integers(0, 7), min_size=8, max_size=8), st.booleans())
def test_exactly_those_in_a_cycle_are_told(targets: list[int | None], queued: bool):
    processes = make(8)
    waits = {
        i: processes[i].wait_for(processes[target], queued=queued)
        for i, target in enumerate(targets)
        if target is not None and (queued or targets.count(target) == 1)
    }

    for blocked in waits.values():
        blocked.probe()

    def in_cycle(start: int) -> bool:
        at = start
        for _ in targets:
            if at not in waits:
                return False
            at = targets[at]
            if at == start:
                return True
        return False

    told = {i for i, blocked in waits.items() if blocked.future.done}
    assert told == {i for i in waits if in_cycle(i)}
