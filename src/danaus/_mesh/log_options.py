"""How the output of a mesh is shown: what `ProcMesh.logging_option` sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._runtime.future import Future, new_future
from danaus._runtime.outgoing import OutgoingCall
from danaus._runtime.process import runtime
from danaus._wire import kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from danaus._net.link import Link
    from danaus._runtime.router import Runtime, Target

__all__ = ["LogOptions", "set_log_options"]

_encode = msgspec.msgpack.Encoder().encode

_MAX_LEVEL = 255


def set_log_options(
    mesh: str, targets: Sequence[Target], *, whole: bool, options: LogOptions
) -> Future[None]:
    """Set how the output of a mesh of procs is shown; see `ProcMesh.logging_option`.

    Args:
        mesh: Its id.
        targets: The procs that are meant.
        whole: Whether these are all of the mesh; those that are started again have the options,
            too.
        options: Checked.
    """
    me = runtime()
    if me.output is not None:
        me.output.follow_notebook()
    if mesh in me.faults.stopped:
        stopped = new_future(None)
        stopped.set_error(RuntimeError("`ProcMesh` has already been stopped"))
        return stopped
    hosts = _by_agent(me, targets)
    client = me.spec.get("root") or me.id
    waiting: list[tuple[str, int]] = [pair for _, entries in hosts for pair in entries]
    applied = _Applied(me, waiting)
    port = me.new_port(applied) if waiting else -1
    streams = options.streams
    window = options.window if streams else None
    for link, entries in hosts:
        routing = (client, mesh, entries, whole, streams, window, options.level, port)
        link.send_small(kinds.LOG_OPTIONS, _encode(routing), b"")
    return applied.future


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How output is shown.

    Raises:
        TypeError: The level or the window is no number.
        ValueError: The level is not in 0..255, or the window is negative or infinite.
    """

    streams: bool
    """Whether the client shows it."""
    window: float | None
    """Seconds for which lines are collected; None or 0: each line by itself."""
    level: int
    """Level of the root logger of Python's logging."""

    def __post_init__(self) -> None:
        _check_level(self.level)
        _check_window(self.window)


def _check_level(level: object) -> None:
    if not isinstance(level, int) or isinstance(level, bool):
        raise TypeError(f"level is a number such as logging.INFO, got {level!r}")
    if not 0 <= level <= _MAX_LEVEL:
        raise ValueError(f"level {level} is out of range; levels of logging are 0..{_MAX_LEVEL}")


def _check_window(window: object) -> None:
    if window is None:
        return
    if not isinstance(window, int | float) or isinstance(window, bool):
        raise TypeError(f"aggregate_window_sec is a number of seconds or None, got {window!r}")
    if not 0 <= window < math.inf:
        raise ValueError(f"aggregate_window_sec is a number of seconds from 0 on, got {window!r}")


def _by_agent(me: Runtime, targets: Sequence[Target]) -> list[tuple[Link, list[tuple[str, int]]]]:
    """The procs that may live, with an index each, and the links to their agents."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for index, (proc, address, _) in enumerate(targets):
        if address and proc not in me.routes.dead:
            groups.setdefault(address, []).append((proc, index))
    links = ((me.routes.agent(address), entries) for address, entries in groups.items())
    return [(link, entries) for link, entries in links if link is not None]


class _Applied:
    """Waits until every proc has the options, or has ended: what has ended prints nothing."""

    def __init__(self, me: Runtime, targets: list[tuple[str, int]]) -> None:
        self.targets: Sequence[tuple[str, int]] = targets
        self.call = OutgoingCall("", "procs", "", "logging_option")
        self.future: Future[None] = new_future(me.reactor)
        self._waiting = {index for _, index in targets}
        if not targets:
            self.future.set_value(None)

    def on_reply(self, rank: int, status: int, take: Any) -> bool:
        """A proc has them."""
        del status, take
        return self._done(rank)

    def on_failure(self, rank: int, failure: Any) -> bool:
        """A proc has ended."""
        del failure
        return self._done(rank)

    def _done(self, index: int) -> bool:
        self._waiting.discard(index)
        if self._waiting:
            return False
        self.future.set_value(None)
        return True
