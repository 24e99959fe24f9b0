"""Addresses of agents: what they mean, and which one to tell others.

An address is the path of a Unix socket, or ``tcp://HOST:PORT`` (``tcp://[::1]:26600`` for IPv6).
"""

from __future__ import annotations

import socket
from itertools import pairwise
from typing import NamedTuple

__all__ = ["TcpAddress", "is_tcp", "parse_tcp", "reachable_address", "tcp_address"]

_TCP = "tcp://"
_MOST = 65_535

_ANY = ("*", "0.0.0.0", "::", "")  # noqa: S104  # recognised, not bound


class TcpAddress(NamedTuple):
    """Host and port of a TCP address."""

    host: str
    """A name, an IPv4 or an IPv6 address (without brackets); ``*`` for all of this host."""
    port: int

    def __str__(self) -> str:
        return tcp_address(self.host, self.port)

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses of this host: good for listening only."""
        return self.host in _ANY


def is_tcp(address: str) -> bool:
    """Whether this is a TCP address, not the path of a Unix socket."""
    return address.startswith(_TCP)


def tcp_address(host: str, port: int) -> str:
    """The address as text."""
    return f"{_TCP}[{host}]:{port}" if ":" in host else f"{_TCP}{host}:{port}"


def parse_tcp(address: str) -> TcpAddress:
    """Host and port of ``tcp://HOST:PORT``.

    Raises:
        ValueError: The text is no such address.

    Example:
        >>> parse_tcp("tcp://[fd00::1]:26600")
        TcpAddress(host='fd00::1', port=26600)
    """
    host, colon, port = address.removeprefix(_TCP).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    fits = is_tcp(address) and colon and host and port.isascii() and port.isdigit()
    if not fits or len(port) > 5 or int(port) > _MOST:  # noqa: PLR2004  # digits of _MOST
        raise ValueError(
            f"{address[:100]!r} is not of the form tcp://HOST:PORT (IPv6: tcp://[ADDRESS]:PORT), "
            f"with a port from 0 to {_MOST}"
        )
    return TcpAddress(host, int(port))


def reachable_address() -> str:
    """An address of this host that others can reach, as far as this host can tell.

    The host's name is right only where it does not resolve to the loopback, as it does on many
    machines (127.0.1.1); then it is the address from which this host speaks to others.
    """
    name = socket.gethostname()
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(name, None)]
    except OSError:
        found = []
    for address in found:
        if not _is_loopback(address):
            return address
    for family, outside in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Connecting a datagram socket sends nothing: it only asks the kernel for the way.
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((outside, 9))
                address = str(probe.getsockname()[0])
        except OSError:
            continue
        if not _is_loopback(address):
            return address
    return _first_of_interfaces() or "127.0.0.1"


def _first_of_interfaces() -> str:
    """The first IPv4 address of an interface that is not the loopback, where Linux tells."""
    try:
        with open("/proc/net/fib_trie", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    for before, line in pairwise(lines):
        if "/32 host LOCAL" in line:
            address = before.rpartition(" ")[2]
            if not _is_loopback(address):
                return address
    return ""


def _is_loopback(address: str) -> bool:
    address = address.partition("%")[0]
    return address.startswith(("127.", "fe80:")) or address in ("::1", "0.0.0.0", "::")  # noqa: S104
