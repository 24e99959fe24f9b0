"""One TCP connection between hosts, from its first packet to the end, encrypted.

It is made in steps, none of which waits: connect, say the preface, shake hands. Then its owner
reads and writes. Whatever ends it is told to the owner once.
"""

from __future__ import annotations

import os
import ssl
import threading
from typing import TYPE_CHECKING, Protocol, cast

from danaus._net.poller import IN, OUT
from danaus._net.tcp import Ending, TcpDial, tune

if TYPE_CHECKING:
    import socket

    from danaus._net.job_key import JobKey
    from danaus._net.reactor import Reactor

__all__ = ["Owner", "TlsConnection"]

_HANDSHAKE_PATIENCE = 8.0
"""Seconds that whoever has connected to us may take for TLS."""

_WANT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError)


class Owner(Protocol):
    """Who uses a connection. All is called on the driving thread."""

    def opened(self, connection: TlsConnection) -> None:
        """The peer is who it must be; from now on it can be read and written."""
        ...

    def ready(self, connection: TlsConnection, mask: int) -> None:
        """There is something to read, or room to write."""
        ...

    def ended(self, connection: TlsConnection, how: Ending, why: str) -> None:
        """It is over."""
        ...


class TlsConnection:
    """A connection on its way to be, or being, an encrypted one.

    Args:
        number: The owner's number of it.
        reactor: Drives it.
        key: Key of the job that both sides must hold.
        owner: Who uses it.
    """

    def __init__(self, number: int, reactor: Reactor, key: JobKey, owner: Owner) -> None:
        self.number = number
        self._reactor = reactor
        self._key = key
        self._owner = owner
        self._sock: socket.socket | None = None
        self._fd = -1
        self._tls: ssl.SSLSocket | None = None
        self._dial: TcpDial | None = None
        self._where = ""
        self._guard = threading.Lock()
        """Held while the socket is used: another thread must not close it meanwhile."""
        self._over = False
        self.is_connected = False
        """Whether the peer's host has answered."""
        self.is_open = False
        """Whether the handshake is done."""

    # making it

    def dial(self, address: str, preface: bytes) -> None:
        """Connect to ``tcp://HOST:PORT``, say ``preface``, then speak TLS as a client."""
        self._where = address
        self._dial = TcpDial(
            address, self._reactor, lambda sock: self._connected(sock, preface), self.fail
        )

    def _connected(self, sock: socket.socket, preface: bytes) -> None:
        self._sock = sock
        try:
            sock.sendall(preface)
            self._tls = self._key.client.wrap_socket(sock, do_handshake_on_connect=False)
        except OSError as error:
            self.fail(Ending.LOST, str(error))
            return
        self._sock = self._tls
        self._fd = self._tls.fileno()
        # No limit of time from here on: the peer's agent holds the connection for a process that
        # may still have to start, and the kernel sees to it that the host is alive.
        self.is_connected = True
        self._reactor.register(self._fd, self, IN | OUT)
        self._shake()

    def accept(self, sock: socket.socket) -> None:
        """Speak TLS as a server on a connection whose preface was read."""
        self._where = "the peer"
        self._sock = sock
        self._fd = sock.fileno()
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        try:
            tune(sock)
            self._tls = self._key.server.wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
        except OSError as error:  # it is gone already
            self._reactor.call_soon(lambda error=error: self.fail(Ending.LOST, str(error)))
            return
        self._sock = self._tls
        self._reactor.register(self._fd, self, IN | OUT)
        self._watch_handshake()

    def _watch_handshake(self) -> None:
        def check() -> None:
            if not self.is_open and not self._over:
                self.fail(Ending.LOST, f"{self._where} did not finish its handshake")

        self._reactor.call_later(_HANDSHAKE_PATIENCE, check)

    def on_ready(self, mask: int) -> None:
        """The socket is readable, writable, or ended."""
        if self._over:
            return
        if self.is_open:
            self._owner.ready(self, mask)
        else:
            self._shake()

    def _shake(self) -> None:
        tls = cast("ssl.SSLSocket", self._tls)
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._reactor.modify(self._fd, IN)
            return
        except ssl.SSLWantWriteError:
            self._reactor.modify(self._fd, OUT)
            return
        except ssl.SSLCertVerificationError as error:
            why = f"{self._where} does not hold the key of this job ({error.verify_message})"
            self.fail(Ending.STRANGER, why)
            return
        except OSError as error:
            self.fail(Ending.LOST, f"{self._where} closed the connection ({_text(error)})")
            return
        except ValueError as error:  # the socket was reset between two steps
            self.fail(Ending.LOST, str(error))
            return
        self._reactor.modify(self._fd, IN)
        self.is_open = True
        self._owner.opened(self)

    # using it

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Write some of ``data``; how many bytes were taken, 0 where there is no room.

        What had no room must be the beginning of what is written next.

        Raises:
            OSError: It is broken.
        """
        with self._guard:
            if self._tls is None:
                raise OSError("the connection was closed")
            try:
                return self._tls.send(data)
            except _WANT:
                return 0

    def receive(self, buffer: memoryview) -> int:
        """Read into ``buffer``; how many bytes, -1 where there are none now, 0 at the end.

        Raises:
            OSError: It is broken.
        """
        with self._guard:
            if self._tls is None:
                raise OSError("the connection was closed")
            try:
                return self._tls.recv_into(buffer)
            except _WANT:
                return -1

    def watch(self, *, room: bool) -> None:
        """Have `Owner.ready` called for what can be read, and for room to write if wanted."""
        with self._guard:
            if self._fd >= 0:
                self._reactor.modify(self._fd, IN | OUT if room else IN)

    # the end

    def fail(self, how: Ending, why: str) -> None:
        """End it, and tell its owner."""
        if self._over:
            return
        self.close()
        self._owner.ended(self, how, why)

    def _let_go(self) -> None:
        if self._dial is not None:
            self._dial.close()
        with self._guard:
            if self._fd >= 0:
                self._reactor.unregister(self._fd)
                self._fd = -1
            if self._sock is not None:
                self._sock.close()
                self._sock = self._tls = None

    def close(self) -> None:
        """Close it; the owner is told nothing."""
        self._over = True
        self.is_open = False
        self._let_go()

    def abandon(self) -> None:
        """In a forked child: let go of the connection, which is the parent's."""
        self._over = True
        if self._sock is not None:
            descriptor = self._sock.detach()
            if descriptor >= 0:
                os.close(descriptor)


def _text(error: OSError) -> str:
    return getattr(error, "reason", "") or error.strerror or str(error)
