"""Which peers are alive, suspected, or dead?

A host that dies ends its links, and that is seen at once. A partition ends nothing: only silence
shows it. So neighbouring agents send each other heartbeats, and a peer that has been silent for
`dead_after` seconds is dead. Everything heard from a peer counts, so a busy link needs no answers.

Silence is counted in *our* running time. If this process was stopped (SIGSTOP, a suspended
laptop, a swapped-out host), its own `Tick` comes late by more than an interval, and the missing
time is nobody's silence: peers get the rest of their time once we run again, and at least one
interval in which to read what has piled up. A clock that goes backwards does not count either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

from danaus._core.history import History

__all__ = [
    "Heard",
    "Liveness",
    "LivenessCommand",
    "LivenessEvent",
    "LivenessStatistics",
    "LivenessTiming",
    "PeerAdded",
    "PeerDead",
    "PeerRecovered",
    "PeerRemoved",
    "PeerSuspected",
    "SendHeartbeat",
    "Tick",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessTiming:
    """How often we speak, and how long we listen. All in seconds.

    Defaults: DESIGN section 6 (an interval of 1 s, dead after 10 s); suspected after three beats.

    Raises:
        ValueError: Not ``0 < interval < suspect_after < dead_after``.
    """

    interval: float = 1.0
    suspect_after: float = 3.0
    dead_after: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 < self.interval < self.suspect_after < self.dead_after:
            raise ValueError(
                "LivenessTiming: 0 < interval < suspect_after < dead_after must hold; got "
                f"interval={self.interval:g}, suspect_after={self.suspect_after:g}, "
                f"dead_after={self.dead_after:g}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAdded:
    """Watch a peer from now on. A peer that is watched already starts afresh."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRemoved:
    """Watch a peer no more: its link ended, or it is not our neighbour any more."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Anything arrived from a peer. From a peer that is not watched it means nothing."""

    peer: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: send it at `Liveness.deadline`."""


LivenessEvent: TypeAlias = PeerAdded | PeerRemoved | Heard | Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    """Send a heartbeat to a peer."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSuspected:
    """A peer is silent; nothing is to be given up yet."""

    peer: str
    silence: float
    """Seconds, of our running time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRecovered:
    """A suspected peer was heard."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDead:
    """A peer is given up and watched no more; a dead peer does not come back under its name."""

    peer: str
    silence: float
    """Seconds, of our running time."""


LivenessCommand: TypeAlias = SendHeartbeat | PeerSuspected | PeerRecovered | PeerDead


class LivenessStatistics(NamedTuple):
    """What one machine sees now, and what it has seen."""

    alive: int
    """Peers that are watched and not suspected (count)."""
    suspected: int
    """Peers that are watched and suspected (count)."""
    dead: int
    """Peers declared dead so far (count)."""
    paused: float
    """Seconds in which this process did not run, so far."""


