"""A connection that an agent carries on to another host, for a client that reaches only this one.

Bytes pass as they come, both ways. TLS is between the ends: the agent sees nothing of what passes.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from danaus._net.poller import IN, OUT
from danaus._net.tcp import TcpDial, tune

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor
    from danaus._net.tcp import Ending

__all__ = ["Tunnel"]

_ROOM = 256 * 1024
"""Bytes that are on their way each way; when they are not taken, no more are read."""


class _End:
    """One of the two connections of a tunnel."""

    def __init__(self, sock: socket.socket, tunnel: Tunnel, reactor: Reactor) -> None:
        self.sock = sock
        self.other: _End | None = None
        self._tunnel = tunnel
        self._reactor = reactor
        self._waiting = b""
        """What the other end has brought, and this one has not taken yet."""
        self._finished = False
        """Whether nothing more comes from this end."""
        self._mask = IN
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        reactor.register(sock.fileno(), self, IN)

    def on_ready(self, mask: int) -> None:
        """There is something to carry, or room for it."""
        if mask & OUT:
            self.take(b"")
        if mask & ~OUT and self.other is not None:
            self._read(self.other)

    def _read(self, other: _End) -> None:
        if self._finished or other._waiting:  # the other end
            return
        try:
            data = self.sock.recv(_ROOM)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._tunnel.close()
            return
        if data:
            other.take(data)
        else:
            self._finished = True
            other.finish()
            self.watch()

    def take(self, data: bytes) -> None:
        """Write what the other end has brought, now or when there is room."""
        self._waiting += data
        try:
            sent = self.sock.send(self._waiting)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._tunnel.close()
            return
        self._waiting = self._waiting[sent:]
        self.watch()
        if self.other is not None:
            self.other.watch()
            if not self._waiting and self.other._finished:  # noqa: SLF001  # the other end
                self.finish()

    def finish(self) -> None:
        """The other end brings no more: say so, when all was written."""
        if self._waiting:
            return
        if self._finished:
            self._tunnel.close()
            return
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._tunnel.close()

    def watch(self) -> None:
        """Be told of room if something waits, and of bytes if the other end takes them."""
        mask = OUT if self._waiting else 0
        if not self._finished and self.other is not None and not self.other._waiting:  # noqa: SLF001
            mask |= IN
        if mask != self._mask and self.sock.fileno() >= 0:
            self._mask = mask
            self._reactor.modify(self.sock.fileno(), mask)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self._reactor.unregister(self.sock.fileno())
            self.sock.close()


class Tunnel:
    """Carries one connection on.

    Args:
        sock: The connection of the client, of which only the first preface was read.
        address: Where to: ``tcp://HOST:PORT``.
        reactor: Drives both ends.
        tunnels: Where this one is noted as long as it lasts.
    """

    def __init__(
        self, sock: socket.socket, address: str, reactor: Reactor, tunnels: set[Tunnel]
    ) -> None:
        self._reactor = reactor
        self._tunnels = tunnels
        self._near = sock
        self._ends: list[_End] = []
        self._over = False
        tune(sock)
        try:
            self._dial: TcpDial | None = TcpDial(address, reactor, self._connected, self._failed)
        except ValueError:
            self._dial = None
            reactor.call_soon(self.close)

    def _connected(self, far: socket.socket) -> None:
        near, other = (_End(one, self, self._reactor) for one in (self._near, far))
        near.other, other.other = other, near
        self._ends = [near, other]

    def _failed(self, _how: Ending, _why: str) -> None:
        self.close()

    def close(self) -> None:
        """Close both ends."""
        if self._over:
            return
        self._over = True
        self._tunnels.discard(self)
        if self._dial is not None:
            self._dial.close()
        for end in self._ends:
            end.close()
        self._near.close()
