"""Which output of an agent's procs goes to which client?

Output goes to the *root* of a proc: the client that it descends from, however many procs stand
between. Where the root has no connection to this agent, the output goes to whatever process spawned
the proc from elsewhere, which passes it on to its own agent.

A client that does not read (it was suspended, say) must not fill the agent's memory, and must not
stop the procs: from a bound on, output is left out and a line says how much.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._proc.agent import Agent
    from danaus._proc.record import ProcRecord
    from danaus._wire.frame import Frame

__all__ = ["OUTPUT_KINDS", "Outlet"]

_encode = msgspec.msgpack.Encoder().encode

_MAX_QUEUED = 16 << 20
"""Bytes that may wait for a client before output is left out."""

OUTPUT_KINDS = frozenset(
    (kinds.LOG, kinds.LOG_END, kinds.LOG_FLUSH, kinds.LOG_OPTIONS, kinds.LOG_WINDOW)
)
"""Kinds of the frames that an outlet handles."""

_NONE: dict[str, Any] = {}
_STDERR = 2
_VALUE = 0


class Outlet:
    """Sends the output of the procs of one agent to their clients."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._options: dict[str, dict[str, Any]] = {}
        """What was set for meshes, and for procs that had not been started then."""
        self._left_out: dict[str, int] = {}
        """Lines that each peer has missed since it last took some."""

    def options_of(self, mesh: str, proc: str) -> dict[str, Any]:
        """What the description of a new proc of a mesh is to have besides."""
        return self._options.get(proc) or self._options.get(mesh, _NONE)

    def forget(self, client: str) -> None:
        """A client is gone."""
        kept = {m: options for m, options in self._options.items() if options["root"] != client}
        self._options = kept
        self._left_out.pop(client, None)

    def on_frame(self, link: Link, frame: Frame, routing: list[Any]) -> None:
        """A process of this host, or a client, says or asks something of output."""
        if frame.kind == kinds.LOG_OPTIONS:
            self._set_options(link, routing)
        elif frame.kind == kinds.LOG_FLUSH:
            self._flush(link, *routing)
        else:
            self._pass_on(link, frame, routing[0])

    # output

    def show(self, record: ProcRecord, stream: int, pieces: list[bytes]) -> None:
        """A proc has written."""
        if not record.streams:
            return
        if not record.pid:
            record.early.append((stream, pieces))  # it wrote before its start was reported
            return
        link = self._way_to_root(record)
        if link is None:
            return
        missed = self._left_out.get(link.peer, 0)
        if link.queued > (_MAX_QUEUED // 2 if missed else _MAX_QUEUED):
            self._left_out[link.peer] = missed + len(pieces)
            return
        if missed:
            self._apologise(link, record.root)
        record.shown = True
        self._send(link, kinds.LOG, [record.root, record.source(self._agent.name), stream, pieces])

    def started(self, record: ProcRecord) -> None:
        """The pid of a proc is known."""
        early, record.early = record.early, []
        for stream, pieces in early:
            self.show(record, stream, pieces)

    def ended(self, record: ProcRecord) -> None:
        """A proc has ended, and all that it wrote was read."""
        self.started(record)
        if not record.shown:
            return
        link = self._way_to_root(record)
        if link is not None:
            if link.peer in self._left_out:
                self._apologise(link, record.root)
            mesh, host = record.spec["mesh"], self._agent.name
            end = [record.root, mesh, host, record.pid, record.stopping]
            self._send(link, kinds.LOG_END, end)

    def _pass_on(self, link: Link, frame: Frame, client: str) -> None:
        """A proc relays output of procs that it has spawned on another host."""
        record = self._agent.procs.get(link.peer)
        way = self._agent.link_of(client)
        if way is None and record is not None:
            way = self._way_to_root(record)
        if way is not None and way.queued <= _MAX_QUEUED:
            way.forward(frame, [])

    def _way_to_root(self, record: ProcRecord) -> Link | None:
        agent = self._agent
        client = agent.clients.get(record.root)
        while client is None:
            client = agent.clients.get(record.owner)
            above = agent.procs.get(record.owner)
            if client is None and above is None:
                return None
            record = above or record
        return client.link

    def _apologise(self, link: Link, root: str) -> None:
        count = self._left_out.pop(link.peer)
        lines = "1 line was" if count == 1 else f"{count} lines were"
        text = f"{lines} left out, as output came faster than it was taken; the log files hold all."
        source = ["", "agent", self._agent.name, os.getpid(), None, 1]
        self._send(link, kinds.LOG, [root, source, _STDERR, [text.encode()]])

    @staticmethod
    def _send(link: Link, kind: int, routing: list[Any]) -> None:
        link.send_small(kind, _encode(routing), b"")

    # wishes

    def _set_options(self, link: Link, routing: list[Any]) -> None:
        """Show the output of a mesh, or of some of its procs, in another way from now on."""
        client, mesh, entries, whole, streams, window, level, port = routing
        agent = self._agent
        options = {"root": client, "streams": streams, "log_level": level}
        if whole:
            self._options[mesh] = options
            for proc, _ in entries:
                self._options.pop(proc, None)
        found = [record for proc, _ in entries if (record := agent.procs.get(proc)) is not None]
        for record in found:
            record.read_output()  # what is there is shown as it was to be shown when it was written
            record.streams = streams
            record.watchers.add(link.peer)
        way = self._way_to_root(found[0]) if found else agent.link_of(client)
        if way is not None:
            self._send(way, kinds.LOG_WINDOW, [client, mesh, window])
        for proc, index in entries:
            below = agent.link_of(proc)
            if below is not None:
                self._send(below, kinds.LOG_LEVEL, [level, link.peer, port, index])
                continue
            if not whole and proc not in agent.tombs:
                self._options[proc] = options  # it is still to be started
            self._answer(link, port, index)

    def _flush(self, link: Link, port: int, index: int) -> None:
        """Send a client all that its procs have written by now, then answer."""
        for record in self._agent.procs.values():
            if record.root == link.peer:
                record.read_output()
        self._answer(link, port, index)

    def _answer(self, link: Link, port: int, index: int) -> None:
        self._send(link, kinds.REPLY, [link.peer, port, index, _VALUE])