class Liveness:
    """The peers of one agent.

    Args:
        now: Seconds.
        timing: See `LivenessTiming`.
        jitter: Returns the seconds by which the next beat is moved, so that 1,000 agents do not
            beat at once. Its absolute value should stay below half an interval.
    """

    def __init__(
        self,
        now: float,
        timing: LivenessTiming | None = None,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._timing = timing or LivenessTiming()
        self._jitter = jitter
        self._now = now  # when we ran last
        self._running = 0.0  # seconds that we have been running; silence is measured in it
        self._next_beat = now + self._timing.interval
        self._judge_from = now  # nobody is declared anything before
        self._graced = -self._timing.dead_after  # value of _running at the last grace
        self._heard: dict[str, float] = {}  # peer -> value of _running when last heard
        self._suspected: set[str] = set()
        self._dead = 0
        self._paused = 0.0
        self._history = History("liveness")

    def handle(self, event: LivenessEvent, now: float) -> list[LivenessCommand]:
        """Take one event at ``now`` (seconds); return what the driver must do, in order."""
        self._advance(now)
        match event:
            case Heard():
                return self.heard(event.peer, now)
            case Tick():
                return self._tick(now)
            case PeerAdded():
                self._history.record(now, "PeerAdded", event.peer)
                self._heard[event.peer] = self._running
                self._suspected.discard(event.peer)
                return [SendHeartbeat(peer=event.peer)]
            case PeerRemoved():
                self._history.record(now, "PeerRemoved", event.peer)
                self._forget(event.peer)
                return []
            case _:
                assert_never(event)

    @property
    def deadline(self) -> float:
        """When the next `Tick` is due, in seconds."""
        return self._next_beat

    def _advance(self, now: float) -> None:
        """Count the time since the last event, unless we did not run in it."""
        passed = now - self._now
        if now - self._next_beat > self._timing.interval:
            # We ran until the beat was due at most; a beat that is only a little late may be
            # due to load, and must count, or a busy agent would never declare anybody dead.
            ran = max(self._next_beat - self._now, 0.0)
            self._history.record(now, "paused", f"{passed - ran:.3f}")
            self._paused += passed - ran
            passed = ran
            self._next_beat = now  # the pause is accounted for: do not count it twice
            # One grace per dead_after: an agent that is always late must still see who died.
            if self._running + ran - self._graced >= self._timing.dead_after:
                self._graced = self._running + ran
                self._judge_from = now + self._timing.interval
        elif passed < 0.0:
            self._history.record(now, "clock went back", f"{-passed:.3f}")
            self._next_beat += passed
            self._judge_from += passed
            passed = 0.0
        self._running += passed
        self._now = now

    def heard(self, peer: str, now: float) -> list[LivenessCommand]:
        """Take a `Heard`, as `handle` does, without the event: this is called for each frame."""
        self._advance(now)
        if peer not in self._heard:
            return []
        self._heard[peer] = self._running
        if peer not in self._suspected:
            return []
        self._suspected.discard(peer)
        return [PeerRecovered(peer=peer)]

    def _tick(self, now: float) -> list[LivenessCommand]:
        if now < self._next_beat:
            return []
        self._next_beat = now + self._timing.interval + self._jitter()
        out: list[LivenessCommand] = []
        if now >= self._judge_from:
            self._judge(now, out)
        out.extend(SendHeartbeat(peer=peer) for peer in self._heard)
        return out

    def _judge(self, now: float, out: list[LivenessCommand]) -> None:
        timing = self._timing
        for peer, heard in list(self._heard.items()):
            silence = self._running - heard
            if silence >= timing.dead_after:
                self._history.record(now, "PeerDead", peer, f"{silence:.3f}")
                self._forget(peer)
                self._dead += 1
                out.append(PeerDead(peer=peer, silence=silence))
            elif silence >= timing.suspect_after and peer not in self._suspected:
                self._suspected.add(peer)
                out.append(PeerSuspected(peer=peer, silence=silence))

    def _forget(self, peer: str) -> None:
        self._heard.pop(peer, None)
        self._suspected.discard(peer)

    def statistics(self) -> LivenessStatistics:
        """Return the counts; cheap."""
        return LivenessStatistics(
            alive=len(self._heard) - len(self._suspected),
            suspected=len(self._suspected),
            dead=self._dead,
            paused=self._paused,
        )

    def check(self) -> None:
        """Raise `InvariantBroken` if a rule of the machine does not hold."""
        require = self._history.require
        require(self._suspected <= self._heard.keys(), "only watched peers are suspected")
        latest = max(self._heard.values(), default=0.0)
        require(latest <= self._running, "nobody was heard in the future")
        oldest = min(self._heard.values(), default=self._running)
        most = self._timing.dead_after + 5 * self._timing.interval
        require(self._running - oldest <= most, "a silent peer is declared dead in time")

    def __repr__(self) -> str:
        return f"<Liveness {len(self._heard)} peers, {len(self._suspected)} suspected>"
