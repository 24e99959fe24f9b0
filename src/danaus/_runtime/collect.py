"""What waits for replies: one object for each port of this process.

A reply is ``(rank, status, parts)``. Nothing is unpickled on the driving thread: a collector keeps
the parts and settles its future with a thunk, which the observer runs on its own thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from danaus._runtime.future import Future, new_future
from danaus._runtime.outcome import COVERED, FAILED, VALUE, open_error
from danaus._runtime.outgoing import OutgoingCall
from danaus._wire.codec import Parts, loads
from danaus.errors import MeshFailure, SupervisionError

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Collector", "ManyReplies", "OneReply", "PortQueue", "StreamReplies", "Target"]

Take = Callable[[], Parts]
Target = tuple[str, int]
"""(id of a proc, rank in the mesh that the message was sent to)."""


class Collector(Protocol):
    """Takes what arrives at a port."""

    targets: Sequence[Target]
    """Whose replies are waited for; empty for a channel, which anybody may write to."""

    call: OutgoingCall
    """The call whose replies come here."""

    def on_reply(self, rank: int, status: int, take: Take) -> bool:
        """Take a reply; True when the port is done with and may be forgotten."""
        ...

    def on_failure(self, rank: int, failure: MeshFailure) -> bool:
        """The sender of a reply has died; True when the port is done with."""
        ...


def _open(status: int, take: Take, call: OutgoingCall) -> Callable[[], Any]:
    """What an observer runs to have the value, or to raise the error."""

    def observe() -> Any:
        parts = take()
        if status == VALUE:
            return loads(parts)
        raise open_error(status, parts, call.endpoint)

    return observe


class OneReply:
    """The port of a call to one actor."""

    __slots__ = ("call", "future", "targets")

    def __init__(self, reactor: Reactor | None, target: Target, call: OutgoingCall) -> None:
        self.targets: Sequence[Target] = (target,)
        self.call = call
        self.future: Future[Any] = new_future(reactor, call)

    def on_reply(self, rank: int, status: int, take: Take) -> bool:
        """The answer."""
        del rank
        self.future.set_thunk(_open(status, take, self.call))
        return True

    def on_failure(self, rank: int, failure: MeshFailure) -> bool:
        """There will be no answer."""
        del rank
        self.future.set_error(SupervisionError.for_call(self.call.endpoint, failure))
        return True


class ManyReplies:
    """The port of a call to a mesh: done when all have answered, or one has died."""

    __slots__ = (
        "_assemble",
        "_failed",
        "_lock",
        "_missing",
        "_replies",
        "call",
        "future",
        "targets",
    )

    def __init__(
        self,
        reactor: Reactor | None,
        targets: Sequence[Target],
        call: OutgoingCall,
        assemble: Callable[[list[Any]], Any],
    ) -> None:
        self.targets = targets
        self.call = call
        self.future: Future[Any] = new_future(reactor, call)
        self._replies: list[tuple[int, Take] | None] = [None] * len(targets)
        self._missing = len(targets)
        self._lock = threading.Lock()  # actors of this process reply on their own threads
        self._assemble = assemble
        self._failed = False
        if not targets:
            self.future.set_value(assemble([]))

    def on_reply(self, rank: int, status: int, take: Take) -> bool:
        """One answer."""
        with self._lock:
            if self._failed or not self._missing:
                return True
            if self._replies[rank] is None:
                self._replies[rank] = (status, take)
                self._missing -= 1
            failed = self._failed = status == FAILED
            complete = not self._missing
        if failed:
            self.future.set_thunk(_open(status, take, self.call))
        elif complete:
            self.future.set_thunk(self._observe)
        return failed or complete

    def _observe(self) -> Any:
        values: list[Any] = []
        for reply in self._replies:
            if reply is None:
                raise AssertionError("observed before all replies were in")
            status, take = reply
            if status == VALUE:
                values.append(loads(take()))
            elif status != COVERED:
                raise open_error(status, take(), self.call.endpoint)
        return self._assemble(values)

    def on_failure(self, rank: int, failure: MeshFailure) -> bool:
        """One will not answer; the call fails, unless that one had answered already."""
        with self._lock:
            if self._replies[rank] is not None:
                return not self._missing
            self._failed = True
        self.future.set_error(SupervisionError.for_call(self.call.endpoint, failure))
        return True


class StreamReplies:
    """The port of a stream: a future a reply, in order of arrival."""

    __slots__ = ("_arrived", "_futures", "_lock", "_seen", "call", "targets")

    def __init__(
        self, reactor: Reactor | None, targets: Sequence[Target], call: OutgoingCall
    ) -> None:
        self.targets = targets
        self.call = call
        self._futures = [new_future(reactor, call) for _ in targets]
        self._arrived = 0
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    @property
    def futures(self) -> list[Future[Any]]:
        """One future a reply; the first is settled by the first to arrive."""
        return self._futures

    def _next(self, rank: int) -> Future[Any] | None:
        with self._lock:
            if rank in self._seen:
                return None
            self._seen.add(rank)
            self._arrived += 1
            return self._futures[self._arrived - 1]

    def on_reply(self, rank: int, status: int, take: Take) -> bool:
        """One answer."""
        future = self._next(rank)
        if future is not None:
            future.set_thunk(_open(status, take, self.call))
        return self._arrived == len(self._futures)

    def on_failure(self, rank: int, failure: MeshFailure) -> bool:
        """One will not answer."""
        future = self._next(rank)
        if future is not None:
            future.set_error(SupervisionError.for_call(self.call.endpoint, failure))
        return self._arrived == len(self._futures)


_NO_RECEIVER = "nobody has its receiver any more"


class PortQueue:
    """The port of a channel: messages in order, futures for those who wait for more."""

    __slots__ = (
        "_abandoned",
        "_closed",
        "_items",
        "_lock",
        "_once",
        "_reactor",
        "_waiting",
        "call",
        "on_close",
        "targets",
    )

    def __init__(self, reactor: Reactor | None, *, once: bool) -> None:
        self.targets: Sequence[Target] = ()
        self.call = OutgoingCall("", "port", "", "receive")
        self._reactor = reactor
        self._once = once
        # The collector of garbage may abandon a queue anywhere, here too.
        self._lock = threading.RLock()
        self._abandoned = False
        self._items: deque[tuple[int, Callable[[], Any]]] = deque()
        self._waiting: deque[tuple[Future[Any], bool]] = deque()
        self._closed = ""
        self.on_close: Callable[[], None] | None = None
        """Called when no more messages are taken."""

    def on_reply(self, rank: int, status: int, take: Take) -> bool:
        """One message."""
        thunk = _open(status, take, self.call)
        with self._lock:
            if self._closed:
                return True
            waiting = self._waiting.popleft() if self._waiting else None
            if waiting is None:
                self._items.append((rank, thunk))
            if self._once:
                self._closed = "it was for one message, which has come"
            elif self._abandoned and not self._waiting:
                self._closed = _NO_RECEIVER
            closed = self._closed
        if waiting is not None:
            _settle(waiting[0], rank, thunk, ranked=waiting[1])
        if closed:
            self.close(closed)
        return bool(closed)

    def on_failure(self, rank: int, failure: MeshFailure) -> bool:
        """A channel does not end with one of its writers."""
        del rank, failure
        return False

    def receive(self, *, ranked: bool) -> Future[Any]:
        """A future for the next message."""
        future = new_future(self._reactor)
        with self._lock:
            item = self._items.popleft() if self._items else None
            if item is None and not self._closed:
                self._waiting.append((future, ranked))
                return future
        if item is None:
            future.set_error(EOFError(f"Port closed: {self._closed}"))
        else:
            _settle(future, item[0], item[1], ranked=ranked)
        return future

    def abandon(self) -> None:
        """Nobody can ask for more messages: take those that are waited for, and no others."""
        with self._lock:
            self._abandoned = True
            waited_for = bool(self._waiting)
        if not waited_for:
            self.close(_NO_RECEIVER)

    def close(self, why: str) -> None:
        """Take no more messages; those who wait are told."""
        with self._lock:
            if not self._closed:
                self._closed = why
            waiting = list(self._waiting)
            self._waiting.clear()
        for future, _ in waiting:
            future.set_error(EOFError(f"Port closed: {why}"))
        if self.on_close is not None:
            self.on_close()


def _settle(future: Future[Any], rank: int, thunk: Callable[[], Any], *, ranked: bool) -> None:
    if ranked:
        future.set_thunk(lambda: (rank, thunk()))
    else:
        future.set_thunk(thunk)
