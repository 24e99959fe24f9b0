"""The agent of a host: one single-threaded loop that runs no user code.

It owns one Unix socket in a directory of mode 0700. Whoever connects is checked by SO_PEERCRED and
says in a short preface what it wants: to be a client, or to talk to a proc, in which case the
connection itself is handed to that proc. The agent starts and ends procs through its zygote,
captures their output, passes frames on, and tells owners and callers of every death.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._core.recent import Recent
from danaus._net.dial import describe_limit
from danaus._net.keyring import keyring
from danaus._net.local_link import LocalLink
from danaus._net.reactor import Reactor
from danaus._net.shared import SharedPayload
from danaus._proc import packet
from danaus._proc.casting import Casting
from danaus._proc.doorway import Doorway, Visit
from danaus._proc.lifeline import Lifeline
from danaus._proc.outlet import OUTPUT_KINDS, Outlet
from danaus._proc.output import LogDirectory
from danaus._proc.place import sweep
from danaus._proc.record import ProcRecord
from danaus._proc.system import become_subreaper, open_pidfd
from danaus._proc.versions import find_conflict, versions
from danaus._proc.zygotes import Zygotes
from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._net.job_key import JobKey
    from danaus._net.link import Link
    from danaus._wire.frame import Frame

__all__ = ["Agent", "Client"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_TOMBSTONES = 10_000
"""Ends of procs that are remembered, to answer those who ask late."""

_LAST_WORDS = 2.0
"""Seconds that clients have, at the end, to take what was sent to them."""

_EMPTY = SharedPayload([], [], -1, 0)


class _Watch:
    """Calls back when a descriptor (a pidfd) becomes readable."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def on_ready(self, _mask: int) -> None:
        """The process has ended."""
        self._call()


class Client:
    """A process that is no proc of this agent but owns some: a user's script, a proc elsewhere."""

    def __init__(self, name: str, link: Link, pid: int) -> None:
        self.id = name
        self.link = link
        self.pid = pid
        self.pidfd = -1


