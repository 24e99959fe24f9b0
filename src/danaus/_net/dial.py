"""Connecting to an agent: what a connection is for stands in its preface."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Any

from danaus._net.address import is_tcp
from danaus._net.local_link import LocalLink
from danaus._net.preface import encode_local

if TYPE_CHECKING:
    from danaus._net.link import Link, OnFrame, OnLost
    from danaus._net.reactor import Reactor

__all__ = ["connect", "describe_limit", "open_link"]


def describe_limit(error: OSError) -> str:
    """The text of ``error``; where it is the limit of open files, with that and the remedy."""
    text = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        import resource  # only on the way to an error

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        text += f": process {os.getpid()} may have {soft}. Raise the limit with ulimit -n, at most {hard}"
    return text


def connect(address: str, wish: list[Any]) -> socket.socket | None:
    """Connect to an agent and say what is wanted; None when nobody is there.

    Args:
        address: Path of the agent's socket.
        wish: What `danaus._proc.doorway` understands, such as ``["dial", from, to]``.

    Raises:
        OSError: This process may open no more files; the text says how many it may.
    """
    try:
        sock = socket.socket(socket.AF_UNIX)
    except OSError as error:
        raise OSError(error.errno, describe_limit(error)) from None
    try:
        sock.connect(address)
        sock.sendall(encode_local(wish))
    except (ConnectionError, FileNotFoundError):
        sock.close()
        return None
    return sock


def open_link(  # noqa: PLR0913  # what a link needs
    address: str,
    wish: list[Any],
    reactor: Reactor,
    on_frame: OnFrame,
    on_lost: OnLost,
    peer: str = "",
    *,
    may_wait: bool = True,
) -> Link | None:
    """Connect to an agent, say what is wanted, and make a link of the connection.

    Returns:
        The link, which can be written to at once; None when nobody is there. Where an address of
        another host leads is known only later, when ``on_lost`` is called.

    Raises:
        JobKeyError: The host is reached with a job key, and none is known for it.
        OSError: This process may open no more files; the text says how many it may.
    """
    if is_tcp(address):
        from danaus._net.remote_link import RemoteLink  # TLS is heavy, and often not needed

        return RemoteLink.dial(address, wish, reactor, on_frame, on_lost, peer, may_wait=may_wait)
    sock = connect(address, wish)
    if sock is None:
        return None
    return LocalLink(sock, reactor, on_frame, on_lost, peer, may_wait=may_wait)
