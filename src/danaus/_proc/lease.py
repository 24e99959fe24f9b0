"""A connection by which a client holds a host: the host ends when its lease does, until kept.

It is apart from the links of the runtime and works without one: a job is started, shared and ended
by a few requests with an answer each, which a plain blocking socket does best.
"""

from __future__ import annotations

import os
import secrets
import select
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import msgspec

from danaus._net.dial import connect
from danaus._proc.versions import versions
from danaus._wire import kinds
from danaus._wire.frame import FrameDecoder, encode_small

__all__ = ["HostSilent", "Lease", "Welcome", "greet", "new_lease_id", "wait_welcome"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_READ = 1 << 16
"""Bytes taken from the socket at a time; all that comes are a few short answers."""


class HostSilent(ConnectionError):
    """A host's agent is gone, or does not answer. ``address`` says which."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class Welcome:
    """What an agent says of itself.

    Attributes:
        host: Name of the host, as users see it.
        pid: The agent's process.
        versions: Versions that it runs, from `danaus._proc.versions`.
    """

    host: str
    pid: int
    versions: dict[str, str]


def new_lease_id() -> str:
    """An id for a lease, to be named as owner when its host is started."""
    return f"job-{secrets.token_hex(8)}"


class Lease:
    """One connection to an agent.

    Args:
        address: Path of the agent's socket.
        name: The id that the agent was started with as its owner; by default that of a visitor,
            whose end means nothing to the host.

    Raises:
        HostSilent: Nobody listens there.
    """

    def __init__(self, address: str, name: str = "") -> None:
        self.address = address
        try:
            sock = connect(address, ["hello", name or new_lease_id(), os.getpid(), versions()])
        except OSError as error:
            raise HostSilent(address, f"its socket cannot be used ({error.strerror})") from error
        if sock is None:
            raise HostSilent(address, "nobody listens at its socket")
        self._sock = sock
        self._decoder = FrameDecoder()

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def ask_to_keep(self) -> None:
        """Let the host outlive this lease; it answers with a welcome.

        Raises:
            HostSilent: The agent is gone.
        """
        self._send(kinds.KEEP, [True])

    def ask_to_end(self) -> None:
        """Tell the host to end all that runs on it, then itself.

        Raises:
            HostSilent: The agent is gone.
        """
        self._send(kinds.SHUTDOWN, [])

    def _send(self, kind: int, routing: Sequence[Any]) -> None:
        try:
            self._sock.sendall(encode_small(kind, _encode(routing), b""))
        except OSError as error:
            raise HostSilent(self.address, f"its agent is gone ({error.strerror})") from error

    def receive(self) -> Welcome | None:
        """The next welcome, if what has arrived holds one; reads once, which may wait.

        Raises:
            HostSilent: The agent is gone.
        """
        try:
            data = self._sock.recv(_READ)
        except OSError as error:
            raise HostSilent(self.address, f"its agent is gone ({error.strerror})") from error
        if not data:
            raise HostSilent(self.address, "its agent has ended")
        for frame in self._decoder.feed(data):
            if frame.kind == kinds.WELCOME:
                host, pid, theirs = _decode(frame.routing)[:3]
                return Welcome(host, pid, theirs)
            if frame.kind == kinds.REFUSED:
                raise HostSilent(self.address, _decode(frame.routing)[1]["text"])
        return None

    def close(self) -> None:
        """End the lease; the host ends with it unless it was kept."""
        self._sock.close()


def wait_welcome(leases: Iterable[Lease], timeout: float) -> dict[Lease, Welcome]:
    """Wait until every agent has answered.

    Args:
        leases: To the agents whose answer is due.
        timeout: Seconds for all of them together.

    Raises:
        HostSilent: An agent is gone, or did not answer in time. The first one that is known.
    """
    deadline = time.monotonic() + timeout
    waiting = {lease.fileno(): lease for lease in leases}
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    answers: dict[Lease, Welcome] = {}
    while waiting:
        left = max(0.0, deadline - time.monotonic())
        ready = poll.poll(left * 1000)
        if not ready:
            silent = next(iter(waiting.values()))
            raise HostSilent(silent.address, f"its agent did not answer within {timeout:g} s")
        for descriptor, _ in ready:
            lease = waiting[descriptor]
            answer = lease.receive()
            if answer is not None:
                answers[lease] = answer
                poll.unregister(descriptor)
                del waiting[descriptor]
    return answers


def greet(addresses: Sequence[str], timeout: float) -> list[Welcome]:
    """Visit agents, and return what each says of itself.

    Args:
        addresses: Paths of their sockets.
        timeout: Seconds for all of them together.

    Raises:
        HostSilent: An agent is gone, or did not answer in time. The first one that is known.
    """
    with ExitStack() as stack:
        leases = [stack.enter_context(closing(Lease(address))) for address in addresses]
        answers = wait_welcome(leases, timeout)
    return [answers[lease] for lease in leases]