class Agent:
    """Serves one host until it is shut down or its owner is gone.

    Args:
        listener: The listening Unix socket.
        address: Its path; its directory is removed at the end.
        name: The host's name, as users see it.
        owner: Id of the client whose end is the agent's end; empty for a host that stays.
        zygote: Connection to the zygote.
        zygote_pid: The zygote.
    """

    def __init__(
        self,
        listener: socket.socket,
        address: str,
        name: str,
        owner: str,
        zygote: socket.socket,
        zygote_pid: int,
    ) -> None:
        self.name = name
        self.address = address
        self._owner = owner
        self._zygote_pid = zygote_pid
        self.reactor = Reactor()
        self.procs: dict[str, ProcRecord] = {}
        self.clients: dict[str, Client] = {}
        self.guests: dict[str, Link] = {}
        """Processes of other hosts that talk to clients of other hosts through this agent."""
        self.tombs: Recent[str, dict[str, Any] | None] = Recent(_TOMBSTONES)
        self.casting = Casting(self)
        self._logs = LogDirectory(name)
        self._outlet = Outlet(self)
        self._key: JobKey | None = None
        self._last_ready = 0.0
        """When a proc reported that it runs, last."""
        self._ending = False
        self._last_moment = 0.0
        """When clients are no longer waited for at the end; 0 before the end."""
        self._zygotes = Zygotes(zygote, self.reactor, self._on_zygote_report, self._on_zygote_lost)
        self._doorway = Doorway(listener, address, self)
        become_subreaper()

    def serve_hosts(self, listener: socket.socket, key: JobKey) -> None:
        """Accept peers on other hosts that hold the job key, too; procs get the key."""
        self._key = key
        keyring.install(key)
        self._doorway.open_to_hosts(listener, key)

    def end_with(self, lifeline: int) -> None:
        """End when the other side of a pipe does: whoever has started this host is gone."""
        self.reactor.register(lifeline, Lifeline(lifeline, self.reactor, self.shut_down))

    def run(self) -> None:
        """Serve until the end."""
        self.reactor.run()
        self._doorway.close()
        sweep(os.path.dirname(os.path.dirname(self.address)))

    # peers

    def on_hello(self, visit: Visit, hello: list[Any]) -> None:
        """A client has introduced itself: ``["hello", id, pid, versions]``."""
        name: str = hello[1]
        if self._doorway.resumed(visit, name):
            return
        theirs: Any = hello[3] if len(hello) > 3 else None  # noqa: PLR2004  # as above
        conflict = find_conflict(versions(), theirs, "the client has")
        if conflict:
            text = f"host {self.name} refuses this client: {conflict}"
            self._doorway.refuse_visit(visit, "", {"text": text})
            if name == self._owner:
                self.shut_down()
            return
        link = self._doorway.make_link(visit, name, self._on_client_frame, self._on_client_lost)
        client = Client(name, link, visit.pid)
        old = self.clients.get(name)
        if old is not None:
            old.link.close()
        self.clients[name] = client
        if visit.pid:
            client.pidfd = open_pidfd(visit.pid)
            if client.pidfd >= 0:
                self.reactor.register(client.pidfd, _Watch(lambda: self._client_gone(client)))
        self.send(link, kinds.WELCOME, [self.name, os.getpid(), versions()])
        self._doorway.flush(name)

    def hand_over(self, visit: Visit, source: str, target: str, address: str) -> bool:
        """Pass a connection on to the process that it dials. False: not known (yet)."""
        link = self.link_of(target)
        if link is None:
            return False
        record = self.procs.get(target)
        if record is not None:
            record.watchers.add(source)
        dialler = self.procs.get(source)
        if dialler is not None:
            dialler.watchers.add(target)
        if link.is_local:
            routing = _encode([source, address, visit.link])
            link.send(kinds.HANDOVER, routing, _EMPTY, visit.sock.fileno())
            visit.sock.close()
        elif not self._doorway.resumed(visit, source):
            # A client on another host: its frames come and go through this agent.
            self.guests[source] = self._doorway.make_link(
                visit, source, self._on_guest_frame, self._on_guest_lost
            )
        return True

    def _on_guest_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        if frame.kind < kinds.FIRST_CONTROL:
            self._on_client_frame(link, frame, fds)

    def _on_guest_lost(self, link: Link, _why: str) -> None:
        if self.guests.get(link.peer) is link:
            del self.guests[link.peer]

    def link_of(self, name: str) -> Link | None:
        """The agent's own link to a process, if it has one."""
        record = self.procs.get(name)
        if record is not None:
            return record.link
        client = self.clients.get(name)
        return client.link if client is not None else self.guests.get(name)

    def send(self, link: Link, kind: int, routing: Sequence[Any]) -> None:
        """Send a frame without a body."""
        link.send_small(kind, _encode(routing), b"")

    def tell(self, name: str, kind: int, routing: Sequence[Any]) -> None:
        """Send a control frame to a process of this host, if it is there."""
        link = self.link_of(name)
        if link is not None:
            self.send(link, kind, routing)

    def _on_client_lost(self, link: Link, _why: str) -> None:
        client = self.clients.get(link.peer)
        if client is not None and client.link is link:
            self._client_gone(client)

    def _client_gone(self, client: Client) -> None:
        if self.clients.get(client.id) is not client:
            return
        del self.clients[client.id]
        client.link.finish()
        if client.pidfd >= 0:
            self.reactor.unregister(client.pidfd)
            os.close(client.pidfd)
        self._outlet.forget(client.id)
        self.casting.tree.host_lost(client.id)
        self._bury(client.id, None)
        self._owner_gone(client.id)
        if client.id == self._owner:
            self.shut_down()

    def _owner_gone(self, owner: str) -> None:
        for record in list(self.procs.values()):
            if record.owner == owner or owner in record.watchers:
                if record.owner == owner:
                    record.stopping = True
                    record.stop_reason = "its owner is gone"
                    self._zygotes.signal(record.zygote, record.id, signal.SIGKILL)
                elif record.link is not None:
                    self.send(record.link, kinds.PROC_EXIT, [owner, self.tombs.get(owner)])

    # frames

    def _on_client_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        try:
            self._on_frame(link, frame, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _on_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        kind = frame.kind
        if kinds.FIRST_OF_TREE <= kind <= kinds.LAST_OF_TREE:
            self.casting.on_frame(link, frame, fds)
            return
        routing = _decode(frame.routing)
        if kind < kinds.FIRST_CONTROL:
            self._pass_on(link, frame, routing, fds)
        elif kind == kinds.SPAWN_PROCS:
            self._spawn(routing[0], routing[1])
        elif kind == kinds.STOP_PROCS:
            for name in routing[0]:
                self._stop(name, link.peer, routing[1], routing[2])
        elif kind == kinds.WATCH:
            self._watch(link, routing[0])
        elif kind == kinds.KEEP:
            self._owner = "" if routing[0] else link.peer
            self.send(link, kinds.WELCOME, [self.name, os.getpid(), versions()])
        elif kind in OUTPUT_KINDS:
            self._outlet.on_frame(link, frame, routing)
        elif kind == kinds.SHUTDOWN:
            self.shut_down()

    def on_passing_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        """Send a frame on to the process that it is for. The caller keeps the descriptors."""
        self._pass_on(link, frame, _decode(frame.routing), fds)

    def _pass_on(self, link: Link, frame: Frame, routing: Sequence[Any], fds: list[int]) -> None:
        kind, target = frame.kind, routing[0]
        if kind == kinds.REPLY and self.casting.take_reply(routing, frame, fds):
            return
        receiver = self.link_of(target)
        if receiver is not None:
            record = self.procs.get(target)
            if record is not None:
                record.watchers.add(link.peer)  # who sends to it hears of its death
            receiver.forward(frame, fds)
        elif target in self.tombs or not self.casting.pass_up(frame, target, fds):
            self.send(link, kinds.REFUSED, [target, self.tombs.get(target)])

    def _watch(self, link: Link, name: str) -> None:
        record = self.procs.get(name)
        if record is not None:
            record.watchers.add(link.peer)
        elif name not in self.clients:
            self.send(link, kinds.PROC_EXIT, [name, self.tombs.get(name)])

    # procs

    def _spawn(self, template: dict[str, Any], procs: list[list[Any]]) -> None:
        if self._ending:
            self._start(-1, "the host is being shut down", template, procs)
            return
        modules: list[str] = template.get("preload") or []
        self._zygotes.when_ready(
            tuple(modules), lambda zygote, why: self._start(zygote, why, template, procs)
        )

    def _start(
        self, zygote: int, why: str | None, template: dict[str, Any], procs: list[list[Any]]
    ) -> None:
        batch: list[list[Any]] = []
        fds: list[int] = []
        template = {**template, "local": self.address}
        if self._key is not None:
            template["key"] = self._key.pem
        tail_lines = template.get("tail_lines", 100)
        for name, wanted in procs:
            options = self._outlet.options_of(template["mesh"], name)
            overrides = {**wanted, **options, "id": name}
            spec = {**template, **overrides}
            record = ProcRecord(spec, zygote, self._logs, tail_lines)
            self.procs[name] = record
            record.watchers.add(record.owner)
            if why is None:
                why = self._connect(record, fds)
            if why is not None:
                self._proc_ended(record, record.failed_to_start(why))
                why = why if zygote < 0 else None
                continue
            batch.append([name, overrides])
            if len(fds) + 3 > packet.MAX_DESCRIPTORS:
                self._zygotes.spawn(zygote, template, batch, fds)
                batch, fds = [], []
        if batch:
            self._zygotes.spawn(zygote, template, batch, fds)
        seconds = template.get("ready_seconds")
        if seconds:
            names = [name for name, _ in procs]
            self.reactor.call_later(seconds, lambda: self._end_late(names, seconds))

    def _end_late(self, names: list[str], seconds: float) -> None:
        """End what was to be a proc and has not become one: a command that does something else.

        A host that is slow because it starts a thousand is left in peace while there is progress.
        """
        left = self._last_ready + seconds - time.monotonic()
        if left > 0:
            self.reactor.call_later(left, lambda: self._end_late(names, seconds))
            return
        for name in names:
            record = self.procs.get(name)
            if record is not None and not record.ready and not record.stopping:
                record.late = f"it has not reported within {seconds:g} s (host_spawn_ready_timeout)"
                self._zygotes.signal(record.zygote, name, signal.SIGKILL)

    def _connect(self, record: ProcRecord, fds: list[int]) -> str | None:
        """Make the control link and the pipes of a new proc. Returns why it cannot be done."""
        opened: list[int] = []
        readers: list[int] = []
        ours: socket.socket | None = None
        try:
            ours, theirs = socket.socketpair()
            opened.append(theirs.detach())
            for _ in range(2):
                reader, writer = os.pipe()
                readers.append(reader)
                opened.append(writer)
        except OSError as error:
            for fd in (*opened, *readers):
                os.close(fd)
            if ours is not None:
                ours.close()
            return describe_limit(error)
        record.link = LocalLink(
            ours, self.reactor, self._on_proc_frame, self._on_proc_lost, record.id, may_wait=False
        )
        record.capture(readers[0], readers[1], self.reactor, self._outlet.show)
        fds.extend(opened)
        self._doorway.flush(record.id)
        return None

    def _on_proc_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        if frame.kind == kinds.READY:
            self.procs[link.peer].ready = True
            self._last_ready = time.monotonic()
        else:
            self._on_client_frame(link, frame, fds)

    def _on_proc_lost(self, link: Link, _why: str) -> None:
        # The zygote reports the end; a proc that only closed its link is of no use to anybody.
        record = self.procs.get(link.peer)
        if record is not None and record.exit is None and not record.stopping:
            self.reactor.call_later(1.0, lambda: self._cut_off(record))

    def _cut_off(self, record: ProcRecord) -> None:
        if record.exit is None:
            record.cut_off = not record.stopping
            self._zygotes.signal(record.zygote, record.id, signal.SIGKILL)

    def _on_zygote_report(self, report: list[Any]) -> None:
        what, name = report[0], report[1]
        record = self.procs.get(name)
        if record is None:
            return
        if what == "up":
            record.pid = report[2]
            self._outlet.started(record)
            self.tell(record.owner, kinds.PROC_UP, [name, record.pid])
            if record.stopping and record.link is None:
                self._zygotes.signal(record.zygote, name, signal.SIGKILL)
        elif what == "exit":
            record.pid = report[2]
            self._proc_ended(record, record.ended(report[3], oom=self._zygotes.oom_since()))
        elif what == "failed":
            self._proc_ended(record, record.failed_to_start(report[2]))

    def _proc_ended(self, record: ProcRecord, report: dict[str, Any]) -> None:
        self._outlet.ended(record)
        self.procs.pop(record.id, None)
        report["host"] = self.name
        self._bury(record.id, report)
        self.casting.proc_lost(record.id)
        record.watchers.add(record.owner)
        for watcher in record.watchers:
            self.tell(watcher, kinds.PROC_EXIT, [record.id, report])
        self._owner_gone(record.id)
        if self._ending and not self.procs:
            self._finish()

    def _bury(self, name: str, report: dict[str, Any] | None) -> None:
        self.tombs[name] = report
        self._doorway.refuse(name, report)

    def _stop(self, name: str, asker: str, reason: str, seconds: float) -> None:
        record = self.procs.get(name)
        if record is None:
            self.tell(asker, kinds.PROC_EXIT, [name, self.tombs.get(name)])
            return
        record.watchers.add(asker)
        if not record.stopping:
            record.stopping = True
            record.stop_reason = reason
            if record.link is not None:
                self.send(record.link, kinds.STOP, [reason, seconds])
        for delay, number in ((seconds, signal.SIGTERM), (seconds + 1.0, signal.SIGKILL)):
            self.reactor.call_later(delay, lambda n=number: self._signal(record, n))

    def _signal(self, record: ProcRecord, number: int) -> None:
        if record.exit is None:
            self._zygotes.signal(record.zygote, record.id, number)

    # the end

    def shut_down(self) -> None:
        """End all procs, then the agent."""
        if self._ending:
            return
        self._ending = True
        self._zygotes.wake()
        for record in list(self.procs.values()):
            owner_alive = record.owner in self.clients or record.owner in self.procs
            self._stop(
                record.id, record.owner, "the host is shut down", 2.0 if owner_alive else 0.0
            )
        if not self.procs:
            self._finish()

    def _finish(self) -> None:
        """Close down once the clients have taken what was sent to them, last output included."""
        if self._last_moment == 0.0:
            self._last_moment = time.monotonic() + _LAST_WORDS
        if any(c.link.queued for c in self.clients.values()):
            left = self._last_moment - time.monotonic()
            if left > 0:
                self.reactor.call_later(min(left, 0.005), self._finish)
                return
        for client in self.clients.values():
            client.link.close()
        self.casting.close()
        self._zygotes.close(self._zygote_pid)
        self.reactor.close()

    def _on_zygote_lost(self, zygote: int) -> None:
        for record in list(self.procs.values()):
            if zygote in (0, record.zygote):
                report = record.ended(signal.SIGKILL, oom=False)
                report["text"] = "the zygote of its host has died, and all its processes with it"
                report["cause"] = f"zygote {zygote} of {self.address}"
                self._proc_ended(record, report)
        if zygote == 0:
            self._ending = True
            self._finish()
