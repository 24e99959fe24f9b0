"""An agent's connections to its zygotes: the plain one, and one for each set of preloads."""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._net.descriptors import rights
from danaus._net.poller import IN, OUT
from danaus._proc import packet
from danaus._proc.exits import oom_kills
from danaus._proc.system import children_of, kill_tree

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Zygotes"]

_DONTWAIT = int(socket.MSG_DONTWAIT | packet.NO_SIGNAL)

Ready = Callable[[int, str | None], None]


class _Connection:
    """One zygote's socket. What it does not take at once is queued: the agent never waits."""

    def __init__(self, sock: socket.socket, reactor: Reactor, call: Callable[[], None]) -> None:
        self.sock = sock
        self._reactor = reactor
        self._call = call
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        reactor.register(sock.fileno(), self)

    def on_ready(self, mask: int) -> None:
        """A report is there, there is room for requests, or the zygote is gone."""
        if mask & OUT:
            self._drain()
        if mask & ~OUT:
            self._call()

    def send(self, value: Any, fds: list[int]) -> None:
        """Send a packet; the descriptors are closed once they have been passed on."""
        self._queue.append((packet.encode(value, len(fds)), fds))
        if len(self._queue) == 1:
            self._drain()

    def _drain(self) -> None:
        while self._queue:
            data, fds = self._queue.popleft()
            try:
                sent = self.sock.sendmsg([data], rights(fds), _DONTWAIT)
            except BlockingIOError:
                self._queue.appendleft((data, fds))
                self._reactor.modify(self.sock.fileno(), IN | OUT)
                return
            except OSError:
                sent = len(data)  # the zygote is gone; its end of the socket says so
            for fd in fds:
                os.close(fd)
            if sent < len(data):
                self._queue.appendleft((data[sent:], []))
        if self.sock.fileno() >= 0:
            self._reactor.modify(self.sock.fileno(), IN)

    def close(self) -> None:
        """Close the socket, and what was not passed on."""
        if self.sock.fileno() >= 0:
            self._reactor.unregister(self.sock.fileno())
            self.sock.close()
        for _, fds in self._queue:
            for fd in fds:
                os.close(fd)
        self._queue.clear()


class Zygotes:
    """The zygotes of one agent, by index; 0 is the plain one."""

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        on_report: Callable[[list[Any]], None],
        on_lost: Callable[[int], None],
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
        self._connections.append(_Connection(sock, self._reactor, lambda: self._receive(index)))
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
        self._connections[0].send(["branch", list(modules)], [theirs.detach()])
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
            self._lose(index)
            return
        report = received[0]
        if report[0] == "branched":
            self._settle(index, report[1])
        else:
            self._on_report(report)

    def _lose(self, index: int) -> None:
        """A zygote is gone, and with it all that it started."""
        self._connections[index].close()
        for modules, other in list(self._by_modules.items()):
            if other == index:
                del self._by_modules[modules]  # who asks again gets another
        self._settle(index, "the process that preloads ended")
        self._on_lost(index)

    def _settle(self, index: int, why: str | None) -> None:
        if why is not None:
            self._failed[index] = why
        for call in self._waiting.pop(index, []):
            call(index if why is None else -1, why)

    def spawn(
        self, index: int, template: dict[str, Any], procs: list[list[Any]], fds: list[int]
    ) -> None:
        """Fork procs; their descriptors are closed here."""
        self._connections[index].send(["spawn", template, procs], fds)

    def signal(self, index: int, name: str, number: int) -> None:
        """Signal a proc's group; nothing happens when it has ended."""
        self._connections[max(index, 0)].send(["signal", name, number], [])

    def oom_since(self) -> bool:
        """True when the kernel killed for want of memory since this was last asked."""
        now = oom_kills()
        grown = now > self._oom
        self._oom = now
        return grown

    @staticmethod
    def wake() -> None:
        """Let them go on if somebody has stopped them (SIGSTOP): they are to end, and all below."""
        for child in children_of(os.getpid()):
            for pid in (child, *children_of(child)):
                _wake(pid)

    def close(self, pid: int = 0) -> None:
        """Let the zygotes end what is left, and wait until they have.

        Args:
            pid: The plain zygote. What is there after it, it could not end because it was killed.
        """
        for connection in self._connections:
            connection.close()
        try:
            if pid:
                os.waitpid(pid, 0)
            while True:
                for child in children_of(os.getpid()) if pid else ():
                    kill_tree(child)
                os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _wake(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
