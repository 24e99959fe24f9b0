"""Threads and sockets, as the tests of the reactor hold them."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from danaus._net.reactor import Reactor, Waiter

PATIENCE = 5.0
"""Seconds that a test waits for what must come."""


class Pair:
    """A socket that the reactor watches, and its other end in the test's hands."""

    def __init__(self, reactor: Reactor, call: Callable[[bytes], None]) -> None:
        self._call = call
        self._reactor = reactor
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        reactor.register(self.ours.fileno(), self)

    def on_ready(self, _mask: int) -> None:
        self._call(self.ours.recv(100))

    def close(self) -> None:
        self._reactor.unregister(self.ours.fileno())
        self.ours.close()
        self.theirs.close()


Make = Callable[[Callable[[bytes], None]], Pair]
"""Makes a pair that calls back with what comes."""


class Worker:
    """A thread of the test; its result or exception comes out of `join`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001  # `join` raises it
            self._error = error

    def join(self) -> Any:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the thread hangs"
        if self._error is not None:
            raise self._error
        return self._result


def in_thread(work: Callable[[], Any]) -> Any:
    """Run on a thread that is not the main one, which may not drive under a test runner."""
    return Worker(work).join()


def drive(reactor: Reactor, pair: Make) -> tuple[int, list[int]]:
    """Wait for messages until the waiting thread handles them itself; who handled each."""
    drivers: list[int] = []
    waiters: list[Waiter] = []

    def on_message(_data: bytes) -> None:
        drivers.append(threading.get_ident())
        waiters[-1].wake()

    link = pair(on_message)
    for _ in range(1000):
        waiters.append(Waiter(reactor))
        link.theirs.send(b"x")
        assert waiters[-1].wait(PATIENCE)
        if drivers[-1] == threading.get_ident():
            break
    return threading.get_ident(), drivers
