"""Connecting over TCP without waiting: names are looked up, addresses tried in their order."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._net.address import parse_tcp
from danaus._net.poller import OUT

if TYPE_CHECKING:
    from danaus._net.reactor import Reactor

__all__ = ["Ending", "TcpDial", "tune"]

_PATIENCE = 4.0
"""Seconds for one address of a peer to answer; then the next one is tried."""


class Ending(Enum):
    """How a connection, or the attempt to make one, ended."""

    LOST = "lost"
    """It broke, or was closed; another one may hold."""
    ABSENT = "absent"
    """The peer's kernel says that nobody listens there."""
    SILENT = "silent"
    """Nothing answers there."""
    STRANGER = "stranger"
    """The peer does not hold the job key."""
    NAMELESS = "nameless"
    """The name of the host has no address."""


def tune(sock: socket.socket) -> None:
    """Set a TCP socket up: small frames at once, and a silent peer is noticed by the kernel.

    The kernel answers for its process, however busy that is, so that only a host or a network
    that is gone counts as silent.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = max(2, round(_config.get("host_dead_after")))
    beats = 5
    each = max(1, seconds // (beats + 1))
    for name, value in (
        ("TCP_KEEPIDLE", max(1, seconds - beats * each)),
        ("TCP_KEEPINTVL", each),
        ("TCP_KEEPCNT", beats),
        ("TCP_USER_TIMEOUT", seconds * 1000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class TcpDial:
    """One attempt to connect.

    Args:
        address: ``tcp://HOST:PORT``.
        reactor: Drives it.
        on_connected: Called with the socket, which is the callee's from then on.
        on_failed: Called instead with how it ended, and why. Neither is called at once, and both
            only on the driving thread.
    """

    def __init__(
        self,
        address: str,
        reactor: Reactor,
        on_connected: Callable[[socket.socket], None],
        on_failed: Callable[[Ending, str], None],
    ) -> None:
        self._address = address
        self._reactor = reactor
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._sock: socket.socket | None = None
        self._places: list[tuple[Any, ...]] = []
        self._attempt = 0
        self._over = False
        host, port = parse_tcp(address)
        try:
            places = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except OSError:
            # Asking for a name may take seconds, and the driving thread never waits.
            threading.Thread(
                target=self._look_up, args=(host, port), name="danaus-names", daemon=True
            ).start()
        else:
            # Never at once: whoever is told of a failure may hold what the caller holds.
            reactor.call_soon(lambda: self._found(places))

    def _look_up(self, host: str, port: int) -> None:
        try:
            places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = f"the name {host!r} of the host has no address: {error}"
            self._reactor.call_soon(lambda: self._fail(Ending.NAMELESS, why))
        else:
            self._reactor.call_soon(lambda: self._found(places))

    def _found(self, places: Sequence[tuple[Any, ...]]) -> None:
        self._places = list(places)
        self._next(Ending.SILENT, "")

    def _next(self, how: Ending, why: str) -> None:
        """Try the next address of the host."""
        self._let_go()
        if self._over:
            return
        if not self._places:
            self._fail(how, why)
            return
        family, kind, protocol, _, place = self._places.pop(0)
        self._attempt += 1
        try:
            sock = self._sock = socket.socket(family, kind, protocol)
        except OSError as error:
            self._fail(Ending.LOST, str(error))
            return
        sock.setblocking(False)  # noqa: FBT003  # it takes no keyword
        tune(sock)
        code = sock.connect_ex(place)
        attempt = self._attempt
        if code in (0, errno.EINPROGRESS):
            self._reactor.register(sock.fileno(), self, OUT)
            self._reactor.call_later(_PATIENCE, lambda: self._too_late(attempt))
        else:
            self._failed(code)

    def _too_late(self, attempt: int) -> None:
        if attempt == self._attempt and self._sock is not None:
            self._next(Ending.SILENT, f"{self._address} does not answer")

    def _failed(self, code: int) -> None:
        refused = code == errno.ECONNREFUSED
        text = "nobody listens at" if refused else f"{os.strerror(code)}:"
        self._next(Ending.ABSENT if refused else Ending.SILENT, f"{text} {self._address}")

    def on_ready(self, _mask: int) -> None:
        """The attempt has come to its end."""
        sock = self._sock
        if sock is None:
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(code)
            return
        self._reactor.unregister(sock.fileno())
        self._sock = None
        self._over = True
        self._on_connected(sock)

    def _fail(self, how: Ending, why: str) -> None:
        if not self._over:
            self._over = True
            self._on_failed(how, why)

    def _let_go(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            self._reactor.unregister(sock.fileno())
            sock.close()

    def close(self) -> None:
        """Give up; nobody is told."""
        self._over = True
        self._let_go()
