"""Casts to many hosts, from the process that sends them: down a tree of agents, replies back up.

A process sends a cast to a few hosts, each of which passes it on to a few more. What a cast costs
its sender thus grows with the fan-out (`max_cast_fanout`), not with the number of hosts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core.cast import Relay, plan_tree
from danaus._core.recent import Recent
from danaus._net.address import is_tcp
from danaus._net.shared import take_parts
from danaus._proc.group import Cast, Group, cast_name, port_of
from danaus._proc.tree import Tree
from danaus._runtime.call import Taker
from danaus._runtime.combining import Combining
from danaus._wire import kinds
from danaus._wire.tree_frames import Batch, Branch, CastHead, Numbers
from danaus.errors import JobKeyError, MeshFailure

if TYPE_CHECKING:
    from danaus._core.gather_events import Entry
    from danaus._net.link import Link
    from danaus._net.shared import SharedPayload
    from danaus._runtime.outbox import Target
    from danaus._runtime.outgoing import OutgoingCall
    from danaus._runtime.router import Runtime
    from danaus._wire.frame import Frame

__all__ = ["Audience", "Trees"]

_encode = msgspec.msgpack.Encoder().encode

_AUDIENCES = 128
"""Sets of receivers whose trees are remembered."""

_LAST_WORD = 5.0
"""Seconds in which the agent of a lost process must say that it lives, or does not."""


class Audience:
    """Whom casts to some ranks of a mesh reach by the tree, and whom not."""

    def __init__(self, group: Group | None, targets: Sequence[Target], rest: list[Target]) -> None:
        self.group = group
        """None where a tree is of no use."""
        self.rest = rest
        """Those that are sent to directly."""
        apart = {rank for _, _, rank in rest}
        self.ranks: dict[str, int] = {}
        """Rank of each process that the tree reaches."""
        self.places: dict[int, tuple[str, str]] = {}
        """Process and host of each of these ranks."""
        if group is not None:
            for proc, address, rank in targets:
                if rank not in apart:
                    self.ranks[proc] = rank
                    self.places[rank] = (proc, address)


class Trees:
    """The root of all trees on which this process casts."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._routes = runtime.routes
        self._tree = Tree(self)
        self._audiences: Recent[Any, Audience] = Recent(_AUDIENCES)
        self._combining = Combining()
        self._casts = count()
        self._groups = count()
        self.awaited: dict[int, Audience] = {}
        """Receivers of casts, by the port at which their replies are awaited."""

    def audience(self, where: Any, targets: Sequence[Target]) -> Audience | None:
        """Whom of some targets a tree reaches; None where all are sent to directly.

        Args:
            where: Equal for equal targets; None for a single one.
            targets: Where a cast goes to.
        """
        fanout = _config.get("max_cast_fanout")
        if where is None or len(targets) <= min(fanout, _config.get("direct_links_max")):
            return None
        key = (where, fanout)
        audience = self._audiences.get(key)
        if audience is None:
            audience = self._plan(targets, fanout)
            old = next(iter(self._audiences)) if len(self._audiences) == _AUDIENCES else None
            if old is not None:
                self._forget(old)
            self._audiences[key] = audience
        return audience if audience.group is not None else None

    def _plan(self, targets: Sequence[Target], fanout: int) -> Audience:
        me, dead = self._runtime.id, self._routes.dead
        hosts: dict[str, tuple[list[int], list[str]]] = {}
        rest: list[Target] = []
        for target in targets:
            proc, address, rank = target
            if proc == me or not address or proc in dead:
                rest.append(target)
                continue
            ranks, procs = hosts.setdefault(address, ([], []))
            ranks.append(rank)
            procs.append(proc)
        if len(hosts) <= fanout and len(targets) <= _config.get("direct_links_max"):
            return Audience(None, targets, list(targets))
        # Hosts of this machine may lack the key with which those of others are reached.
        below: list[Branch] = []
        for part in ([h for h in hosts if not is_tcp(h)], [h for h in hosts if is_tcp(h)]):
            children = plan_tree(part, max(2, fanout)).children
            below.extend(_branch(relay, hosts) for relay in children)
        name = f"{me}/{next(self._groups)}"
        return Audience(Group(name, me, Branch("", [], [], below)), targets, rest)

    def _forget(self, key: Any) -> None:
        audience = self._audiences.pop(key, None)
        if audience is not None and audience.group is not None:
            self._tree.drop_group(audience.group.id)

    def cast(
        self,
        source_actor: str,
        call: OutgoingCall,
        audience: Audience,
        extent: bytes,
        numbers: Numbers,
        payload: SharedPayload,
    ) -> None:
        """Send a call down the tree. The payload belongs to it from now on."""
        group = audience.group
        if group is None:
            raise AssertionError("a cast without a tree")
        name = cast_name(self._runtime.id, call.port, next(self._casts))
        if call.port >= 0:
            self.awaited[call.port] = audience
        head = CastHead(
            group.id,
            name,
            0,
            self._runtime.id,
            call.actor,
            source_actor,
            call.method,
            call.port,
            extent,
            numbers,
            call.combine,
        )
        self._tree.cast(head, group, payload)

    def close(self, port: int) -> None:
        """Nobody waits at a port any more."""
        if self.awaited.pop(port, None) is not None:
            self._tree.close(cast_name(self._runtime.id, port, 0))

    def on_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        """A frame of a host below, or replies that this host's agent wants combined."""
        if frame.kind == kinds.COMBINE:
            parts: Any = take_parts(frame, fds.pop()) if fds else frame.parts
            self._combining.put(link, frame.routing, parts)
        else:
            self._tree.on_frame(link, frame, fds)
        for fd in fds:
            os.close(fd)

    def host_lost(self, address: str) -> None:
        """The link to an agent has ended."""
        self._tree.host_lost(address)

    def proc_died(self, proc: str) -> None:
        """A process has ended: trees with it are planned anew."""
        for key, audience in list(self._audiences.items()):
            if proc in audience.ranks:
                self._forget(key)

    # what the tree stands on

    def link_down(self, host: str) -> Link | None:
        """The link to an agent; None where nobody is there."""
        try:
            return self._routes.agent(host)
        except (JobKeyError, OSError):
            return None

    def link_up(self, host: str) -> Link | None:
        """Nobody is above the root."""
        del host

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call on the driving thread."""
        self._runtime.reactor.call_later(seconds, call)

    def deliver(self, cast: Cast, members: list[tuple[int, str]]) -> None:
        """Nobody is called at the root: its own actors get their messages directly."""

    def consume(self, cast: str, entries: Sequence[Entry], lost: Sequence[int]) -> None:
        """Hand replies to whoever waits at their port."""
        runtime = self._runtime
        port = port_of(cast)
        audience = self.awaited.get(port)
        collector = runtime.ports.get(port)
        done = collector is None
        runtime.received += len(entries)
        if collector is not None:
            for rank, reply in entries:
                status, parts = reply  # type: ignore[misc]  # as `decode_batch` made it
                done = collector.on_reply(rank, status, Taker(None, -1, parts))  # type: ignore[has-type]
                if done:
                    break
        if done:
            runtime.ports.pop(port, None)
            self.close(port)
        elif audience is not None:
            for rank in lost:
                self._lost(port, rank, *audience.places[rank])

    def _lost(self, port: int, rank: int, proc: str, host: str) -> None:
        """A rank will not answer: find out why, for its agent has not told us."""
        if proc in self._routes.dead:
            self._runtime.outbox.fail_dead(proc)
            return
        self._routes.inquire(proc, host)
        self.call_later(_LAST_WORD, lambda: self._give_up(port, rank, proc, host))

    def _give_up(self, port: int, rank: int, proc: str, host: str) -> None:
        """It lives, as far as we can see; yet the hosts between have lost it, and its reply."""
        collector = self._runtime.ports.get(port)
        if collector is None or proc in self._routes.dead:
            return
        call = collector.call
        why = f"contact with its host {host} was lost on the way to it, and its reply with it"
        failure = MeshFailure(call.mesh_name, [rank], why, actor_class=call.class_name)
        if collector.on_failure(rank, failure):
            self._runtime.ports.pop(port, None)
            self.close(port)

    def combine(self, host: str, batch: Batch, function: bytes) -> bool:
        """Not at the root: what comes up to it is folded by whoever waits."""
        del host, batch, function
        return False

    def unreached(self, host: str) -> None:
        """A host may lack a message, so none that comes after it can be handled there.

        For this process all on it are dead: it must not wait for them.
        """
        routes = self._routes
        known = {
            proc
            for audience in list(self._audiences.values())
            for proc, at in audience.places.values()
            if at == host
        }
        known.update(routes.known_at(host))
        text = f"its host at {host} was lost on the way of a cast to it"
        report = {"text": text, "cause": host, "host": routes.host_names.get(host, "")}
        alive = [proc for proc in known if proc not in routes.dead]
        if not alive:
            return
        agent = routes.agents.get(host)
        if agent is not None:
            meshes = list(self._runtime.faults.owned.values())
            owned = [proc for proc in alive if any(mesh.has(proc) for mesh in meshes)]
            agent.send_small(kinds.STOP_PROCS, _encode((owned, text, 0.0)), b"")
        for proc in alive:
            routes.bury(proc, report)


def _branch(relay: Relay, hosts: dict[str, tuple[list[int], list[str]]]) -> Branch:
    ranks, procs = hosts[relay.host]
    return Branch(relay.host, ranks, procs, [_branch(child, hosts) for child in relay.children])
