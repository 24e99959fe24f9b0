"""Ports: where messages outside calls go. Channels: a port and the end that receives."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from danaus._runtime.collect import PortQueue, Target
from danaus._runtime.outcome import FAILED, RAISED, VALUE, close_error, close_failure
from danaus._runtime.outgoing import OutgoingCall
from danaus._runtime.process import runtime
from danaus._wire.codec import dumps

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._runtime.future import Future
    from danaus._runtime.router import Runtime

__all__ = ["Channel", "Port", "PortReceiver", "RankedPortReceiver"]

R = TypeVar("R")


class Port(Generic[R]):
    """Where values of one kind can be sent, from any process that has it.

    Ports are pickled freely: as arguments, results, inside other values. Messages of one sender
    arrive in order; those of several senders interleave.
    """

    def __init__(  # noqa: PLR0913  # its address
        self,
        proc: str,
        address: str,
        number: int,
        rank: int = 0,
        owner: Runtime | None = None,
        *,
        link: Link | None = None,
        once: bool = False,
    ) -> None:
        self._proc = proc
        self._address = address
        self._number = number
        self._rank = rank
        self._runtime = owner
        self._link = link
        self._once = once
        self._used = False
        self._lock = threading.Lock()
        self.return_undeliverable = True
        """Whether the sending actor is asked, and fails, when the port's process is gone."""

    def send_parts(self, status: int, parts: Any) -> None:
        """Send what is pickled already."""
        if self._once:
            with self._lock:
                if self._used:
                    raise EOFError("Port closed: it is for one message, which was sent")
                self._used = True
        me = self._runtime
        if me is None or me.closed:
            me = self._runtime = runtime()
        to = (self._proc, self._address)
        sent = me.outbox.send_to_port(to, self._number, self._rank, status, parts, self._link)
        if self.return_undeliverable and self._proc != me.id:
            tell = me.bounces.sent if sent else me.bounces.refused
            tell(self._proc, f"port {self._number} of {self._proc}")

    def send(self, obj: R) -> None:
        """Send a value.

        Raises:
            SerializationError: It cannot be pickled.
            EOFError: The port was for one message, which was sent.
        """
        self.send_parts(VALUE, dumps(obj))

    def exception(self, exception: BaseException) -> None:
        """Send an exception: the receiver raises it."""
        self.send_parts(RAISED, close_error(exception, "A remote actor call has failed."))

    def expect(self, me: Runtime, targets: Sequence[Target]) -> int:
        """A port number of this process that passes the replies of ``targets`` on to this port."""
        return me.new_port(_Forward(me, self, targets))

    @property
    def address(self) -> tuple[str, str, int]:
        """(process, address of its agent, number)."""
        return self._proc, self._address, self._number

    def __reduce__(self) -> Any:
        address = self._address
        if not address and self._runtime is not None:
            address = self._runtime.address_of(self._proc, self._link)
        return (_rebuild, (self._proc, address, self._number, self._rank, self._once))

    def __repr__(self) -> str:
        return f"<Port {self._number} of {self._proc}>"


class _Forward:
    """Passes the replies to a message on to a port, wherever that lives."""

    def __init__(self, me: Runtime, port: Port[Any], targets: Sequence[Target]) -> None:
        self.targets = targets
        self.call = OutgoingCall("", "port", "", "send")
        self._runtime = me
        self._port = port.address
        self._silent = set(range(len(targets)))
        """Those that have not answered."""

    def on_reply(self, rank: int, status: int, take: Any) -> bool:
        """Pass one on."""
        self._silent.discard(rank)
        self._pass_on(rank, status, take())
        return not self._silent

    def on_failure(self, rank: int, failure: Any) -> bool:
        """One has died, and will not answer."""
        if rank in self._silent:
            self._silent.discard(rank)
            self._pass_on(rank, FAILED, close_failure(failure))
        return not self._silent

    def _pass_on(self, rank: int, status: int, parts: Any) -> None:
        proc, address, number = self._port
        self._runtime.outbox.send_to_port((proc, address), number, rank, status, parts)


def _rebuild(proc: str, address: str, number: int, rank: int, once: bool) -> Port[Any]:  # noqa: FBT001
    from danaus._runtime.context import current

    context = current.get()
    rank = context.actor_instance.rank.rank if context is not None and rank == 0 else rank
    return Port(proc, address, number, rank, once=once)


class _End:
    """What the receivers of one channel share: the last of them to go closes it."""

    __slots__ = ("queue",)

    def __init__(self, queue: PortQueue) -> None:
        self.queue = queue

    def __del__(self) -> None:
        self.queue.abandon()


class PortReceiver(Generic[R]):
    """The receiving end of a channel; it stays in the process that opened it.

    The channel is closed when nobody has its receiver any more: what is sent then is dropped.
    """

    def __init__(self, end: _End) -> None:
        self._end = end

    def recv(self) -> Future[R]:
        """A future for the next value; an exception that was sent is raised by it.

        Raises, from the future:
            EOFError: The channel is closed.
        """
        return self._end.queue.receive(ranked=False)

    def ranked(self) -> RankedPortReceiver[R]:
        """The same end, giving (rank of the sender, value)."""
        return RankedPortReceiver(self._end)

    def close(self) -> None:
        """Take no more messages."""
        self._end.queue.close("its receiver was closed")

    def __reduce__(self) -> Any:
        raise TypeError("a PortReceiver stays where it was opened; send its Port instead")


class RankedPortReceiver(Generic[R]):
    """The receiving end of a channel that also tells who sent."""

    def __init__(self, end: _End) -> None:
        self._end = end

    def recv(self) -> Future[tuple[int, R]]:
        """A future for the next (rank of the sender, value)."""
        return self._end.queue.receive(ranked=True)


class Channel(Generic[R]):
    """Makes a port and the end that receives what is sent to it.

    Example:
        >>> port, receiver = Channel.open()
        >>> actor.produce.broadcast(port)
        >>> receiver.recv().get()
    """

    @staticmethod
    def open(once: bool = False) -> tuple[Port[R], PortReceiver[R]]:  # noqa: FBT001, FBT002
        """Open a channel; ``once``: for exactly one message."""
        port, end = _open(once=once)
        return port, PortReceiver(end)

    @staticmethod
    def open_ranked(once: bool = False) -> tuple[Port[R], RankedPortReceiver[R]]:  # noqa: FBT001, FBT002
        """Open a channel whose receiver also tells who sent."""
        port, end = _open(once=once)
        return port, RankedPortReceiver(end)


def _open(*, once: bool) -> tuple[Port[Any], _End]:
    me = runtime()
    queue = PortQueue(me.reactor, once=once)
    number = me.new_port(queue)
    queue.on_close = lambda: me.forget_port(number)
    return Port(me.id, "", number, 0, me, once=once), _End(queue)
