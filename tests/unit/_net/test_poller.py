from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Generator

import pytest

from danaus._net.poller import (
    IN,
    OUT,
    Poller,
    PollPoller,
    close_waker,
    make_poller,
    make_waker,
    quiet,
    ring,
)

NEVER = 20.0
"""Seconds that no test waits."""


class Bell:
    """What ends a wait from another thread."""

    def __init__(self) -> None:
        self.reader, self.writer = make_waker()

    def ring(self) -> None:
        ring(self.writer)


@pytest.fixture
def bell() -> Generator[Bell]:
    made = Bell()
    yield made
    close_waker(made.reader, made.writer)


@pytest.fixture(params=[make_poller, PollPoller])
def poller(request: pytest.FixtureRequest, bell: Bell) -> Generator[Poller]:
    """Both kinds; the bell is watched."""
    make: Callable[[Callable[[], None]], Poller] = request.param
    made = make(bell.ring)
    made.register(bell.reader, IN)
    yield made
    made.close()


@pytest.fixture
def ends() -> Generator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


Ends = tuple[socket.socket, socket.socket]


def test_masks_are_those_of_epoll():
    assert (IN, OUT) == (select.EPOLLIN, select.EPOLLOUT)


def test_what_is_readable_and_writable_is_named(poller: Poller, ends: Ends):
    near, far = ends
    poller.register(near.fileno(), IN | OUT)

    assert list(poller.poll(NEVER, 8)) == [(near.fileno(), OUT)]
    far.send(b"x")
    assert list(poller.poll(NEVER, 8)) == [(near.fileno(), IN | OUT)]


def test_nothing_is_named_when_the_time_is_up(poller: Poller, ends: Ends):
    poller.register(ends[0].fileno(), IN)

    assert list(poller.poll(0, 8)) == []
    assert list(poller.poll(0.001, 8)) == []


def test_a_changed_mask_holds_and_an_empty_one_is_silent(poller: Poller, ends: Ends):
    near, far = ends
    far.send(b"x")
    poller.register(near.fileno(), IN)

    poller.modify(near.fileno(), 0)
    assert list(poller.poll(0, 8)) == []
    poller.modify(near.fileno(), IN)
    assert list(poller.poll(NEVER, 8)) == [(near.fileno(), IN)]


def test_what_is_unregistered_is_not_watched(poller: Poller, ends: Ends):
    near, far = ends
    far.send(b"x")
    poller.register(near.fileno(), IN)

    poller.unregister(near.fileno())

    assert list(poller.poll(0, 8)) == []
    with pytest.raises(FileNotFoundError):
        poller.unregister(near.fileno())


def test_at_most_so_many_are_named_at_a_time(poller: Poller, ends: Ends):
    for end in ends:
        poller.register(end.fileno(), OUT)

    assert len(list(poller.poll(NEVER, 1))) == 1


def test_the_end_of_a_peer_is_named(poller: Poller, ends: Ends):
    near, far = ends
    poller.register(near.fileno(), IN)

    far.close()

    ((fd, mask),) = poller.poll(NEVER, 8)
    assert fd == near.fileno()
    assert mask & IN


def test_a_ring_ends_a_wait_and_is_heard_once(poller: Poller, bell: Bell):
    for _ in range(3):
        ring(bell.writer)

    assert list(poller.poll(NEVER, 8)) == [(bell.reader, IN)]
    quiet(bell.reader)
    quiet(bell.reader)
    assert list(poller.poll(0, 8)) == []


def test_a_ring_at_a_closed_bell_is_an_error():
    reader, writer = make_waker()
    close_waker(reader, writer)

    with pytest.raises(OSError, match="Bad file descriptor"):
        ring(writer)


def test_what_another_thread_registers_is_seen_by_a_wait_that_is_under_way(
    poller: Poller, bell: Bell, ends: Ends
):
    near, far = ends
    far.send(b"x")
    timer = threading.Timer(0.05, poller.register, (near.fileno(), IN))
    timer.start()
    seen: set[int] = set()

    while near.fileno() not in seen:
        ready = poller.poll(NEVER, 8)
        assert ready
        seen.update(fd for fd, _ in ready)
        quiet(bell.reader)
    timer.join()


def test_a_full_pipe_is_no_error_to_ring():
    """The fallback's bell, which nobody has heard for long."""
    from danaus._net import poller as module

    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    for _ in range(70_000):
        module._ring_pipe(writer)
    module._quiet_pipe(reader)
    close_waker(reader, writer)
