"""An agent's listening socket: who may come in, and where to.

A connection says what it wants in a preface: `PREFACE`, a length (u32), and a msgpack list,
either ``["hello", id, pid, versions]`` (a client that owns procs here) or ``["dial", from, to]``
(hand this connection to a process of the host). Not a byte more than the preface is read from a
connection that is handed on. A stranger, who runs as another user, is closed before a byte of it
is read.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._net.poller import IN
from danaus._proc.place import remove_directory
from danaus._proc.system import peer_credentials
from danaus._wire import kinds
from danaus._wire.frame import encode_small

if TYPE_CHECKING:
    import socket

    from danaus._proc.agent import Agent

__all__ = ["Doorway"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_MAX_PREFACE = 4096
"""Bytes of the longest preface."""

_PATIENCE = 10.0
"""Seconds in which a preface must be complete."""

_PAUSE = 0.1
"""Seconds after which accepting is tried again when no descriptor was left."""

_HOLD = 30.0
"""Seconds for which a connection to a process that nobody has heard of yet is held."""


class _Visitor:
    """A connection whose preface is not complete."""

    def __init__(self, sock: socket.socket, pid: int, doorway: Doorway) -> None:
        self.sock = sock
        self.pid = pid
        self._doorway = doorway
        self._data = b""

    def on_ready(self, _mask: int) -> None:
        """More of the preface is there, or the connection has ended."""
        head = len(kinds.PREFACE) + 4
        wanted = head
        if len(self._data) >= head:
            wanted += struct.unpack("<I", self._data[head - 4 : head])[0]
        try:
            data = self.sock.recv(wanted - len(self._data))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._data += data
        if not data or not self._data.startswith(kinds.PREFACE[: len(self._data)]):
            self._doorway.dismiss(self)
            return
        if len(self._data) == head:
            (size,) = struct.unpack("<I", self._data[head - 4 :])
            if 0 < size <= _MAX_PREFACE:
                self.on_ready(0)
            else:
                self._doorway.dismiss(self)
        elif len(self._data) == wanted and wanted > head:
            self._doorway.admit(self, self._data[head:])


class Doorway:
    """Accepts connections for an agent."""

    def __init__(self, listener: socket.socket, address: str, agent: Agent) -> None:
        self._agent = agent
        self._address = address
        self._visitors: set[_Visitor] = set()
        self._held: dict[str, list[tuple[socket.socket, str]]] = {}
        self._listener = listener
        listener.setblocking(False)  # noqa: FBT003  # it takes no keyword
        agent.reactor.register(self._listener.fileno(), self)

    def on_ready(self, _mask: int) -> None:
        """Somebody connects."""
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # it went away again
        except OSError:
            # No descriptor is left. The listener stays ready: asked at once, it would be so for
            # ever.
            self._agent.reactor.modify(self._listener.fileno(), 0)
            self._agent.reactor.call_later(_PAUSE, self._listen_again)
            return
        pid, uid = peer_credentials(sock)
        if uid not in (os.getuid(), 0):
            sock.close()
            return
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        visitor = _Visitor(sock, pid, self)
        self._visitors.add(visitor)
        self._agent.reactor.register(sock.fileno(), visitor)
        self._agent.reactor.call_later(_PATIENCE, lambda: self.dismiss(visitor))
        visitor.on_ready(0)

    def _listen_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._agent.reactor.modify(self._listener.fileno(), IN)

    def dismiss(self, visitor: _Visitor) -> None:
        """Close a connection whose preface is bad, late, or cut off."""
        if visitor in self._visitors:
            self._release(visitor)
            visitor.sock.close()

    def admit(self, visitor: _Visitor, wish: bytes) -> None:
        """Do what a complete preface asks for."""
        try:
            what = _decode(wish)
        except (msgspec.DecodeError, RecursionError):
            what = None
        match what:
            case [kinds.DIAL, str(source), str(target)]:
                self._release(visitor)
                self._dial(visitor.sock, source, target)
            case ["hello", str(), *_]:
                self._release(visitor)
                self._agent.on_hello(visitor.sock, visitor.pid, list(what))
            case _:
                self.dismiss(visitor)

    def _release(self, visitor: _Visitor) -> None:
        """Its connection belongs to somebody else from now on."""
        self._visitors.discard(visitor)
        self._agent.reactor.unregister(visitor.sock.fileno())

    def _dial(self, sock: socket.socket, source: str, target: str) -> None:
        agent = self._agent
        if agent.hand_over(sock, source, target):
            sock.close()
        elif target in agent.tombs:
            self.refuse_visit(sock, target, agent.tombs[target])
        else:
            self._held.setdefault(target, []).append((sock, source))
            agent.reactor.call_later(_HOLD, lambda: self.refuse(target, None))

    def flush(self, name: str) -> None:
        """``name`` is there now: hand it the connections that waited for it."""
        for sock, source in self._held.pop(name, []):
            self._agent.hand_over(sock, source, name)
            sock.close()

    def refuse(self, name: str, report: dict[str, Any] | None) -> None:
        """``name`` is dead: tell those who wait for it."""
        for sock, _ in self._held.pop(name, []):
            self.refuse_visit(sock, name, report)

    def refuse_visit(self, sock: socket.socket, name: str, report: dict[str, Any] | None) -> None:
        """Tell who has connected why there is no way to ``name``, or, if empty, to this agent."""
        try:
            sock.send(encode_small(kinds.REFUSED, _encode([name, report]), b""))
        except OSError:
            pass
        sock.close()

    def close(self) -> None:
        """Stop listening, and remove the socket with its directory."""
        self._agent.reactor.unregister(self._listener.fileno())
        self._listener.close()
        for visitor in list(self._visitors):
            self.dismiss(visitor)
        for name in list(self._held):
            self.refuse(name, None)
        try:
            os.unlink(self._address)
        except OSError:
            pass  # somebody was quicker
        remove_directory(os.path.dirname(self._address))
