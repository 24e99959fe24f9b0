"""Who waits for whom: calls that wait for each other are found and reported, not waited for.

An actor whose thread blocks in ``get()``, or whose endpoint awaits, on a call of its own handles no
other message meanwhile. When that lasts, it sends a probe to those that it has called. An actor
that the probe reaches passes it on to those that it waits for itself, if the call that it was asked
about is among what it cannot handle now; else the probe ends there, because there is hope. A probe
that comes back to the actor that sent it has found a cycle: nobody in it can ever go on. That
actor's wait ends with a `CycleError`, and the others go on with its answer.

Nothing of this costs a call that is answered within `FIRST_LOOK` more than two stores.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._runtime.context import current
from danaus._runtime.future import Future, install_watch
from danaus._wire import kinds
from danaus.errors import CycleError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from danaus._runtime.cell import ActorCell
    from danaus._runtime.outgoing import OutgoingCall
    from danaus._runtime.router import Runtime

__all__ = ["FIRST_LOOK", "Blocked", "Waits"]

_encode = msgspec.msgpack.Encoder().encode

FIRST_LOOK = 0.1
"""Seconds that a wait must last before it is looked into; a usual call takes a thousandth."""

_SLOWER = 4.0
"""A wait that goes on is looked into ever more seldom: a probe may have come before the call that
closed the cycle, over another way."""

_SELDOM = 30.0
"""Seconds between two looks at most."""

_LONGEST = 64
"""Calls in a chain that a probe follows."""


class Blocked:
    """An actor that waits for the answer to a call of its own, and handles nothing meanwhile."""

    __slots__ = ("cell", "future", "look", "pause", "probed", "timer")

    def __init__(self, cell: ActorCell, future: Future[Any]) -> None:
        self.cell = cell
        self.future = future
        self.pause = FIRST_LOOK
        """Seconds until the next look."""
        self.look = 0
        """Number of the last one."""
        self.probed: set[tuple[Any, ...]] = set()
        """Probes that were passed on during this wait."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def call(self) -> OutgoingCall:
        """The call that is waited for."""
        return self.future.call

    def probe(self) -> None:
        """Look whether the wait can ever end; the next look is later."""
        self.look += 1
        self.pause = min(self.pause * _SLOWER, _SELDOM)
        self.cell.runtime.waits.start(self)

    def end(self) -> None:
        """The wait is over."""
        self.cell.blocked = None
        if self.timer is not None:
            self.timer.cancel()


class Waits:
    """The part of a runtime that handles probes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def start(self, blocked: Blocked) -> None:
        """Send the probes of an actor of this process."""
        cell = blocked.cell
        origin = (self._runtime.id, cell.uid, blocked.call.port, blocked.look)
        self._pass_on(blocked, origin, [f"{cell.birth.name}.{_doing(cell)}"])

    def on_probe(self, routing: list[Any]) -> None:
        """Take a probe: [to, actor, [from, port], origin, steps]."""
        _, actor, (source, port), origin, steps = routing
        cell = self._runtime.cells.get(actor)
        blocked = cell.blocked if cell is not None else None
        if cell is None or blocked is None:
            return
        held = _held_up(cell, source, port)
        if held is None:
            return
        if tuple(origin[:3]) == (self._runtime.id, actor, blocked.call.port):
            blocked.future.set_error(_cycle(steps))
            return
        if not held:
            behind = f"{steps[-1]} (which waits behind {cell.birth.name}.{_doing(cell)})"
            steps = [*steps[:-1], behind]
        if len(steps) < _LONGEST and tuple(origin) not in blocked.probed:
            blocked.probed.add(tuple(origin))
            self._pass_on(blocked, origin, steps)

    def _pass_on(self, blocked: Blocked, origin: Any, steps: list[str]) -> None:
        runtime = self._runtime
        call = blocked.call
        steps = [*steps, call.endpoint]
        for proc, address, _ in call.targets:
            routing = (proc, call.actor, (runtime.id, call.port), origin, steps)
            if proc == runtime.id:
                self.on_probe(msgspec.msgpack.decode(_encode(routing)))
            elif proc not in runtime.routes.dead:
                runtime.outbox.send_frame(kinds.PROBE, (proc, address), _encode(routing))


def _doing(cell: ActorCell) -> str:
    """The method that runs in an actor."""
    running = cell.running
    return running.method.lstrip("!") if running is not None else "__init__"


def _held_up(cell: ActorCell, source: str, port: int) -> bool | None:
    """Whether the call from that port runs (True) or is queued (False); None: neither."""
    running = cell.running
    if running is not None and running.source == source and running.port == port:
        return True
    for item in list(cell.queue):
        if getattr(item, "port", -1) == port and getattr(item, "source", "") == source:
            return False
    return None


def _cycle(steps: list[str]) -> CycleError:
    return CycleError(
        f"calls wait for each other: {' → '.join(steps)}. None of them can ever be answered. Let "
        "one of them not wait: broadcast, a @concurrent_endpoint, or an answer that is awaited "
        "after the endpoint has returned."
    )


def _watch_thread(future: Future[Any]) -> Blocked | None:
    """The calling thread is about to block on the answer to a call."""
    context = current.get()
    if context is None:
        return None
    instance = context.actor_instance
    cell = instance.runtime.cells.get(instance.uid)
    if cell is None or cell.thread.ident != threading.get_ident():
        return None
    blocked = cell.blocked = Blocked(cell, future)
    return blocked


def _watch_task(future: Future[Any]) -> Blocked | None:
    """The running task is about to await the answer to a call."""
    context = current.get()
    if context is None:
        return None
    instance = context.actor_instance
    cell = instance.runtime.cells.get(instance.uid)
    if cell is None or cell.driver is None or not cell.driver.is_handling():
        return None  # another task: the actor goes on
    blocked = cell.blocked = Blocked(cell, future)
    _look_later(blocked, cell.driver.call_later)
    return blocked


def _look_later(blocked: Blocked, call_later: Callable[..., asyncio.TimerHandle]) -> None:
    def look() -> None:
        blocked.probe()
        _look_later(blocked, call_later)

    blocked.timer = call_later(blocked.pause, look)


install_watch(_watch_thread, _watch_task)
