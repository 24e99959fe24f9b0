"""The runtime of this process: there is one, made when it is first needed."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from danaus._runtime.context import Context, Instance, current
from danaus._runtime.faults import ROOT
from danaus._runtime.identity import unique
from danaus._shape import Extent, Point

if TYPE_CHECKING:
    from danaus._runtime.router import Runtime

__all__ = [
    "context",
    "existing_runtime",
    "install",
    "leave_if_forked",
    "on_boot",
    "runtime",
    "settled_runtime",
    "uninstall",
]

_lock = threading.RLock()
_runtime: Runtime | None = None
_boot_hooks: list[Callable[[Runtime], None]] = []
_registered = False


def on_boot(hook: Callable[[Runtime], None]) -> None:
    """Call ``hook`` with each client runtime when it is made, before anybody can use it."""
    _boot_hooks.append(hook)


def existing_runtime() -> Runtime | None:
    """The runtime of this process, if there is one."""
    return _runtime


def settled_runtime() -> Runtime | None:
    """Like `existing_runtime`, but waits for one that another thread is making."""
    with _lock:
        return _runtime


def runtime() -> Runtime:
    """The runtime of this process; in a script, the first call makes it a client."""
    found = _runtime
    if found is not None:
        return found
    with _lock:
        if _runtime is None:
            _boot_client()
        if _runtime is None:
            raise AssertionError("no runtime after boot")
        return _runtime


def install(made: Runtime) -> None:
    """Make ``made`` the runtime of this process."""
    global _runtime, _registered  # noqa: PLW0603  # one a process, by definition
    _runtime = made
    if not _registered:
        _registered = True
        os.register_at_fork(
            # Whoever forks holds the lock, in the child as well: it is free in both afterwards.
            before=_lock.acquire,
            after_in_parent=_lock.release,
            after_in_child=_after_fork,
        )


def uninstall() -> None:
    """Forget the runtime of this process; the next use makes another."""
    global _runtime  # noqa: PLW0603
    _runtime = None


def _boot_client() -> None:
    import socket

    from danaus._net.descriptors import occupy_standard
    from danaus._runtime.router import Runtime

    occupy_standard()
    made = Runtime(f"client-{unique()}", socket.gethostname())
    instance = Instance(
        made, ROOT, name="root", class_name="client", rank=Point(0, Extent([], [])), path="<root>"
    )
    made.root = Context(instance)
    made.start()
    for hook in _boot_hooks:
        hook(made)
    install(made)  # last: from here on, other threads use it
    atexit.register(_at_exit)


def _at_exit() -> None:
    found = _runtime
    if found is not None and not found.closed:
        for hook in found.exit_hooks:
            try:
                hook()
            except KeyboardInterrupt:
                return  # pressed again: nobody wants to wait, and hosts end when their links do


def _after_fork() -> None:
    """In a forked child: the parent's runtime is the parent's."""
    global _runtime
    found, _runtime = _runtime, None
    current.set(None)
    if found is not None:
        found.forget_after_fork()
    _lock.release()


def leave_if_forked(found: Runtime) -> None:
    """End a child that an endpoint has forked, and that has come back from the endpoint."""
    if found.forked:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


def context() -> Context:
    """The actor that runs, and the message that it handles; outside actors, the client's root."""
    found = current.get()
    if found is not None:
        return found
    made = runtime()
    if made.root is not None:
        return made.root
    return made.context_of("thread")
