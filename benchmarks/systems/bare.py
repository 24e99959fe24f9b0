"""The floor: forked processes behind Unix sockets, bytes in and out, and no actor system at all.

A message is one operation byte, four bytes of length and a body. Nothing is pickled, named,
supervised or ordered. What is left is what the kernel and the interpreter take, hence what hardly
any system in Python is faster than.
"""

from __future__ import annotations

import functools
import mmap
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.actors.payload import sum_of_pages
from benchmarks.systems.interface import Actors, System

__all__ = ["SYSTEM"]

HEADER = struct.Struct("<cI")
ECHO, NOTE, NOTED, PID, SAMPLE, BLOCK = (bytes([code]) for code in range(6))

# Calls under way at once in the pipeline; more would fill both sockets' buffers and stop for good.
WINDOW = 64


class _Child:
    """The loop of one forked process."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._noted = 0

    def serve(self) -> None:
        """Answer until the other end is closed."""
        pending = b""
        while True:
            chunk, descriptors, _, _ = socket.recv_fds(self._link, 1 << 16, 1)
            if not chunk:
                return
            pending += chunk
            replies: list[bytes] = []
            position = 0
            while len(pending) - position >= HEADER.size:
                code, length = HEADER.unpack_from(pending, position)
                end = position + HEADER.size + length
                if end > len(pending):
                    break
                reply = self._handle(code, pending[position + HEADER.size : end], descriptors)
                if reply is not None:
                    replies.append(HEADER.pack(code, len(reply)) + reply)
                position = end
            pending = pending[position:]
            if replies:
                self._link.sendall(b"".join(replies))

    def _handle(self, code: bytes, body: bytes, descriptors: list[int]) -> bytes | None:
        if code == ECHO:
            return body
        if code == NOTE:
            self._noted += 1
            return None
        if code == NOTED:
            return str(self._noted).encode()
        if code == PID:
            return str(os.getpid()).encode()
        if code == SAMPLE:
            return str(_sum_of_mapped_pages(descriptors.pop())).encode()
        Path(body.decode()).touch()
        time.sleep(3600)
        return None


def _sum_of_mapped_pages(descriptor: int) -> int:
    with mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE) as mapped:
        os.close(descriptor)
        return sum_of_pages(mapped)


class BareActors(Actors):
    """Forked processes, a socket pair to each."""

    def __init__(self, count: int) -> None:
        self._links: list[socket.socket] = []
        self._processes: list[int] = []
        for _ in range(count):
            self._fork()

    def _fork(self) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                for link in (*self._links, ours):
                    link.close()
                _Child(theirs).serve()
            finally:
                os._exit(0)
        theirs.close()
        self._links.append(ours)
        self._processes.append(pid)

    def _ask(self, link: socket.socket, code: bytes, body: bytes = b"") -> bytes:
        link.sendall(HEADER.pack(code, len(body)) + body)
        return self._receive(link)

    def _receive(self, link: socket.socket) -> bytes:
        reply = link.recv(1 << 16)
        if not reply:
            raise ConnectionResetError("the process at the other end of the socket is gone.")
        return reply[HEADER.size :]

    def _ask_all(self, code: bytes, body: bytes = b"") -> list[bytes]:
        frame = HEADER.pack(code, len(body)) + body
        for link in self._links:
            link.sendall(frame)
        return [self._receive(link) for link in self._links]

    def call_one(self, value: Any) -> Any:
        """See `Actors`."""
        return self._ask(self._links[0], ECHO, b"%d" % value)

    def call_all(self, value: Any) -> None:
        """See `Actors`."""
        self._ask_all(ECHO, b"%d" % value)

    def pipeline(self, count: int) -> None:
        """See `Actors`."""
        link = self._links[0]
        frame = HEADER.pack(ECHO, 4) + b"echo"
        for began in range(0, count, WINDOW):
            calls = min(WINDOW, count - began)
            for _ in range(calls):
                link.sendall(frame)
            missing = calls * len(frame)
            while missing:
                missing -= len(link.recv(missing))

    def broadcast(self, count: int) -> None:
        """See `Actors`."""
        link = self._links[0]
        for value in range(count):
            body = b"%d" % value
            link.sendall(HEADER.pack(NOTE, len(body)) + body)

    def noted(self) -> int:
        """See `Actors`."""
        return int(self._ask(self._links[0], NOTED))

    def pids(self) -> list[int]:
        """See `Actors`."""
        return [int(reply) for reply in self._ask_all(PID)]

    def sample_all(self, payload: Any) -> list[int]:
        """See `Actors`. One copy into shared memory, whose descriptor goes to each process."""
        shared = os.memfd_create("payload")
        try:
            view = memoryview(payload).cast("B")
            # Written, not copied into a mapping: that would fault on every page.
            while view:
                view = view[os.write(shared, view) :]
            for link in self._links:
                socket.send_fds(link, [HEADER.pack(SAMPLE, 0)], [shared])
            return [int(self._receive(link)) for link in self._links]
        finally:
            os.close(shared)

    def block(self, path: str) -> Callable[[], object]:
        """See `Actors`."""
        link, body = self._links[0], path.encode()
        link.sendall(HEADER.pack(BLOCK, len(body)) + body)
        return functools.partial(self._receive, link)

    def stop(self) -> None:
        """See `Actors`."""
        for link in self._links:
            link.close()
        for pid in self._processes:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


class BareSystem(System):
    """The kernel, which is up already."""

    name = "bare"
    distribution = None
    import_name = None

    def start(self) -> None:
        """See `System`."""

    def spawn(self, count: int) -> BareActors:
        """See `System`."""
        return BareActors(count)

    def stop(self) -> None:
        """See `System`."""


SYSTEM = BareSystem()
