"""An agent's connections to its zygotes: the plain one, and one for each set of preloads."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._proc import packet
from danaus._proc.exits import oom_kills

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Zygotes"]

Ready = Callable[[int, str | None], None]


class _Connection:
    """One zygote's socket, as the reactor sees it."""

    def __init__(self, sock: socket.socket, call: Callable[[], None]) -> None:
        self.sock = sock
        self._call = call

    def on_ready(self, _mask: int) -> None:
        """A report is there, or the zygote is gone."""
        self._call()


class Zygotes:
    """The zygotes of one agent, by index; 0 is the plain one."""

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        on_report: Callable[[list[Any]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._on_report = on_report
        self._on_lost = on_lost
        self._connections: list[_Connection] = []
        self._by_modules: dict[tuple[str, ...], int] = {(): 0}
        self._waiting: dict[int, list[Ready]] = {}
        self._failed: dict[int, str] = {}
        self._oom = oom_kills()
        self._add(sock)

    def _add(self, sock: socket.socket) -> int:
        index = len(self._connections)
        connection = _Connection(sock, lambda: self._receive(index))
        self._connections.append(connection)
        self._reactor.register(sock.fileno(), connection)
        return index

    def when_ready(self, modules: tuple[str, ...], call: Ready) -> None:
        """Call back with the index of a zygote that has ``modules`` imported, or (-1, why)."""
        index = self._by_modules.get(modules)
        if index is None:
            index = self._branch(modules)
        if index in self._failed:
            call(-1, self._failed[index])
        elif index in self._waiting:
            self._waiting[index].append(call)
        else:
            call(index, None)

    def _branch(self, modules: tuple[str, ...]) -> int:
        ours, theirs = socket.socketpair()
        packet.send(self._connections[0].sock, ["branch", list(modules)], [theirs.fileno()])
        theirs.close()
        index = self._by_modules[modules] = self._add(ours)
        self._waiting[index] = []
        return index

    def _receive(self, index: int) -> None:
        sock = self._connections[index].sock
        try:
            received = packet.receive(sock)
        except OSError:
            received = None
        if received is None:
            self._reactor.unregister(sock.fileno())
            sock.close()
            if index == 0:
                self._on_lost()
            else:
                self._settle(index, "the process that preloads ended")
            return
        report = received[0]
        if report[0] == "branched":
            self._settle(index, report[1])
        else:
            self._on_report(report)

    def _settle(self, index: int, why: str | None) -> None:
        if why is not None:
            self._failed[index] = why
        for call in self._waiting.pop(index, []):
            call(index if why is None else -1, why)

    def spawn(
        self, index: int, template: dict[str, Any], procs: list[list[Any]], fds: list[int]
    ) -> None:
        """Fork procs; their descriptors are closed here."""
        try:
            packet.send(self._connections[index].sock, ["spawn", template, procs], fds)
        except OSError:
            for name, _ in procs:
                self._on_report(["failed", name, "the zygote is gone"])
        for fd in fds:
            os.close(fd)

    def signal(self, index: int, name: str, number: int) -> None:
        """Signal a proc's group; nothing happens when it has ended."""
        try:
            packet.send(self._connections[max(index, 0)].sock, ["signal", name, number])
        except OSError:
            return  # the zygote is gone, and so is all that it started

    def oom_since(self) -> bool:
        """True when the kernel killed for want of memory since this was last asked."""
        now = oom_kills()
        grown = now > self._oom
        self._oom = now
        return grown

    def close(self) -> None:
        """Let the zygotes end what is left, and wait until they have."""
        for connection in self._connections:
            if connection.sock.fileno() >= 0:
                self._reactor.unregister(connection.sock.fileno())
                connection.sock.close()
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return
