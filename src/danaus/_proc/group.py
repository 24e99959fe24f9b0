"""Who a cast is for, what it is called, and what is kept of it while it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from danaus._core.cast import Relay

if TYPE_CHECKING:
    from danaus._net.shared import SharedPayload
    from danaus._wire.tree_frames import Branch, CastHead

__all__ = ["Cast", "Group", "cast_name", "port_of", "root_of"]


class Group:
    """Who is called, as far as they are on this host and below it."""

    __slots__ = ("below", "branch", "expected", "id", "relay", "root")

    def __init__(self, name: str, root: str, branch: Branch) -> None:
        self.id = name
        self.root = root
        """The sending process."""
        self.branch = branch
        self.below = {one.host: one for one in _descendants(branch)}
        """The hosts below this one, by address."""
        self.relay = _relay(branch)
        self.expected = {host: tuple(one.ranks) for host, one in self.below.items()}

    def here(self) -> list[tuple[int, str]]:
        """(rank, process) of those on this host."""
        return list(zip(self.branch.ranks, self.branch.procs, strict=True))


def _descendants(branch: Branch) -> list[Branch]:
    found: list[Branch] = []
    left = list(branch.below)
    while left:
        one = left.pop()
        found.append(one)
        left.extend(one.below)
    return found


def _relay(branch: Branch) -> Relay:
    return Relay(branch.host, tuple(_relay(one) for one in branch.below))


class Cast:
    """A cast that is under way: its head and its body, and the group that it is for."""

    __slots__ = ("group", "head", "payload")

    def __init__(self, head: CastHead, group: Group, payload: SharedPayload) -> None:
        self.head = head
        self.group = group
        self.payload = payload

    @property
    def nbytes(self) -> int:
        """Bytes of the body."""
        return self.payload.nbytes + sum(len(part) for part in self.payload.inline)

    def __del__(self) -> None:
        self.payload.close()


def cast_name(root: str, port: int, number: int) -> str:
    """The name of a cast: of one that wants replies, by the port that they go to."""
    return f"{root}|{port}" if port >= 0 else f"{root}#{number}"


def port_of(cast: str) -> int:
    """The port that the replies to a cast go to."""
    return int(cast.rpartition("|")[2])


def root_of(cast: str) -> str:
    """The process that has sent a cast."""
    return cast[: max(cast.rfind("|"), cast.rfind("#"))]
