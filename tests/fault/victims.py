"""Actors that die, hang and leave things behind."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from danaus.actor import Actor, MeshFailure, context, current_rank, endpoint

sleep = time.sleep  # noqa: TID251  # as the next line says
"""What an endpoint works, or a process idles; never the synchronisation of a test."""


def close_sockets() -> None:
    """Close all sockets of this process, Danaus's own as well; nothing else of it is touched."""
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
        except OSError:
            continue  # the descriptor of the listing itself


class Victim(Actor):
    """Does to itself whatever it is asked to."""

    def __init__(self, start: int = 0) -> None:
        self.value = start

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    @endpoint
    def echo(self, data: bytes) -> bytes:
        return data

    @endpoint
    def rank(self) -> int:
        return current_rank().rank

    @endpoint
    def evaluate(self, function: Any, *args: Any) -> Any:
        return function(*args)

    @endpoint
    def nap(self, seconds: float) -> float:
        sleep(seconds)
        return seconds

    @endpoint
    def say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    @endpoint
    def swallow(self, data: bytes, then: str = "exit") -> NoReturn:
        del data
        end(then)

    @endpoint
    def end(self, how: str) -> NoReturn:
        end(how)

    @endpoint
    def hold_gil(self, seconds: int) -> int:
        # usleep by PyDLL: a C function that keeps the interpreter's lock.
        libc = ctypes.PyDLL(None)
        for _ in range(seconds):
            libc.usleep(ctypes.c_uint(999_999))
        return os.getpid()

    @endpoint
    def abort(self, reason: str | None) -> None:
        context().actor_instance.abort(reason)

    @endpoint
    def start(self, command: list[str], own_session: bool) -> int:
        return subprocess.Popen(command, start_new_session=own_session).pid


def end(how: str) -> NoReturn:
    """End this process."""
    if how == "exit":
        os._exit(3)
    if how == "abort":
        os.abort()
    if how == "segv":
        ctypes.string_at(0)
    if how == "raise":
        raise SystemExit(4)
    os.kill(os.getpid(), getattr(signal, how))
    sleep(10)
    raise AssertionError(how)


class DiesAtBirth(Actor):
    """Ends in its constructor."""

    def __init__(self, how: str) -> None:
        end(how)

    @endpoint
    def pid(self) -> int:
        return os.getpid()


class Relay(Actor):
    """Calls another actor, which may be a relay itself."""

    def __init__(self, target: Any) -> None:
        self.target = target

    @endpoint
    def pass_on(self, how: str) -> None:
        if isinstance(self.target, Relay) or hasattr(self.target, "pass_on"):
            self.target.pass_on.call_one(how).get()
        else:
            self.target.end.call_one(how).get()


class Owner(Actor):
    """Owns procs with a victim in each, and decides about their failures."""

    def __init__(self, decision: str = "handle", procs: Any = None, size: int = 1) -> None:
        from danaus.actor import this_host

        self.decision = decision
        self.seen: list[MeshFailure] = []
        self.procs = procs if procs is not None else this_host().spawn_procs({"procs": size})
        self.victims = self.procs.spawn("owned", Victim)

    @endpoint
    def pids(self) -> list[int]:
        return [os.getpid(), *self.victims.pid.call().get().values()]

    @endpoint
    def mesh(self) -> Any:
        return self.victims

    @endpoint
    def let_die(self, how: str) -> None:
        self.victims.end.broadcast(how)

    @endpoint
    def failures(self) -> list[MeshFailure]:
        return self.seen

    @endpoint
    def leave(self, how: str) -> NoReturn:
        end(how)

    def __supervise__(self, failure: MeshFailure) -> Any:
        self.seen.append(failure)
        if self.decision == "raise":
            raise ValueError("no idea what to do")
        if self.decision == "respawn":
            self.procs.respawn(failure.ranks[0]).get(20)
        return self.decision in ("handle", "respawn")
