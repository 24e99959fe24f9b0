"""A link: frames in both directions between two processes, whatever lies between them.

`LocalLink` is a Unix socket on one host, `RemoteLink` a TLS session between hosts. Whoever uses a
link need not know which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from danaus._net.shared import SharedPayload
    from danaus._wire.frame import Frame

__all__ = ["Link", "OnFrame", "OnLost", "Part"]

Part = bytes | bytearray | memoryview


class Link(ABC):
    """Frames to one peer, and from it.

    ``on_frame(link, frame, fds)`` is called on the driving thread for each frame, with the
    descriptors that accompany it; ``on_lost(link, why)`` once, when there is no way to the peer
    any more.
    """

    peer: str
    """Id of the process at the other end; empty until it is known."""
    context: Any
    """Whatever the owner of the link keeps with it."""
    lost: bool
    """True when nothing can be sent any more."""
    bytes_in: int
    bytes_out: int
    frames_in: int
    frames_out: int

    is_local = True
    """Whether the peer is on this host: descriptors can be passed, memory shared."""

    def __repr__(self) -> str:
        state = "lost" if self.lost else "up"
        return f"<{type(self).__name__} to {self.peer or 'unknown peer'} {state}>"

    @property
    def connected(self) -> bool:
        """Whether the peer is connected right now; a session outlives its connections."""
        return not self.lost

    @property
    @abstractmethod
    def queued(self) -> int:
        """Bytes that were sent and that the socket has not taken yet."""

    @abstractmethod
    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        """Send a frame with one small part. Returns False when the connection has ended."""

    @abstractmethod
    def send(self, kind: int, routing: bytes, payload: SharedPayload, handover: int = -1) -> bool:
        """Send any frame; its descriptors are duplicated, the caller keeps its own.

        Returns False when the connection has ended.
        """

    @abstractmethod
    def forward(self, frame: Frame, fds: Sequence[int]) -> bool:
        """Send a received frame on as it is. The caller keeps the descriptors."""

    @abstractmethod
    def flush(self, timeout: float) -> bool:
        """Wait until the queue is written, at most ``timeout`` seconds. False: it is not."""

    @abstractmethod
    def finish(self) -> None:
        """Take what the peer wrote before it ended, then end the link; ``on_lost`` may be called.

        The news of a death may come by another link, and sooner than its last words. They are
        lost where another thread drives; only an agent that is gone too is noticed elsewhere.
        """

    @abstractmethod
    def close(self) -> None:
        """End the link from this side; ``on_lost`` is not called."""

    @abstractmethod
    def abandon(self) -> None:
        """In a forked child: let go of the connection, which is the parent's."""


OnFrame = Callable[[Link, "Frame", list[int]], None]
OnLost = Callable[[Link, str], None]
