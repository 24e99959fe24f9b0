"""Ways to other processes: direct links, and agents that pass frames on.

The first message to a process opens a direct link: a connection to its host's agent, whose preface
names the process, and which the agent hands over to it. The connection can be written to at once,
whether the process has started yet or not. Beyond `direct_links_max` links, messages go through
the agent. Sequence numbers keep their order whichever way they went.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core.recent import Recent
from danaus._net.address import is_tcp
from danaus._net.dial import open_link
from danaus._net.keyring import keyring
from danaus._net.local_link import LocalLink
from danaus._proc.place import is_elsewhere
from danaus._proc.versions import versions
from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.link import Link, OnLost
    from danaus._net.reactor import Reactor
    from danaus._net.remote_link import RemoteLink
    from danaus._wire.frame import Frame

__all__ = ["Routes", "is_client"]

_REMEMBERED = 200_000
"""Ended processes that are remembered; more than the largest mesh has."""

_INQUIRY_PAUSE = 0.005
"""Seconds until an agent is asked about a process whose link has ended; it grows by halves.

The agent hears of a death within milliseconds.
"""

_TOLD_PAUSE = 1.0
"""Seconds until an agent is asked that should have told by itself."""

_PATIENCE = 5.0
"""Pause at which the process counts as dead: its agent answers, but does not know."""


class Routes:
    """Links of one process.

    Args:
        me: This process's id.
        reactor: Drives the links.
        on_frame: Called for each frame, on the driving thread.
        on_dead: Called once with a process and the report of its end (None where unknown).
        on_agent_lost: Called when the link to an agent has ended.
    """

    def __init__(
        self,
        me: str,
        reactor: Reactor,
        on_frame: Callable[[Link, Frame, list[int]], None],
        on_dead: Callable[[str, dict[str, Any] | None], None],
        on_agent_lost: Callable[[str, str], None],
    ) -> None:
        self.me = me
        self.reactor = reactor
        self.links: dict[str, Link] = {}
        """Direct links by process."""
        self.agents: dict[str, Link] = {}
        """Links to agents by address."""
        self.welcomes: dict[str, str] = {}
        """Agents that have answered, by address: their hosts' names."""
        self.host_names: Recent[str, str] = Recent(_REMEMBERED)
        """Names of hosts by the address of their agent, those that are gone included."""
        self.lost_agents: dict[str, str] = {}
        """Agents whose latest link has ended, by address: why."""
        self.refusals: dict[str, str] = {}
        """Agents that do not work together with this process, by address: why."""
        self.dead: Recent[str, dict[str, Any] | None] = Recent(_REMEMBERED)
        """Processes that have ended, with the report."""
        self.here = ""
        """In a proc: path of its own agent's Unix socket, by which its neighbours are reached."""
        self.owner = ""
        """In a proc: the process that has made it. Its own agent knows the way there, for a proc
        does not outlive its owner."""
        self.own_address: Callable[[], str] = str
        """Where this process can be asked for."""
        self._addresses: dict[str, str] = {}
        self._sessions: dict[tuple[str, str], RemoteLink] = {}
        """Links that peers on other hosts have dialled, by peer and name of the link."""
        self._extra: set[Link] = set()
        self._on_frame = on_frame
        self._on_dead = on_dead
        self._on_agent_lost = on_agent_lost
        self._lock = threading.Lock()
        self._closed = False
        self.retired_bytes = [0, 0]
        self.retired_frames = [0, 0]

    def to(self, proc: str, address: str) -> Link | None:
        """The link to send on to ``proc``, opened if need be; None when it is dead."""
        link = self.links.get(proc)
        if link is not None and not link.lost:
            return link
        if proc in self.dead or self._closed:
            return None
        with self._lock:
            link, gone = self._open(proc, address)
        if gone:
            # Without the lock: those who are told may need a link themselves.
            self.bury_with_host(proc, address or self.address_of(proc))
        return link

    def _open(self, proc: str, address: str) -> tuple[Link | None, bool]:
        """The link to a process, or to its agent; and whether the agent is gone, and it with it."""
        link = self.links.get(proc)
        if link is not None and not link.lost:
            return link, False
        if len(self.links) >= _config.get("direct_links_max"):
            agent = self.agents.get(address)
            if agent is not None:
                return agent, False
        address = address or self._addresses.get(proc, "")
        if not address:
            return None, False  # it may live, but there is no way to it
        link = self._dial(proc, address, self._on_link_lost)
        if link is None:
            return None, True
        self.links[proc] = link
        self._addresses[proc] = address
        return link, False

    def _dial(self, proc: str, address: str, on_lost: OnLost) -> Link | None:
        """A new link to a process; None where its agent is gone."""
        own = self.own_address()
        # Neighbours are reached by the Unix socket, whatever the host is called by others.
        at = self.here if self.here and (address == own or proc == self.owner) else address
        wish = [kinds.DIAL, self.me, proc, own]
        return open_link(at, wish, self.reactor, self._on_frame, on_lost, proc)

    def agent(self, address: str) -> Link | None:
        """The link to an agent, opened if need be; None when there is no agent there."""
        link = self.agents.get(address)
        if link is not None and not link.lost:
            return link
        if address in self.refusals:
            return None
        with self._lock:
            link = self.agents.get(address)
            if link is not None and not link.lost:
                return link
            wish = [kinds.HELLO, self.me, os.getpid(), versions()]
            link = open_link(
                address, wish, self.reactor, self._on_frame, self._on_agent_link_lost, address
            )
            if link is not None:
                self.agents[address] = link
                self.lost_agents.pop(address, None)  # that was another link
            return link

    def refuse(self, link: Link, why: str) -> None:
        """An agent and this process cannot work together: there is no way to it."""
        self.refusals[link.peer] = why
        with self._lock:
            if self.agents.get(link.peer) is link:
                del self.agents[link.peer]
        link.close()
        self._on_agent_lost(link.peer, why)

    def add_agent(self, address: str, sock: socket.socket) -> Link:
        """Use a connection that an agent knows already: a proc's control link."""
        with self._lock:
            link = LocalLink(sock, self.reactor, self._on_frame, self._on_agent_link_lost, address)
            self.agents[address] = link
        return link

    def learn(self, proc: str, address: str) -> None:
        """Remember where a process can be asked about that this one has not dialled."""
        if address:
            self._addresses.setdefault(proc, address)

    def address_of(self, proc: str) -> str:
        """Address of the agent of a process, empty where it is not known."""
        return self._addresses.get(proc, "")

    def known_at(self, address: str) -> list[str]:
        """Processes of that agent's host that this one has talked to.

        A client is no process of it: the agent is one of several that know the way to it.
        """
        known = list(self._addresses.items())
        return [proc for proc, at in known if at == address and not is_client(proc)]

    def adopt(self, fd: int, peer: str, address: str, name: str) -> None:
        """A peer has dialled this process; the agent handed the connection over.

        Args:
            fd: The connection.
            peer: Who dialled.
            address: Where the peer can be asked about.
            name: Name of the link that it is for; empty for a peer on this host.
        """
        sock = socket.socket(fileno=fd)
        link: Link
        if name:
            known = self._sessions.get((peer, name))
            if known is not None and not known.lost:
                known.resume(sock)
                return
            self.learn(peer, address)
            link = self._accept(sock, peer, name)
        else:
            link = LocalLink(sock, self.reactor, self._on_frame, self._on_link_lost, peer)
        with self._lock:
            known = self.links.get(peer)
            if known is None or known.lost:
                self.links[peer] = link
            else:
                self._extra.add(link)  # both dialled at once: each reads from both
        link.send_small(kinds.HERE, msgspec.msgpack.encode((peer, self.me)), b"")

    def _accept(self, sock: socket.socket, peer: str, name: str) -> RemoteLink:
        from danaus._net.remote_link import RemoteLink

        def lost(link: Link, why: str) -> None:
            self._sessions.pop((peer, name), None)
            self._on_link_lost(link, why)

        key = keyring.own
        link = RemoteLink.accept(sock, key, self.reactor, self._on_frame, lost, peer)
        link.outlasts = not is_client(peer)
        link.on_drop = lambda _link: self._ask(peer)
        self._sessions[peer, name] = link
        return link

    def _ask(self, peer: str) -> None:
        """A peer's connection has ended that it would make again: ask whether it is dead."""
        address = self._addresses.get(peer, "")
        if not is_tcp(address) or peer in self.dead or self._closed:
            return
        wish = [kinds.ASK, self.me, peer]
        open_link(address, wish, self.reactor, self._on_frame, _no_news, peer)

    def _on_agent_link_lost(self, link: Link, why: str) -> None:
        with self._lock:
            if self.agents.get(link.peer) is link:
                del self.agents[link.peer]
        self.welcomes.pop(link.peer, None)
        self.lost_agents[link.peer] = why
        if not self._closed:
            self._on_agent_lost(link.peer, why)

    def _on_link_lost(self, link: Link, why: str) -> None:
        proc = link.peer
        if proc in self.dead:
            return  # it is being buried
        with self._lock:
            if self.links.get(proc) is link:
                del self.links[proc]
        self._retire(link)
        if not link.is_local and not self._closed:
            # It has tried for long enough, or its peer is gone for certain.
            at = self._addresses.get(proc, "")
            self.bury(proc, {"text": why, "cause": at, "host": self.host_names.get(at, "")})
            return
        if not self._closed and proc not in self.dead:
            # An agent that knows this process tells it of the death by itself.
            told = self._addresses.get(proc) in self.agents
            pause = _TOLD_PAUSE if told else _INQUIRY_PAUSE
            self.reactor.call_later(pause, lambda: self._inquire(proc, pause))

    def _retire(self, link: Link) -> None:
        """A link has ended; what it has carried counts on."""
        self.retired_bytes[0] += link.bytes_out
        self.retired_bytes[1] += link.bytes_in
        self.retired_frames[0] += link.frames_out
        self.retired_frames[1] += link.frames_in
        self._extra.discard(link)

    def inquire(self, proc: str, address: str) -> None:
        """Find out whether a process lives that nobody has reported dead."""
        self.learn(proc, address)
        self.reactor.call_later(0.0, lambda: self._inquire(proc, _INQUIRY_PAUSE))

    def _inquire(self, proc: str, pause: float) -> None:
        """Ask the agent what became of a process whose link has ended.

        The link ends before the agent hears of the death, so it is asked again, less and less
        often. A process that lives is dialled by this, and its link replaced.
        """
        if self._closed or proc in self.dead or proc in self.links:
            return
        address = self._addresses.get(proc)
        if address is None:
            return  # it dialled us; whoever waits for it has its address and dials
        if pause > _PATIENCE:
            self.bury(proc, {"text": f"nobody knows anything of it at {address}"})
            return

        def ended(link: Link, _why: str) -> None:
            with self._lock:
                if self.links.get(proc) is link:
                    del self.links[proc]
            self.reactor.call_later(pause, lambda: self._inquire(proc, 1.5 * pause))

        try:
            link = self._dial(proc, address, ended)
        except OSError:  # no descriptor is left, say
            self.reactor.call_later(pause, lambda: self._inquire(proc, 1.5 * pause))
            return
        if link is None:
            self.bury_with_host(proc, address)
            return
        with self._lock:
            self.links[proc] = link

    def bury_with_host(self, proc: str, address: str) -> None:
        """Nobody answers at the agent's address: ``proc`` has ended with its host."""
        why = self.refusals.get(address)
        text = f"it could not be started: {why}" if why else "it is gone with its host's agent"
        if not is_tcp(address) and is_elsewhere(address):
            text = (
                "it is on another machine, whose host has no TCP address: only processes there "
                "reach it. Put it on a host that was started by a job or as `danaus worker`"
            )
        host = self.host_names.get(address, "")
        self.bury(proc, {"text": text, "cause": address, "host": host})

    def bury(self, proc: str, report: dict[str, Any] | None) -> None:
        """``proc`` has ended: end its link, and tell who must know."""
        if proc in self.dead:
            return
        self.dead[proc] = report
        link = self.links.pop(proc, None)
        links = [extra for extra in list(self._extra) if extra.peer == proc]
        if link is not None:
            links.append(link)
        for one in links:
            one.finish()
            self._retire(one)
        self._addresses.pop(proc, None)
        self._on_dead(proc, report)

    def all_links(self) -> list[Link]:
        """All links that are up."""
        return [*self.links.values(), *self._extra, *self.agents.values()]

    def flush(self, timeout: float) -> None:
        """Wait until what is queued was written, at most ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        for link in self.all_links():
            link.flush(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End all links."""
        self._closed = True
        for link in self.all_links():
            link.close()
        self.links.clear()
        self.agents.clear()

    def forget_after_fork(self) -> None:
        """In a forked child: let go of the parent's connections without a word on them."""
        self._closed = True
        for link in self.all_links():
            link.abandon()


def is_client(process: str) -> bool:
    """Whether a process is no proc: these are named by mesh and rank, ``mesh.rank-unique``."""
    return "." not in process


def _no_news(_link: Link, _why: str) -> None:
    """The peer lives, or cannot be asked: its own link decides."""
