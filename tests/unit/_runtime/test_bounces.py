"""Which messages bounce, and to whom."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from danaus._runtime.bounces import Bounces
from danaus._runtime.context import Context, Instance, current
from danaus._shape import Extent, Point
from danaus.errors import MeshFailure


class Process:
    """What `Bounces` sees of a runtime."""

    def __init__(self) -> None:
        self.id = "me"
        self.host = "host"
        self.dead: dict[str, dict[str, Any] | None] = {}
        self.links: dict[str, Any] = {}
        self.routes = self
        self.faults = self
        self.cells: dict[str, Any] = {}
        self.unhandled: list[MeshFailure] = []
        self.on_unhandled = self.unhandled.append
        self.asked: list[Any] = []

    def add_actor(self, uid: str) -> None:
        self.cells[uid] = SimpleNamespace(post_first=self.asked.append)


@pytest.fixture
def process() -> Generator[Process]:
    """A process with an actor that runs."""
    process = Process()
    process.add_actor("sender")
    runtime: Any = process
    rank = Point(0, Extent([], []))
    instance = Instance(runtime, "sender", name="s", class_name="S", rank=rank)
    token = current.set(Context(instance))
    yield process
    current.reset(token)


def bounces(process: Any) -> Bounces:
    """Of that process."""
    return Bounces(process)


def test_what_is_sent_to_the_dead_bounces_to_its_sender(process: Process):
    process.dead["peer"] = {"text": "it was killed", "stopping": False}

    bounces(process).refused("peer", "port 3 of peer")

    (message,) = process.asked
    assert (message.sender(), message.dest()) == ("me.sender", "port 3 of peer")
    assert message.error_msg() == "the process is gone: it was killed"
    assert "port 3 of peer" in repr(message)


def test_the_first_messages_bounce_when_nobody_takes_them_over(process: Process):
    process.links["peer"] = SimpleNamespace(frames_in=0)
    tell = bounces(process)
    tell.sent("peer", "port 1")
    tell.sent("peer", "port 2")
    assert process.asked == []

    tell.died("peer")
    tell.died("peer")

    assert [message.dest() for message in process.asked] == ["port 1", "port 2"]


def test_what_was_taken_over_does_not_bounce(process: Process):
    process.links["peer"] = SimpleNamespace(frames_in=0)
    tell = bounces(process)
    tell.sent("peer", "port 1")

    tell.heard_of("peer")
    process.links["peer"].frames_in = 1
    tell.sent("peer", "port 2")
    tell.died("peer")

    assert process.asked == []


def test_only_so_many_are_noted(process: Process):
    process.links["peer"] = SimpleNamespace(frames_in=0)
    tell = bounces(process)
    for i in range(1500):
        tell.sent("peer", f"port {i}")

    tell.died("peer")

    assert len(process.asked) == 1000


def test_what_the_client_sent_is_a_failure_of_the_client(process: Process):
    process.cells.clear()

    bounces(process).refused("peer", "port 3 of peer")

    (failure,) = process.unhandled
    assert "a message of the client to port 3 of peer could not be delivered" in failure.reason


def test_what_the_client_sent_to_what_it_has_stopped_is_no_failure(process: Process):
    process.cells.clear()
    process.dead["peer"] = {"text": "it was stopped", "stopping": True}

    bounces(process).refused("peer", "port 3 of peer")

    assert process.unhandled == []
