"""Actors for the tests of output."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys

from danaus.actor import Actor, HostMesh, current_rank, endpoint, this_host


class Speaker(Actor):
    """Writes what it is told, in every way in which a process can."""

    @endpoint
    def say(self, text: str) -> None:
        print(text)  # noqa: T201  # output is what is tested

    @endpoint
    def say_rank(self, text: str) -> None:
        print(text, current_rank().rank)  # noqa: T201  # output is what is tested

    @endpoint
    def write(self, data: bytes, fd: int = 1) -> None:
        os.write(fd, data)

    @endpoint
    def write_and_exit(self, data: bytes, code: int) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
        os._exit(code)

    @endpoint
    def abort_in_c(self, lines: int) -> None:
        libc = ctypes.CDLL(None)
        for number in range(lines):
            line = b"C line %d\n" % number
            libc.write(2, line, len(line))
        libc.abort()

    @endpoint
    def show_progress(self, steps: int) -> None:
        for step in range(steps + 1):
            text = f"\rrank {current_rank().rank}: {100 * step // steps:3d}%"
            sys.stderr.write(text)
            sys.stderr.flush()
        sys.stderr.write("\n")

    @endpoint
    def run(self, *words: str) -> None:
        subprocess.run(words, check=True)

    @endpoint
    def log(self, level: int, message: str, *args: object) -> None:
        logging.getLogger("of a library").log(level, message, *args)

    @endpoint
    def say_at_exit(self, text: str) -> None:
        import atexit

        atexit.register(print, text)


class Nested(Actor):
    """Has procs of its own, which it lets speak."""

    @endpoint
    def say_below(self, text: str, hosts: HostMesh | None = None) -> None:
        procs = (hosts or this_host()).spawn_procs(per_host={"below": 2}, name="below")
        procs.spawn("speakers", Speaker).say.call(text).get(20)
        procs.stop().get(20)
