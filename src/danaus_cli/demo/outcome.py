"""What a run of the demo comes to, as values: the same for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from danaus_cli.demo.plan import Plan
    from danaus_cli.demo.remains import Inventory, Remains

__all__ = ["Death", "Member", "Outcome", "Traffic"]

#: Points of the loss curve in `Outcome.to_dict`.
CURVE_POINTS = 60


@dataclass(frozen=True, slots=True)
class Member:
    """An actor of the run and where it was."""

    role: str
    """"driver", "loader" or "trainer"."""
    rank: int
    host: str
    pid: int
    cpu_s: float
    """Seconds of processor time that its process has used."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the processes of the run have sent, each message counted once."""

    messages: int = 0
    bytes: int = 0
    bulk_bytes: int = 0
    """Of the bytes, or beside them, those that went by shared memory instead of a socket."""

    @staticmethod
    def of(statistics: dict[str, int]) -> Traffic:
        """The part of one process, from its `danaus.actor.statistics`."""
        return Traffic(
            statistics["messages_sent"], statistics["bytes_sent"], statistics["bulk_bytes"]
        )

    def __add__(self, other: Traffic) -> Traffic:
        """Both together."""
        return Traffic(
            self.messages + other.messages,
            self.bytes + other.bytes,
            self.bulk_bytes + other.bulk_bytes,
        )


@dataclass(frozen=True, slots=True)
class Death:
    """A trainer that died on the way and was brought back."""

    rank: int
    host: str
    pid: int
    exit: str
    """Signal or exit code of its process, such as "SIGKILL"."""
    step: int
    """The step that was under way; it was done again."""
    reason: str
    noticed_s: float
    """Seconds from the kill to the failure of the pending call."""
    recovered_s: float
    """Seconds from there until the rank was back with its weights."""
    new_pid: int
    survivor: int
    """The rank that the weights came from."""


@dataclass(slots=True)
class Outcome:
    """All that a run has to tell; filled in as it goes."""

    plan: Plan
    parameters: int = 0
    files: dict[str, int] = field(default_factory=dict[str, int])
    characters: int = 0
    held_out_before: float = 0.0
    held_out_after: float = 0.0
    losses: list[float] = field(default_factory=list[float])
    sample_before: str = ""
    sample_after: str = ""
    digests: list[str] = field(default_factory=list[str])
    members: list[Member] = field(default_factory=list[Member])
    deaths: list[Death] = field(default_factory=list[Death])
    traffic: Traffic = field(default_factory=Traffic)
    start_s: float = 0.0
    training_s: float = 0.0
    stop_s: float = 0.0
    total_s: float = 0.0
    inventory: Inventory | None = None
    remains: Remains | None = None

    @property
    def tokens(self) -> int:
        """Characters that were learned from."""
        return len(self.losses) * self.plan.trainers * self.plan.batch

    @property
    def is_consistent(self) -> bool:
        """Whether all trainers ended with the same weights."""
        return len(set(self.digests)) == 1

    @property
    def is_success(self) -> bool:
        """Whether the model learned, the trainers agree, and nothing is left behind."""
        return (
            self.held_out_after < self.held_out_before and self.is_consistent and not self.remains
        )

    def to_dict(self) -> dict[str, Any]:
        """The run as plain data; ``danaus demo --help`` lists the keys."""
        per_second = 1 / self.training_s if self.training_s else 0.0
        return {
            "plan": asdict(self.plan),
            "text": {"files": self.files, "characters": self.characters},
            "model": {
                "parameters": self.parameters,
                "digest": self.digests[0] if self.digests else "",
                "identical": self.is_consistent,
            },
            "loss": {
                "held_out_before": self.held_out_before,
                "held_out_after": self.held_out_after,
                "curve": _thinned(self.losses, CURVE_POINTS),
            },
            "samples": {"before": self.sample_before, "after": self.sample_after},
            "members": [asdict(member) for member in self.members],
            "deaths": [asdict(death) for death in self.deaths],
            "traffic": asdict(self.traffic),
            "speed": {
                "steps_per_s": len(self.losses) * per_second,
                "tokens_per_s": self.tokens * per_second,
            },
            "seconds": {
                "start": self.start_s,
                "training": self.training_s,
                "stop": self.stop_s,
                "total": self.total_s,
            },
            "left_behind": self._left_behind(),
            "success": self.is_success,
        }

    def _left_behind(self) -> dict[str, Any]:
        inventory, remains = self.inventory, self.remains
        if inventory is None or remains is None:
            return {"checked": False}
        return {
            "checked": bool(inventory.processes),
            "had": {
                "processes": len(inventory.processes),
                "sockets": len(inventory.sockets),
                "files": len(inventory.files),
            },
            "processes": remains.processes,
            "sockets": remains.sockets,
            "files": remains.files,
            "waited_s": remains.waited_s,
        }


def _thinned(values: list[float], points: int) -> list[float]:
    """At most ``points`` means of equal parts of the values."""
    count = min(points, len(values))
    parts = (
        values[len(values) * i // count : len(values) * (i + 1) // count] for i in range(count)
    )
    return [sum(part) / len(part) for part in parts]
