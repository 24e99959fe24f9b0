"""How is a transport named, and what does the key ``default_transport`` hold?

A transport is either a kind of channel (`ChannelTransport`) or an address to bind. `BindSpec`
holds one of both, and its ``text`` is what travels and what the runtime reads: ``"unix"``,
``"tcp"``, ``"tcp://10.0.0.1:26600"``.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["BindSpec", "ChannelTransport"]

_SCHEMES = ("tcp", "tls", "metatls", "ipc", "unix")
_MAX_PORT = 65_535


class ChannelTransport(Enum):
    """A kind of channel between processes. The value is its canonical text.

    Sockets between hosts are always authenticated and encrypted here, so that the plain and the
    TLS names of one address family mean the same.
    """

    Unix = "unix"
    TcpWithLocalhost = "tcp(localhost)"
    TcpWithHostname = "tcp"
    MetaTlsWithHostname = "metatls(hostname)"
    MetaTlsWithIpV6 = "metatls(ipv6)"
    Tls = "tls"
    Local = "local"


_ALIASES = {"ipc": "unix", "tcp(hostname)": "tcp", "metatls": "metatls(hostname)"}


class BindSpec:
    """A transport by kind or by address; immutable, compared by its text.

    Args:
        spec: A `ChannelTransport`, its text (``"tcp"``, ``"tcp(localhost)"``, ``"unix"``,
            ``"ipc"``), or an address: ``"tcp://host:port"``, ``"tcp://*:port"``,
            ``"ipc:///path"``, or ``"dial@bind"`` where both are addresses.

    Raises:
        TypeError: ``spec`` is none of these types.
        ValueError: The text names no transport.

    Example:
        >>> BindSpec("tcp") == BindSpec(ChannelTransport.TcpWithHostname)
        True
    """

    __slots__ = ("text",)

    text: str
    """Canonical text; ``BindSpec(spec.text) == spec``."""

    def __init__(self, spec: ChannelTransport | str) -> None:
        object.__setattr__(self, "text", _canonical(spec))

    @property
    def transport(self) -> ChannelTransport | None:
        """The kind of channel, None if and only if an address was given."""
        return None if "://" in self.text else ChannelTransport(self.text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"BindSpec is immutable: cannot set {name!r}. Make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"BindSpec is immutable: cannot delete {name!r}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BindSpec) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[BindSpec], tuple[str]]:
        return BindSpec, (self.text,)

    def __repr__(self) -> str:
        return f"BindSpec({self.text!r})"


def _canonical(spec: object) -> str:
    """The one text for everything that names the same transport."""
    if isinstance(spec, ChannelTransport):
        return spec.value
    if not isinstance(spec, str):
        raise TypeError(
            f"expected a transport, got {type(spec).__name__}. "
            "Pass a ChannelTransport, a BindSpec or a text such as 'tcp'."
        )
    text = _ALIASES.get(spec, spec)
    if any(text == transport.value for transport in ChannelTransport):
        return text
    # "dial@bind" gives the address that peers use and the one that is bound.
    if "://" in text and all(_is_address(part) for part in _dial_and_bind(text)):
        return text
    raise ValueError(
        f"{text[:80]!r} names no transport. Use 'unix', 'tcp', 'tcp(localhost)', or an address "
        "such as 'tcp://0.0.0.0:26600' or 'ipc:///tmp/worker.sock'."
    )


def _dial_and_bind(text: str) -> list[str]:
    """Both halves of ``dial@bind``; an ``@`` within a path separates nothing."""
    dial, at, bind = text.partition("@")
    return [dial, bind] if at and "://" in bind else [text]


def _is_address(text: str) -> bool:
    """Whether the text has a known scheme and the parts that the scheme needs."""
    scheme, _, rest = text.partition("://")
    if scheme not in _SCHEMES or not rest:
        return False
    if scheme in ("ipc", "unix"):
        return True
    host, _, port = rest.rpartition(":")
    digits = port.removeprefix("fd")
    if not (host and digits.isascii() and digits.isdigit()):
        return False
    # Cut first: int() refuses thousands of digits with an error of its own.
    return port.startswith("fd") or int(digits[:6]) <= _MAX_PORT
