"""An agent's listening sockets: who may come in, and where to.

A connection says in a preface (`danaus._net.preface`) what it wants, as a list:

* ``["hello", id, pid, versions, ...]``: a client that owns procs here
* ``["dial", from, to, address of from, ...]``: hand this connection to a process of the host
* ``["ask", from, to, ...]``: is that process dead?
* ``["through", address, ...]``: carry this connection on to another host

On TCP, the last element is the name of the link that the connection is for. Not a byte more than
the preface is read from a connection that is handed on. A stranger is closed at once: on the Unix
socket whoever runs as another user, on TCP whoever does not hold the job key.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec

from danaus._net.local_link import LocalLink
from danaus._net.poller import IN
from danaus._net.preface import HEAD, open_remote, size_of_body
from danaus._proc.place import remove_directory
from danaus._proc.system import peer_credentials
from danaus._proc.tunnel import Tunnel
from danaus._wire import kinds
from danaus._wire.frame import encode_small

if TYPE_CHECKING:
    import socket

    from danaus._net.job_key import JobKey
    from danaus._net.link import Link, OnFrame, OnLost
    from danaus._net.remote_link import RemoteLink
    from danaus._proc.agent import Agent

__all__ = ["Doorway", "Visit"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_PATIENCE = 10.0
"""Seconds in which a preface must be complete."""

_MOST = 512
"""Visitors of one listener that have not said what they want; of more, the oldest is closed."""

_PAUSE = 0.1
"""Seconds after which accepting is tried again when no descriptor was left."""

_HOLD = 30.0
"""Seconds for which a connection to a process that nobody has heard of yet is held."""


_MOST_HELD = 4096
"""Connections that are held so. Of more, those go that wait for whom was asked for first: whoever
has recorded a preface could say it again and again."""


class Visit:
    """A connection that has said what it wants.

    Attributes:
        sock: The connection; whoever takes it closes it.
        key: The job key that its peer holds, and that TLS needs; None on a Unix socket.
        link: Name of the link that it is for; empty on a Unix socket.
        pid: The peer's process; 0 where it is on another host.
    """

    __slots__ = ("key", "link", "pid", "sock")

    def __init__(self, sock: socket.socket, key: JobKey | None, link: str, pid: int) -> None:
        self.sock = sock
        self.key = key
        self.link = link
        self.pid = pid


class _Visitor:
    """A connection whose preface is not complete."""

    def __init__(self, sock: socket.socket, pid: int, entrance: _Entrance) -> None:
        self.sock = sock
        self.pid = pid
        self.since = time.monotonic()
        self._entrance = entrance
        self._data = b""

    def on_ready(self, _mask: int) -> None:
        """More of the preface is there, or the connection has ended."""
        while True:
            wanted = HEAD
            if len(self._data) >= HEAD:
                size = size_of_body(self._data[:HEAD])
                if not size:
                    self._entrance.dismiss(self)
                    return
                wanted += size
            if len(self._data) == wanted:
                self._entrance.admit(self, self._data[HEAD:])
                return
            try:
                data = self.sock.recv(wanted - len(self._data))
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            self._data += data
            if not data or not kinds.PREFACE.startswith(self._data[: len(kinds.PREFACE)]):
                self._entrance.dismiss(self)
                return


class _Entrance:
    """One listening socket."""

    def __init__(self, listener: socket.socket, doorway: Doorway, key: JobKey | None) -> None:
        self._listener = listener
        self._doorway = doorway
        self._key = key
        self._reactor = doorway.agent.reactor
        self._visitors: dict[_Visitor, None] = {}
        """In the order in which they came."""
        self._sweeping = False
        listener.setblocking(False)  # noqa: FBT003  # it takes no keyword
        self._reactor.register(listener.fileno(), self)

    def on_ready(self, _mask: int) -> None:
        """Somebody connects. One at a time: in between all others get their turn."""
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # it went away again
        except OSError:
            # No descriptor is left. The listener stays ready: asked at once, it would be so for
            # ever.
            self._reactor.modify(self._listener.fileno(), 0)
            self._reactor.call_later(_PAUSE, self._listen_again)
            return
        pid = 0
        if self._key is None:
            pid, uid = peer_credentials(sock)
            if uid not in (os.getuid(), 0):
                sock.close()
                return
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        if len(self._visitors) >= _MOST:
            self.dismiss(next(iter(self._visitors)))
        visitor = _Visitor(sock, pid, self)
        self._visitors[visitor] = None
        self._reactor.register(sock.fileno(), visitor)
        if not self._sweeping:
            self._sweeping = True
            self._reactor.call_later(_PATIENCE, self._sweep)
        visitor.on_ready(0)

    def _listen_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._reactor.modify(self._listener.fileno(), IN)

    def _sweep(self) -> None:
        """Close those that have taken too long. One timer, however many strangers come."""
        latest = time.monotonic() - _PATIENCE
        for visitor in [one for one in self._visitors if one.since <= latest]:
            self.dismiss(visitor)
        oldest = next(iter(self._visitors), None)
        self._sweeping = oldest is not None
        if oldest is not None:
            self._reactor.call_later(max(0.1, oldest.since - latest), self._sweep)

    def dismiss(self, visitor: _Visitor) -> None:
        """Close a connection whose preface is bad, late, or cut off."""
        if visitor in self._visitors:
            self._release(visitor)
            visitor.sock.close()

    def _release(self, visitor: _Visitor) -> None:
        """Its connection belongs to somebody else from now on."""
        del self._visitors[visitor]
        self._reactor.unregister(visitor.sock.fileno())

    def admit(self, visitor: _Visitor, body: bytes) -> None:
        """Do what a complete preface asks for."""
        wish = body if self._key is None else open_remote(body, self._key)
        try:
            what = _decode(wish) if wish is not None else None
        except (msgspec.DecodeError, RecursionError):
            what = None
        if not isinstance(what, list):
            self.dismiss(visitor)
            return
        asked = cast("list[Any]", what)
        link = str(asked.pop()) if self._key is not None and asked else ""
        self._release(visitor)
        if not self._doorway.take(Visit(visitor.sock, self._key, link, visitor.pid), asked):
            visitor.sock.close()

    def close(self) -> None:
        """Stop listening."""
        self._reactor.unregister(self._listener.fileno())
        self._listener.close()
        for visitor in list(self._visitors):
            self.dismiss(visitor)


def _ignore_frame(_link: Link, _frame: object, _fds: list[int]) -> None:
    """Nothing that a peer says is wanted which is not let in."""


class Doorway:
    """Accepts connections for an agent."""

    def __init__(self, listener: socket.socket, address: str, agent: Agent) -> None:
        self.agent = agent
        self._address = address
        self._held: dict[str, list[tuple[Visit, str, str]]] = {}
        self._holding = 0
        self._tunnels: set[Tunnel] = set()
        self._links: dict[tuple[str, str], RemoteLink] = {}
        """Links from other hosts, by peer and name of the link."""
        self._dismissals: set[Link] = set()
        self._entrances = [_Entrance(listener, self, None)]

    def open_to_hosts(self, listener: socket.socket, key: JobKey) -> None:
        """Accept connections of other hosts, too, from peers that hold ``key``."""
        self._entrances.append(_Entrance(listener, self, key))

    def take(self, visit: Visit, wish: list[Any]) -> bool:
        """Do what somebody wants who may want it. False: it is nothing that there is."""
        match wish:
            case [kinds.DIAL, str(source), str(target), *rest]:
                self._dial(visit, source, target, str(rest[0]) if rest else "")
            case [kinds.HELLO, str(), *_]:
                self.agent.on_hello(visit, wish)
            case [kinds.ASK, str(), str(target), *_]:
                self._answer(visit, target)
            case [kinds.THROUGH, str(address), *_] if visit.key is not None:
                self._tunnels.add(Tunnel(visit.sock, address, self.agent.reactor, self._tunnels))
            case _:
                return False
        return True

    # links of those who came in

    def resumed(self, visit: Visit, peer: str) -> bool:
        """Whether a connection was made again for a link that is there, and has it now."""
        link = self._links.get((peer, visit.link)) if visit.link else None
        if link is None or link.lost:
            return False
        link.resume(visit.sock)
        return True

    def make_link(self, visit: Visit, peer: str, on_frame: OnFrame, on_lost: OnLost) -> Link:
        """Make a link of a connection."""
        reactor = self.agent.reactor
        if visit.key is None:
            return LocalLink(visit.sock, reactor, on_frame, on_lost, peer, may_wait=False)
        from danaus._net.remote_link import RemoteLink

        def lost(link: Link, why: str) -> None:
            self._links.pop((peer, visit.link), None)
            on_lost(link, why)

        made = RemoteLink.accept(
            visit.sock, visit.key, reactor, on_frame, lost, peer, may_wait=False
        )
        made.outlasts = peer.startswith(kinds.AGENT) or "." in peer
        self._links[peer, visit.link] = made
        return made

    def dismiss(self, visit: Visit, kind: int, routing: list[Any]) -> None:
        """Tell who has connected one thing, and no more."""
        if visit.key is None:
            try:
                visit.sock.send(encode_small(kind, _encode(routing), b""))
            except OSError:
                pass
            visit.sock.close()
            return
        from danaus._net.remote_link import RemoteLink

        link = RemoteLink.accept(
            visit.sock, visit.key, self.agent.reactor, _ignore_frame, self._dismissed, ""
        )
        link.dismiss(kind, _encode(routing))
        self._dismissals.add(link)

    def _dismissed(self, link: Link, _why: str) -> None:
        self._dismissals.discard(link)

    def _dial(self, visit: Visit, source: str, target: str, address: str) -> None:
        agent = self.agent
        if agent.hand_over(visit, source, target, address):
            return
        if target in agent.tombs:
            self.refuse_visit(visit, target, agent.tombs[target])
            return
        if self._holding >= _MOST_HELD:
            self.refuse(next(iter(self._held)), None)
        self._holding += 1
        self._held.setdefault(target, []).append((visit, source, address))
        agent.reactor.call_later(_HOLD, lambda: self.refuse(target, None))

    def _answer(self, visit: Visit, target: str) -> None:
        agent = self.agent
        if agent.link_of(target) is not None:
            self.dismiss(visit, kinds.LINK_BYE, ["it lives"])
        else:
            self.refuse_visit(visit, target, agent.tombs.get(target))

    def flush(self, name: str) -> None:
        """``name`` is there now: hand it the connections that waited for it."""
        for visit, source, address in self._let_go(name):
            self.agent.hand_over(visit, source, name, address)

    def _let_go(self, name: str) -> list[tuple[Visit, str, str]]:
        held = self._held.pop(name, [])
        self._holding -= len(held)
        return held

    def refuse(self, name: str, report: dict[str, Any] | None) -> None:
        """``name`` is dead: tell those who wait for it."""
        for visit, _, _ in self._let_go(name):
            self.refuse_visit(visit, name, report)

    def refuse_visit(self, visit: Visit, name: str, report: dict[str, Any] | None) -> None:
        """Tell who has connected why there is no way to ``name``, or, if empty, to this agent."""
        self.dismiss(visit, kinds.REFUSED, [name, report])

    def close(self) -> None:
        """Stop listening, and remove the socket with its directory."""
        for entrance in self._entrances:
            entrance.close()
        for tunnel in list(self._tunnels):
            tunnel.close()
        for name in list(self._held):
            self.refuse(name, None)
        try:
            os.unlink(self._address)
        except OSError:
            pass  # somebody was quicker
        remove_directory(os.path.dirname(self._address))
