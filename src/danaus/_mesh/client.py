"""A script as a client: its faults, its end, and who it is."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from danaus import _config
from danaus._mesh.ending import end_program
from danaus._mesh.logs import ClientLogs
from danaus._mesh.proc_mesh import own_mesh
from danaus._runtime import python_logs
from danaus._runtime.call import Stop
from danaus._runtime.collect import PortQueue
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import (
    context,
    existing_runtime,
    on_boot,
    runtime,
    settled_runtime,
    uninstall,
)
from danaus._wire import kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from danaus._runtime.router import Runtime
    from danaus._shape import Point
    from danaus.errors import MeshFailure

__all__ = [
    "current_actor_name",
    "current_rank",
    "current_size",
    "shutdown_context",
    "statistics",
    "unhandled_fault_hook",
]

_FETCH_PATIENCE = 1.0
"""Seconds that the end waits for the last output of procs."""

_PATIENCE = 15.0
"""Seconds that the hosts of the script have to end, unless it asks for another time."""

_hook_lock = threading.Lock()
_program_ends = threading.Event()
"""Set once a hook has decided that."""

_EXIT_PATIENCE = 2.0
"""Seconds that the end of the interpreter waits for the hosts of the script to end."""


def current_actor_name() -> str:
    """Name of the running actor."""
    return repr(context().actor_instance)


def current_rank() -> Point:
    """Position in the mesh that the handled message was sent to."""
    return context().message_rank


def current_size() -> dict[str, int]:
    """Sizes of the mesh that the handled message was sent to."""
    return dict(context().message_rank.extent)


def statistics() -> dict[str, int]:
    """What this process has sent and received since it started.

    Returns:
        Counts ``messages_sent`` and ``messages_received``; bytes in ``bytes_sent``,
        ``bytes_received`` (links) and ``bulk_bytes`` (shared memory that was sent).
    """
    found = existing_runtime()
    if found is None:
        names = "messages_sent", "messages_received", "bytes_sent", "bytes_received", "bulk_bytes"
        return dict.fromkeys(names, 0)
    return found.statistics()


def unhandled_fault_hook(failure: MeshFailure) -> None:
    """Called in the client with a failure that nobody handled; the script ends with code 1.

    Assign another function to ``danaus.actor.unhandled_fault_hook`` to do something else. When
    that returns, the failure is dropped.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stderr.write(
        f"Unhandled danaus error on the root actor, hostname={os.uname().nodename}, "
        f"PID={os.getpid()} at time {stamp}:\n{failure.report()}\n"
    )
    sys.stderr.flush()
    sys.exit(1)


def _on_unhandled(failure: MeshFailure) -> None:
    # By contract the hook is an attribute of the public module, and users replace it there. It is
    # looked up, not imported: a layer does not know those above it.
    hook = sys.modules["danaus.actor"].unhandled_fault_hook
    # On a thread of its own: the hook is the user's, and may do anything.
    threading.Thread(
        target=_call_hook, args=(hook, failure), name="danaus-fault-hook", daemon=True
    ).start()


def _call_hook(hook: Callable[[MeshFailure], None], failure: MeshFailure) -> None:
    found = existing_runtime()
    with _hook_lock:  # one after the other: the first may end the program, and says why
        if _program_ends.is_set():
            return
        if found is not None:
            found.output.flush()  # the last words of what died stand before the report of it
        code = _code_of_hook(hook, failure)
        if code is None:
            return
        _program_ends.set()
    end_program(code, found.reactor.rouse_main if found is not None else _nothing)


def _code_of_hook(hook: Callable[[MeshFailure], None], failure: MeshFailure) -> int | None:
    """Call the hook: the exit code that it wants, or None to go on."""
    try:
        hook(failure)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001  # border: user code
        sys.stderr.write(
            f"unhandled_fault_hook raised {type(error).__name__}: {error}; the failure was:\n"
            f"{failure.report()}\n"
        )
        return 1
    return None


def _nothing() -> None:
    """There is no runtime whose messages the main thread could wait for."""


def _prepare(made: Runtime) -> None:
    made.faults.on_unhandled = _on_unhandled
    made.output = ClientLogs(made)
    made.control.on_output = made.output.on_output
    made.faults.on_agent_lost = lambda address, why: _on_agent_lost(made, address, why)
    made.faults.when_shown = made.output.when_shown
    python_logs.install()
    made.faults.last_words = lambda at: (
        made.local.last_words().strip()[-400:] if made.local and at == made.local.address else ""
    )
    made.make_own_mesh = own_mesh
    made.exit_hooks.append(lambda: _shut_down(made, _EXIT_PATIENCE))


def _on_agent_lost(made: Runtime, address: str, why: str) -> None:
    made.output.on_agent_lost(address, why)
    local = made.local
    if local is not None and local.address == address and not made.faults.closing:
        made.local = None  # who asks for this host again gets another
        made.at_close.append(local.reap)
        threading.Thread(target=local.reap, name="danaus-reap", daemon=True).start()


def _shut_down(made: Runtime, patience: float) -> None:
    """End what this script owns on the hosts, and the links."""
    if made.closed:
        return
    made.faults.closing = True
    for collector in list(made.ports.values()):
        if isinstance(collector, PortQueue):
            collector.close("the context was shut down")
    _stop_actors(made)
    made.output.flush(_FETCH_PATIENCE)  # there may be hosts that stay
    for end in list(made.at_close):
        end(patience)
    _end_local_host(made, patience)
    made.output.flush(_FETCH_PATIENCE)  # and what was written to the last on those that ended
    made.close()
    made.output.close()
    if existing_runtime() is made:
        uninstall()


def _end_local_host(made: Runtime, patience: float) -> None:
    """End this machine's agent."""
    local = made.local
    if local is None:
        return
    link = made.routes.agents.get(local.address)
    if link is not None:
        link.send_small(kinds.SHUTDOWN, b"\x90", b"")
    local.wake()
    if not local.reap(patience):
        made.routes.flush(0.2)  # it ends by itself when the link does
        # A client that goes on shall not keep what has ended as a zombie.
        threading.Thread(
            target=local.reap, args=(_PATIENCE,), name="danaus-reap", daemon=True
        ).start()


def _stop_actors(made: Runtime) -> None:
    """End the actors that live in this process, each with its clean-up."""
    deadline = time.monotonic() + _config.get("stop_actor_timeout")
    cells = list(made.cells.values())
    for cell in cells:
        cell.post(Stop("the context was shut down", made.id, -1, 0, None))
    for cell in [*cells, *made.ending]:
        cell.wait_ended(max(0.0, deadline - time.monotonic()))


def shutdown_context(*, host_timeout: float | None = None) -> Future[None]:
    """End all that this script owns, its hosts included. Twice is the same as once.

    What needs a context afterwards makes a new one.

    Args:
        host_timeout: Seconds that the hosts have to end in good order.

    Raises:
        ValueError: The timeout is negative, or no finite number; nothing was ended.
    """
    patience = _PATIENCE if host_timeout is None else host_timeout
    if not 0 <= patience <= threading.TIMEOUT_MAX:
        raise ValueError(
            f"host_timeout must be a finite number of seconds, at least 0, got {host_timeout!r}"
        )
    done = new_future(None)
    made = settled_runtime()
    if made is None or made.root is None:
        done.set_value(None)
        return done

    def end() -> None:
        try:
            _shut_down(made, patience)
        except BaseException as error:  # noqa: BLE001  # handed to who waits
            done.set_error(error)
        else:
            done.set_value(None)

    threading.Thread(target=end, name="danaus-shutdown", daemon=True).start()
    return done


on_boot(_prepare)
_ = runtime
