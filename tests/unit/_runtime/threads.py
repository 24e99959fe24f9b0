"""Threads and settled futures, as the tests of the runtime need them."""

import threading
from collections.abc import Callable
from typing import Any

from danaus._runtime.future import Future, new_future

PATIENCE = 5.0
"""Seconds that a test waits for what must come."""


class Threads:
    """Runs calls on threads of their own, and collects what they return or raise."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._threads: list[threading.Thread] = []

    def start(self, call: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                self.results.append(call())
            except Exception as error:  # noqa: BLE001  # it is the result
                self.results.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def join(self) -> list[Any]:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the thread hangs"
        return self.results


def done(value: object) -> Future[Any]:
    future: Future[Any] = new_future(None)
    future.set_value(value)
    return future


def failed(error: BaseException) -> Future[Any]:
    future: Future[Any] = new_future(None)
    future.set_error(error)
    return future
