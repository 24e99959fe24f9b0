"""Several hosts on this machine: network namespaces, joined by a bridge.

Each host has addresses of its own and reaches the others over TCP only. They share processes and
files with this machine, so a test must reach them by their addresses. As root, on Linux.
"""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkHost:
    """One host of a network."""

    name: str
    """Of its namespace."""
    ipv4: str
    ipv6: str
    network: str
    """IPv4 addresses of the first part of its network, and of the second."""

    @property
    def inside(self) -> list[str]:
        """The beginning of a command that runs there."""
        return ["ip", "netns", "exec", self.name]

    def reset(self) -> None:
        """Break every connection that it has, at both ends; new ones can be made."""
        kill = [*self.inside, "ss", "--kill", "state", "established"]
        subprocess.run(kill, capture_output=True, check=False)

    def cut(self) -> None:
        """Let nothing out any more: it takes packets and answers none, as behind a DROP rule."""
        for half in ("0/25", "128/25"):
            _ip("-n", self.name, "route", "add", "blackhole", f"{self.network}.{half}")

    def heal(self) -> None:
        """Undo `cut`."""
        for half in ("0/25", "128/25"):
            _ip("-n", self.name, "route", "del", "blackhole", f"{self.network}.{half}")


def can_be_made() -> bool:
    """Whether this machine lets us make network namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"dt{os.getpid()}probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return False
    _ip("netns", "del", name)
    return True


@contextmanager
def network(count: int) -> Generator[list[NetworkHost]]:
    """So many hosts (253 at most) that reach each other and this machine."""
    number = os.getpid() % 200 + 20
    base = f"10.{number}.77"
    bridge = f"dt{os.getpid() % 100000}"
    hosts = [
        NetworkHost(f"{bridge}h{i}", f"{base}.{i + 2}", f"fd77:{number:x}::{i + 2:x}", base)
        for i in range(count)
    ]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{base}.1/24", "dev", bridge)
        _ip("addr", "add", f"fd77:{number:x}::1/64", "dev", bridge, "nodad")
        _ip("link", "set", bridge, "up")
        for i, host in enumerate(hosts):
            _add(host, i, bridge)
        yield hosts
    finally:
        for i, host in enumerate(hosts):
            # The kernel takes a namespace apart in its own time. Its cable goes at once, for the
            # next network may take the same names.
            _try("link", "del", f"{bridge}v{i}")
            _try("netns", "del", host.name)
        _try("link", "del", bridge)


def _add(host: NetworkHost, i: int, bridge: str) -> None:
    ours = f"{bridge}v{i}"
    _ip("netns", "add", host.name)
    _ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    _ip("link", "set", ours, "master", bridge, "up")
    _ip("-n", host.name, "addr", "add", f"{host.ipv4}/24", "dev", "eth0")
    _ip("-n", host.name, "addr", "add", f"{host.ipv6}/64", "dev", "eth0", "nodad")
    _ip("-n", host.name, "link", "set", "eth0", "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _try(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
