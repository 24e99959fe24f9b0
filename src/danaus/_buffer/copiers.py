"""Threads that copy, so that nobody waits who does not want to."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context

__all__ = ["copy_later"]

_THREADS = 2
"""Copies at a time; more would share the memory's bandwidth."""

_lock = threading.Lock()
_work: deque[Callable[[], None]] = deque()
_running: set[threading.Thread] = set()


def _forget() -> None:
    """In a forked child there are no such threads, and nobody waits for what they had to do."""
    global _lock  # noqa: PLW0603  # a thread that the child does not have may hold it
    _lock = threading.Lock()
    _work.clear()
    _running.clear()


os.register_at_fork(after_in_child=_forget)


def copy_later(work: Callable[[], None]) -> None:
    """Have ``work`` done by another thread, with the caller's context; it raises nothing."""
    context = copy_context()
    with _lock:
        _work.append(lambda: context.run(work))
        if len(_running) >= _THREADS:
            return
        thread = threading.Thread(target=_run, name="danaus-copy", daemon=True)
        _running.add(thread)
    thread.start()


def _run() -> None:
    while True:
        with _lock:
            if not _work:
                _running.discard(threading.current_thread())
                return
            work = _work.popleft()
        work()
