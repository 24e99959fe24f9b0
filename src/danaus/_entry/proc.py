"""A proc: the main thread drives the loop, each actor has a thread of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

# The zygote imports this module before it forks; so all that a proc needs is imported here.
from danaus import _config
from danaus._mesh import host_mesh, proc_mesh
from danaus._net.job_key import JobKey
from danaus._net.keyring import keyring
from danaus._proc.launch import Launch, from_exec
from danaus._runtime import python_logs
from danaus._runtime.call import Stop
from danaus._runtime.process import install
from danaus._runtime.router import Runtime
from danaus._wire import kinds
from danaus._wire.codec import loads

if TYPE_CHECKING:
    import socket

__all__ = ["main", "run_proc"]

_NOTHING = b"\x90"
"""An empty list, encoded."""

_ORPHANED = 2.0
"""Seconds that a proc without an agent has to end by itself."""

_LOOK_UP = 0.2
"""Seconds after which the main thread looks whether a signal handler is due. The kernel wakes it
for one signal; of several at once, others may come to another thread, where nothing runs."""

_LAST_STEPS = 0.2
"""Seconds that threads which have done their work may take to be gone."""


def main() -> None:
    """Entry of an exec'd proc."""
    run_proc(from_exec())


def run_proc(launch: Launch) -> None:
    """Serve as a proc until the agent says stop, or is gone."""
    spec = launch.spec
    if spec.get("config"):
        _config.install_runtime(spec["config"])
    else:
        _config.reload()
    runtime = Runtime(spec["id"], spec["host"])
    runtime.address = spec["agent"]
    runtime.routes.here = spec["local"]
    runtime.routes.owner = spec["owner"]
    key = spec.pop("key", None)
    if key:
        keyring.install(JobKey(key))
    runtime.spec = spec
    runtime.make_own_mesh = proc_mesh.own_mesh
    enders: list[threading.Thread] = []
    runtime.control.on_stop = lambda reason, seconds: enders.append(
        _begin_stop(runtime, reason, seconds)
    )
    runtime.faults.on_agent_lost = lambda address, _why: _agent_lost(runtime, address)
    python_logs.install()
    if "log_level" in spec:
        python_logs.let_pass(spec["log_level"])
    install(runtime)
    control = launch.control_socket()
    if spec.get("setup"):
        # User code that is asked for by name gets the main thread, where signal handlers can be
        # set; the loop then has a thread of its own.
        runtime.setup.begin()
        runtime.start()
        runtime.reactor.call_soon(lambda: _connect(runtime, control))
        _set_up(runtime, spec["setup"])
        pause = _LOOK_UP if _has_handlers() else None
        while not runtime.wait_closed(pause):
            continue  # signal handlers have run
    else:
        _connect(runtime, control)
        runtime.reactor.run()
    for thread in enders:
        thread.join(_LAST_STEPS)
    sys.stdout.flush()
    sys.stderr.flush()


def _has_handlers() -> bool:
    """True when there are signal handlers that Python did not set."""
    usual = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, None)
    return any(signal.getsignal(number) not in usual for number in signal.valid_signals())


def _connect(runtime: Runtime, control: socket.socket) -> None:
    link = runtime.routes.add_agent(runtime.address, control)
    link.send_small(kinds.READY, _NOTHING, b"")


def _set_up(runtime: Runtime, setup: bytes) -> None:
    failure: BaseException | None = None
    try:
        for function in loads([setup]):
            result = function()
            if hasattr(result, "__await__"):
                import asyncio

                async def run(awaitable: Any = result) -> None:
                    await awaitable

                asyncio.run(run())
    except BaseException as error:  # noqa: BLE001  # border: user code
        failure = error
    runtime.setup.end(failure)


def _agent_lost(runtime: Runtime, address: str) -> None:
    if address == runtime.address:
        # The zygote goes with its agent and ends this process; do not wait for it. Where the kernel
        # does not end it with the zygote, threads of the user must not keep it.
        last = threading.Timer(_ORPHANED, os._exit, [1])
        last.daemon = True
        last.start()
        runtime.reactor.close()


def _begin_stop(runtime: Runtime, reason: str, seconds: float) -> threading.Thread:
    thread = threading.Thread(
        target=_stop, args=(runtime, reason, seconds), name="danaus-stop", daemon=True
    )
    thread.start()
    return thread


def _stop(runtime: Runtime, reason: str, seconds: float) -> None:
    """End all actors, each with its clean-up, then the process."""
    deadline = time.monotonic() + min(seconds, _config.get("stop_actor_timeout"))
    _take_what_was_sent(runtime)
    cells = list(runtime.cells.values())
    for cell in cells:
        cell.post(Stop(reason, runtime.id, -1, 0, None))
    cells += runtime.ending
    for cell in cells:
        cell.wait_ended(max(0.0, deadline - time.monotonic()))
    # A thread that the end of the interpreter cuts off never lets go of what it refers to, such as
    # the classes of its actor, and the finalizers of their modules would not run.
    deadline = time.monotonic() + _LAST_STEPS
    for cell in cells:
        cell.thread.join(max(0.0, deadline - time.monotonic()))
    runtime.routes.flush(1.0)
    runtime.reactor.close()


def _take_what_was_sent(runtime: Runtime) -> None:
    """Read the calls that were sent before the stop, and came by other links than it."""
    seen = -1
    while seen != runtime.received:
        seen = runtime.received
        looked = threading.Event()
        # A timer runs after all that is readable in the same turn of the loop was read.
        runtime.reactor.call_later(0, looked.set)
        looked.wait(1.0)


_ = host_mesh
if __name__ == "__main__":
    main()
