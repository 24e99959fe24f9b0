import random
import select
import socket
import threading
import time
from pathlib import Path

import pytest

from danaus._net.reactor import Reactor, Waiter
from danaus.testing import wait_until
from tests.unit._net.threads import PATIENCE, Make, Worker, drive


def test_a_handler_is_called_while_its_socket_is_readable(pair: Make):
    got: list[bytes] = []
    link = pair(got.append)

    link.theirs.send(b"one")
    wait_until(lambda: got == [b"one"])
    link.theirs.send(b"two")
    wait_until(lambda: got == [b"one", b"two"])


def test_a_handler_that_was_unregistered_is_called_no_more(reactor: Reactor, pair: Make):
    got: list[bytes] = []
    link, other = pair(got.append), pair(got.append)
    reactor.unregister(link.ours.fileno())
    reactor.unregister(link.ours.fileno())

    link.theirs.send(b"unseen")
    other.theirs.send(b"seen")

    wait_until(lambda: got == [b"seen"])


def test_what_a_descriptor_is_watched_for_can_change(reactor: Reactor):
    ours, theirs = socket.socketpair()
    ready = threading.Event()

    class Watch:
        def on_ready(self, mask: int, /) -> None:
            if mask & select.EPOLLOUT:
                reactor.modify(ours.fileno(), select.EPOLLIN)
                ready.set()

    with ours, theirs:
        reactor.register(ours.fileno(), Watch())
        assert not ready.is_set()
        reactor.modify(ours.fileno(), select.EPOLLIN | select.EPOLLOUT)
        assert ready.wait(PATIENCE)
        reactor.unregister(ours.fileno())


def test_calls_run_on_the_driving_thread_in_order(reactor: Reactor):
    ran: list[tuple[int, str]] = []

    for i in range(20):
        reactor.call_soon(lambda i=i: ran.append((i, threading.current_thread().name)))

    wait_until(lambda: len(ran) == 20)
    assert ran == [(i, "io") for i in range(20)]


def test_timers_run_in_the_order_of_their_times(reactor: Reactor):
    ran: list[str] = []

    for delay, name in [(0.03, "third"), (0.01, "first"), (0.02, "second"), (0.0, "at once")]:
        reactor.call_later(delay, lambda name=name: ran.append(name))

    wait_until(lambda: len(ran) == 4)
    assert ran == ["at once", "first", "second", "third"]


def test_a_timer_does_not_run_early(reactor: Reactor):
    start = time.monotonic()
    ran: list[float] = []

    reactor.call_later(0.05, lambda: ran.append(time.monotonic() - start))

    wait_until(lambda: bool(ran))
    assert ran[0] >= 0.05


def test_a_timer_may_set_another(reactor: Reactor):
    ran: list[int] = []

    def again() -> None:
        ran.append(len(ran))
        if len(ran) < 3:
            reactor.call_later(0.0, again)

    reactor.call_later(0.0, again)

    wait_until(lambda: ran == [0, 1, 2])


def test_timers_set_by_many_threads_at_once_all_run_once(reactor: Reactor):
    ran: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        order = random.Random(thread)
        for i in range(200):
            reactor.call_later(order.random() / 50, lambda i=i: ran.append((thread, i)))

    workers = [Worker(lambda thread=thread: work(thread)) for thread in range(4)]
    for worker in workers:
        worker.join()

    wait_until(lambda: len(ran) == 800)
    assert sorted(ran) == [(thread, i) for thread in range(4) for i in range(200)]


def test_a_handler_that_raises_is_reported_and_the_others_go_on(
    reactor: Reactor, pair: Make, reported: list[BaseException | None]
):
    error = ValueError("of the handler")
    got: list[bytes] = []

    def fail(_data: bytes) -> None:
        raise error

    bad, good = pair(fail), pair(got.append)
    bad.theirs.send(b"x")
    wait_until(lambda: reported == [error])

    good.theirs.send(b"y")
    wait_until(lambda: got == [b"y"])
    del reactor


@pytest.mark.parametrize("how", ["call_soon", "call_later"])
def test_a_call_that_raises_is_reported_and_the_others_go_on(
    reactor: Reactor, how: str, reported: list[BaseException | None]
):
    set_call = reactor.call_soon if how == "call_soon" else lambda c: reactor.call_later(0, c)
    ran = threading.Event()

    set_call(lambda: {}[0])
    set_call(ran.set)

    assert ran.wait(PATIENCE)
    assert isinstance(reported[0], KeyError)


def test_closing_ends_the_loop_and_a_wait_by_driving(reactor: Reactor, pair: Make):
    started = threading.Event()

    def driver() -> None:
        drive(reactor, pair)
        started.set()
        Waiter(reactor).wait(0.2)  # the time, not the message, ends it if closing does not

    worker = Worker(driver)
    assert started.wait(PATIENCE)

    reactor.close()

    worker.join()


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.needs_linux
def test_a_reactor_holds_no_descriptor_once_it_is_disposed_of():
    before = descriptors()
    made = Reactor()
    made.close()
    made.run()

    made.dispose()

    assert descriptors() == before


def test_interrupting_a_closed_reactor_does_nothing():
    made = Reactor()
    made.dispose()

    made.interrupt()
