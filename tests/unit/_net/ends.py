"""Ends of connections, as the tests of links hold them."""

import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

from danaus._config.overrides import configured
from danaus._net.link import Link
from danaus._net.local_link import LocalLink
from danaus._net.reactor import Reactor
from danaus._net.shared import SharedPayload, take_parts
from danaus._wire.frame import FLAG_SHARED, Frame, FrameDecoder

PATIENCE = 5.0
"""Seconds that a test waits for what must come."""


class End:
    """One end of a connection as a link, and what came by it."""

    def __init__(self, reactor: Reactor, sock: socket.socket, *, may_wait: bool = True) -> None:
        self.frames: list[tuple[int, bytes, list[bytes]]] = []
        self.fds: list[int] = []
        self.lost: list[str] = []
        self.on_frame: Callable[[Frame], None] = lambda _frame: None
        self.link = LocalLink(sock, reactor, self._take, self._end, "peer", may_wait=may_wait)

    def _take(self, _link: Link, frame: Frame, fds: list[int]) -> None:
        self.on_frame(frame)
        if frame.flags & FLAG_SHARED:
            parts = [bytes(part) for part in take_parts(frame, fds.pop(0))]
        else:
            parts = [bytes(part) for part in frame.parts if part is not None]
        self.fds += fds
        self.frames.append((frame.kind, frame.routing, parts))

    def _end(self, _link: Link, why: str) -> None:
        self.lost.append(why)

    def close(self) -> None:
        self.link.close()
        for fd in self.fds:
            os.close(fd)


def read_frames(sock: socket.socket, count: int, *, chunk: int = 65_536) -> list[Frame]:
    """Read from a raw socket until so many frames have come."""
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while len(frames) < count:
        data = sock.recv(chunk)
        assert data, f"the link ended after {len(frames)} of {count} frames"
        frames += decoder.feed(data)
    return frames


@contextmanager
def queue_limit(nbytes: int) -> Generator[None]:
    with configured(send_queue_bytes=nbytes):
        yield


def small(*parts: bytes) -> SharedPayload:
    return SharedPayload([len(part) for part in parts], list(parts), -1, 0)
