"""Ending the script from another thread, as if its main thread had called ``sys.exit``.

The main thread gets a KeyboardInterrupt: it comes out of whatever it waits in, its ``finally``
blocks and the atexit hooks run. Ctrl-C's own signal does that wherever its handler is Python's.
A handler of the user stays untouched and is not called: there the exception is raised in the main
thread at its next step in Python, and the signal only makes it take that step. A main thread that
cannot be reached, because it ignores the signal or has ended, is not waited for: the atexit hooks
run here then, and the process ends.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from danaus._net.reactor import Reactor

__all__ = ["end_program"]

_STEP = 0.2
"""Seconds in which a main thread that runs Python code takes its next step."""

_PATIENCE = 5.0
"""Seconds after which a main thread that has not moved counts as out of reach."""


class _Ended(KeyboardInterrupt):
    """Raised in the main thread where Ctrl-C's handler is not Python's own."""


def end_program(code: int, rouse: Callable[[], None]) -> None:
    """End the script with an exit code; returns when its end is certain to come.

    Args:
        code: What the process exits with, unless the program catches KeyboardInterrupt.
        rouse: Makes the main thread take a step where it waits for a message.
    """
    main = threading.main_thread()
    if main.ident is None or not main.is_alive():
        _force(code)
        return
    _exit_with(code)
    start = _place(main.ident)
    handler = signal.getsignal(signal.SIGINT)
    if _interrupts(handler):
        signal.pthread_kill(main.ident, signal.SIGINT)
    else:
        _raise_in(main.ident)
        rouse()
        if _stays(main.ident, start, _STEP) and callable(handler):
            signal.pthread_kill(main.ident, signal.SIGINT)
    if _stays(main.ident, start, _PATIENCE):
        _force(code)


def _interrupts(handler: Any) -> bool:
    """True for handlers that make a KeyboardInterrupt of the signal: Python's, asyncio's, ours."""
    if handler is signal.default_int_handler:
        return True
    if isinstance(getattr(handler, "__self__", None), Reactor):
        return True
    function = getattr(handler, "func", None)  # asyncio.Runner's is a partial
    return getattr(function, "__qualname__", "") == "Runner._on_sigint"


def _raise_in(thread: int) -> None:
    import ctypes  # only here: it is not light

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Ended))


def _place(thread: int) -> tuple[int, int]:
    """Where a thread is in its code: it has taken no step while this stays the same."""
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    frame = frames.get(thread)
    return (0, 0) if frame is None else (id(frame), frame.f_lasti)


def _stays(thread: int, place: tuple[int, int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _place(thread) == place:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.01)
    return False


def _exit_with(code: int) -> None:
    """Let a KeyboardInterrupt that the program does not catch end it with ``code``, silently."""
    show = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            raise SystemExit(code)
        show(kind, error, trace)

    sys.excepthook = hook


def _force(code: int) -> None:
    """End the process from this thread; its atexit hooks run."""
    try:
        # What the interpreter calls at its end.
        atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
