"""The zygote: a small single-threaded process that forks procs.

It is forked by the agent before the agent opens anything, so a proc inherits nothing but the
imported runtime (2 ms and 2 MB a fork, against 150 ms for a fresh interpreter). As subreaper it
becomes the parent of whatever a dead proc leaves behind, and kills that.

Requests from the agent, as packets:

* ``["spawn", template, [[id, overrides], ...]]`` with three descriptors a proc: control link,
  stdout, stderr
* ``["signal", id, number]``
* ``["branch", [module, ...]]`` with one descriptor: become the parent of another zygote that has
  these modules imported, and serves on that descriptor

Reports to the agent: ``["up", id, pid]``, ``["exit", id, pid, status]``, ``["failed", id, why]``,
``["branched", why or None]``.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Container
from typing import Any

from danaus._proc import packet
from danaus._proc.launch import PROC_MARK, Launch, enter
from danaus._proc.system import (
    become_subreaper,
    children_of,
    kill_tree,
    reap,
    set_file_limit,
    signal_group,
)

__all__ = ["Zygote"]


class Zygote:
    """Serves one agent until its socket closes.

    Args:
        sock: Connection to the agent.
        files: Files that a proc may open.
    """

    def __init__(self, sock: socket.socket, files: int) -> None:
        self._sock = sock
        self._files = files
        self._pids: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._branches: set[int] = set()
        self._wake_r, self._wake_w = os.pipe()
        for fd in (self._wake_r, self._wake_w):
            os.set_blocking(fd, False)

    def serve(self) -> Launch | None:
        """Serve until the agent is gone: None. In a forked proc: what it is to run."""
        me = os.getpid()
        try:
            return self._serve()
        except BaseException:
            if os.getpid() == me:  # and not a proc that could not be started
                self._end()
            raise

    def _serve(self) -> Launch | None:
        become_subreaper()
        signal.signal(signal.SIGCHLD, _note_child)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(self._wake_r, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._wake_r:
                    self._reap()
                    continue
                received = packet.receive(self._sock)
                if received is None:
                    self._end()
                    return None
                launch = self._handle(*received)
                if launch is not None:
                    return launch

    def _handle(self, request: list[Any], fds: list[int]) -> Launch | None:
        operation = request[0]
        if operation == "spawn":
            return self._spawn(request[1], request[2], fds)
        if operation == "signal":
            pid = self._ids.get(request[1])
            if pid is not None:
                signal_group(pid, request[2])
        elif operation == "branch":
            return self._branch(request[1], fds[0])
        return None

    def _spawn(
        self, template: dict[str, Any], procs: list[list[Any]], fds: list[int]
    ) -> Launch | None:
        me = os.getpid()
        if len(fds) < 3 * len(procs):
            for name, _ in procs:
                self._report(["failed", name, "no file could be opened any more (ulimit -n)"])
            procs = []
        for i, (name, overrides) in enumerate(procs):
            control, out, err = fds[3 * i : 3 * i + 3]
            try:
                pid = os.fork()
            except OSError as error:
                self._report(["failed", name, f"fork failed: {error}"])
                continue
            if pid == 0:
                return self._become(Launch({**template, **overrides}, control, out, err), me)
            self._pids[pid] = name
            self._ids[name] = pid
            self._report(["up", name, pid])
        for fd in fds:
            os.close(fd)
        return None

    def _become(self, launch: Launch, parent: int) -> Launch:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._sock.detach()
        set_file_limit(self._files)
        os.environ[PROC_MARK] = launch.spec["id"]
        enter(launch, parent)
        return launch

    def _branch(self, modules: list[str], fd: int) -> Launch | None:
        pid = os.fork()
        if pid:
            self._branches.add(pid)
            os.close(fd)
            return None
        os.closerange(3, fd)
        os.closerange(fd + 1, fd + 4096)
        self._sock.detach()
        branch = Zygote(socket.socket(fileno=fd), self._files)
        why = None
        module = ""
        try:
            for module in modules:
                __import__(module)
        except BaseException as error:  # noqa: BLE001  # any failure of a user's module
            why = f"preload of {module!r} failed: {type(error).__name__}: {error}"
        import threading

        if threading.active_count() > 1:
            why = (
                f"preload of {modules} started threads "
                f"({', '.join(t.name for t in threading.enumerate()[1:])}); "
                "a process with threads cannot be forked safely"
            )
        branch._report(["branched", why])
        launch = branch.serve()
        if launch is None:
            os._exit(0)
        return launch

    def _report(self, report: list[Any]) -> None:
        try:
            packet.send(self._sock, report)
        except OSError:
            return  # the agent is gone; the next receive says so

    def _reap(self) -> None:
        try:
            os.read(self._wake_r, 4096)
        except BlockingIOError:
            pass
        dead: dict[int, str] = {}
        while True:
            # While the dead leader is not reaped, its group's number is not used again.
            ended = reap(self._kill_group)
            if ended is None:
                break
            pid, status = ended
            name = self._pids.pop(pid, None)
            self._branches.discard(pid)
            if name is not None:
                del self._ids[name]
                self._report(["exit", name, pid, status])
                dead[pid] = name
        if dead:
            self._kill_left_behind(dead)

    def _kill_group(self, pid: int) -> None:
        if pid in self._pids:
            signal_group(pid, signal.SIGKILL)

    def _kill_left_behind(self, dead: dict[int, str]) -> None:
        """Kill what dead procs started in sessions of their own."""
        marks = {f"{PROC_MARK}={name}".encode() for name in dead.values()}
        for child in children_of(os.getpid()):
            known = child in self._pids or child in self._branches
            if not known and _belongs(child, marks, dead):
                kill_tree(child)

    def _end(self) -> None:
        for pid in self._pids:
            signal_group(pid, signal.SIGKILL)
        # What they leave behind becomes ours as they die: go on until nothing is left.
        while True:
            for child in children_of(os.getpid()):
                kill_tree(child)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def _note_child(_number: int, _frame: object) -> None:
    """The wake-up descriptor does the work; a handler must only be there."""


def _belongs(pid: int, marks: set[bytes], sessions: Container[int]) -> bool:
    try:
        if os.getsid(pid) in sessions:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return not marks.isdisjoint(file.read().split(b"\0"))
    except OSError:
        return False
