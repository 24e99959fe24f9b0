"""How does a protocol behave on a network that delays, drops, repeats, reorders, splits and kills?

`SimNetwork` runs any number of nodes in virtual time, in one thread, deterministically by its seed:
thousands of messages in milliseconds, and a failure that is seen once can be repeated for ever.
A node is a function that takes events; what it wants done it asks of the network:

* `send`: a datagram. It is subject to all `Faults`.
* `send_in_order`: a message of a stream between two nodes, as over a TCP or Unix connection. It
  arrives in order and once, or not at all because one end died; during a partition it waits. The
  survivor of a death is told with `PeerLost`, after whatever still arrives from the dead.
* `wake`: a timer.

Nothing here knows a protocol; `tests/sim` shows how machines are driven with it. When a node or
a check raises, or the test inside `telling`, the exception carries the seed and the last events.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

__all__ = [
    "Arrived",
    "Faults",
    "LinkReset",
    "PeerLost",
    "SimEvent",
    "SimHandler",
    "SimNetwork",
    "Woken",
]

TRACE_LENGTH = 200
"""Events kept for the note on a failure: enough for the story, short enough to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How hostile a network is.

    Args:
        min_delay: Least seconds that a message travels.
        max_delay: Most seconds. Datagrams overtake each other within this range.
        drop: Probability that a datagram is lost.
        duplicate: Probability that a datagram arrives twice.
        straggle: Probability that a message takes ten times as long.
    """

    min_delay: float = 0.001
    max_delay: float = 0.010
    drop: float = 0.0
    duplicate: float = 0.0
    straggle: float = 0.0

    @classmethod
    def hostile(cls, random: Random) -> Faults:
        """Draw a network of which about a third each is calm, bad, and terrible."""
        badness = random.choice([0.0, 0.1, 0.3])
        return cls(
            min_delay=random.choice([0.0, 0.001]),
            max_delay=random.choice([0.002, 0.02, 0.2]),
            drop=badness * random.random(),
            duplicate=badness * random.random(),
            straggle=badness * random.random(),
        )


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message arrived."""

    source: str
    message: object


@dataclass(frozen=True, slots=True)
class Woken:
    """A timer of the node fired."""

    token: object


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A node with which there was a stream is dead; nothing of its stream comes after this."""

    peer: str


@dataclass(frozen=True, slots=True)
class LinkReset:
    """The stream with a living node broke, and began anew; what was on its way may be lost."""

    peer: str


SimEvent: TypeAlias = Arrived | Woken | PeerLost | LinkReset
SimHandler: TypeAlias = Callable[[SimEvent, float], None]
"""Called with an event and the virtual time, in seconds."""


@dataclass(slots=True)
class _Node:
    handler: SimHandler
    check: Callable[[], None] | None
    life: int  # which incarnation: what was meant for an earlier one does not reach this one


@dataclass(slots=True)
class _Action:
    """Something that happens at a time: an event at a node, or a step of the script."""

    node: str = ""
    life: int | None = None  # the incarnation that it is for; None for whichever lives then
    event: SimEvent | None = None
    run: Callable[[], None] | None = None
    stream: _Stream | None = None  # on which the event travels
    cancelled: bool = False


class _Stream:
    """One direction between two nodes."""

    __slots__ = ("free_at", "parked", "travelling")

    def __init__(self) -> None:
        self.free_at = 0.0  # nothing may arrive earlier than what was sent before
        self.travelling: deque[_Action] = deque()
        self.parked: list[object] = []  # sent during a partition


class SimNetwork:
    """A simulated network.

    Args:
        seed: Everything random is drawn from it; the same seed gives the same run, if the nodes
            themselves are deterministic.
        faults: See `Faults`; may be replaced at any time.

    Example:
        >>> network = SimNetwork(seed=7)
        >>> network.add("a", lambda event, now: None)
        >>> network.add("b", lambda event, now: print(f"{event.message} from {event.source}"))
        >>> network.send("a", "b", "hello")
        >>> network.run()
        hello from a
    """

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)  # noqa: S311  # a simulation, not a secret
        self.faults = faults or Faults()
        self.now = 0.0
        self.steps = 0
        self._nodes: dict[str, _Node] = {}
        self._lives = itertools.count()
        self._order = itertools.count()
        self._queue: list[tuple[float, int, _Action]] = []
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._last_words: dict[tuple[str, str], float] = {}  # (dead, peer) -> end of its stream
        self._partitions: list[frozenset[str]] = []
        self._severed: set[frozenset[str]] = set()
        self._trace: deque[tuple[float, str, object]] = deque(maxlen=TRACE_LENGTH)

    def add(
        self, name: str, handler: SimHandler, *, check: Callable[[], None] | None = None
    ) -> None:
        """Add a node, or start a dead one anew.

        Args:
            name: Its name.
            handler: Called with each of its events. It may call the network.
            check: Called after each of its events; raises if an invariant does not hold.

        Raises:
            ValueError: A node of that name is alive.
        """
        if name in self._nodes:
            raise ValueError(f"SimNetwork: node {name!r} is alive; kill it before it starts anew.")
        self._nodes[name] = _Node(handler, check, next(self._lives))
        self._note("start", name)

    def alive(self, name: str) -> bool:
        """Return whether a node lives."""
        return name in self._nodes

    def kill(self, name: str) -> None:
        """End a node at once: its timers and the tail of its streams are lost.

        Those with whom it had streams are told; datagrams to it are dropped until it starts anew.
        Killing the dead does nothing.
        """
        if self._nodes.pop(name, None) is None:
            return
        self._note("kill", name)
        peers: dict[str, None] = {}
        for source, dest in [pair for pair in self._streams if name in pair]:
            peers[dest if source == name else source] = None
            self._end_stream(source, dest)
        for peer in peers:
            self._tell_lost(peer, name)

    def reset_link(self, one: str, other: str) -> None:
        """Break the stream between two living nodes: both lose some of what was on its way.

        Both are told with `LinkReset`, after what still arrives and before what is sent later.
        """
        self._note("reset", (one, other))
        for source, dest in ((one, other), (other, one)):
            stream = self._stream(source, dest)
            self._cut(stream)
            stream.parked.clear()
            self._enqueue_in_order(stream, dest, LinkReset(source))

    def sever(self, one: str, other: str) -> None:
        """Let two living nodes take each other for dead, for ever, as after a long partition.

        Both are told with `PeerLost`. Others still reach both.
        """
        self._note("sever", (one, other))
        self._severed.add(frozenset((one, other)))
        for source, dest in ((one, other), (other, one)):
            self._end_stream(source, dest)
        self._tell_lost(one, other)
        self._tell_lost(other, one)

    def partition(self, *groups: Collection[str]) -> None:
        """Split the network: a node reaches only those in its own group.

        Nodes that are in no group form one together. Replaces an earlier partition.
        """
        self._note("partition", [sorted(group) for group in groups])
        self._repartition([frozenset(group) for group in groups])

    def heal(self) -> None:
        """End the partition; what streams held back is sent on."""
        self._note("heal", "")
        self._repartition([])

    def connected(self, one: str, other: str) -> bool:
        """Return whether nothing is between two nodes."""
        severed = frozenset((one, other)) in self._severed
        return not severed and self._side(one) == self._side(other)

    def send(self, source: str, dest: str, message: object) -> None:
        """Send a datagram: it may be lost, repeated, or overtaken."""
        faults, random = self.faults, self.random
        self._note("send", (source, dest, message))
        if not self.connected(source, dest) or random.random() < faults.drop:
            self._note("drop", (source, dest, message))
            return
        copies = 2 if random.random() < faults.duplicate else 1
        for _ in range(copies):
            action = _Action(node=dest, event=Arrived(source, message))
            self._enqueue(self.now + self._delay(), action)

    def send_in_order(self, source: str, dest: str, message: object) -> None:
        """Send on the stream from ``source`` to ``dest``, which need not be opened.

        If ``dest`` is dead, ``source`` is told, once per call, and the message is gone.
        """
        self._note("send in order", (source, dest, message))
        if dest not in self._nodes or frozenset((source, dest)) in self._severed:
            self._tell_lost(source, dest)
            return
        stream = self._stream(source, dest)
        if self.connected(source, dest):
            self._enqueue_in_order(stream, dest, Arrived(source, message))
        else:
            stream.parked.append(message)

    def wake(self, name: str, when: float, token: object = None) -> None:
        """Send `Woken` to a node at ``when`` (virtual seconds), if it lives until then."""
        action = _Action(node=name, life=self._nodes[name].life, event=Woken(token))
        self._enqueue(max(when, self.now), action)

    def at(self, when: float, run: Callable[[], None]) -> None:
        """Call a step of the test's own script at ``when`` (virtual seconds)."""
        self._enqueue(max(when, self.now), _Action(run=run))

    def step(self) -> bool:
        """Let the next thing happen; return whether there was one.

        Raises:
            Exception: Whatever a node or a check raised, with the seed and the last events noted.
        """
        while self._prepare():
            self.now, _, action = heapq.heappop(self._queue)
            if self._perform(action):
                self.steps += 1
                return True
        return False

    def run(self, *, until: float | None = None, max_steps: int = 1_000_000) -> None:
        """Let things happen until nothing is left to happen, or until ``until``.

        Args:
            until: Virtual seconds at which to stand still; None to go on to the end.
            max_steps: Most events to perform.

        Raises:
            TimeoutError: After ``max_steps`` there was still something to do.
        """
        last = self.steps + max_steps
        while self._prepare() and (until is None or self._queue[0][0] <= until):
            self.step()
            if self.steps >= last:
                error = TimeoutError(f"SimNetwork: not quiet after {max_steps} steps.")
                self._explain(error)
                raise error
        if until is not None:
            self.now = max(self.now, until)

    @contextmanager
    def telling(self) -> Generator[None, None, None]:
        """Note the seed and the last events on an exception of a test's own checks, too.

        Example:
            >>> network = SimNetwork(seed=7)
            >>> with network.telling():
            ...     network.run()
        """
        try:
            yield
        except BaseException as error:
            self._explain(error)
            raise

    def story(self) -> str:
        """Return the seed and the last events as text."""
        lines = [f"{when:.6f} {kind} {what}" for when, kind, what in self._trace]
        head = f"sim seed {self.seed}; repeat with --sim-seed={self.seed}. The last events were:"
        return "\n".join([head, *lines])

    def _prepare(self) -> bool:
        """Bring what happens next to the front; return whether there is anything."""
        while self._queue and self._queue[0][2].cancelled:
            heapq.heappop(self._queue)
        return bool(self._queue)

    def _perform(self, action: _Action) -> bool:
        """Do one thing; return whether anybody was there to do it to."""
        node = self._nodes.get(action.node)
        if action.stream is not None:
            action.stream.travelling.popleft()
        try:
            if action.run is not None:
                action.run()
            elif node is None or action.life not in (None, node.life) or action.event is None:
                return False
            else:
                self._note("event at", (action.node, action.event))
                node.handler(action.event, self.now)
                if node.check is not None:
                    node.check()
        except BaseException as error:
            self._explain(error)
            raise
        return True

    def _explain(self, error: BaseException) -> None:
        """Note the story on an error, unless it is there already."""
        if not any(note.startswith("sim seed") for note in getattr(error, "__notes__", ())):
            error.add_note(self.story())

    def _note(self, kind: str, what: object) -> None:
        self._trace.append((self.now, kind, what))

    def _repartition(self, groups: list[frozenset[str]]) -> None:
        self._partitions = groups
        for (source, dest), stream in self._streams.items():
            if stream.parked and self.connected(source, dest):
                parked, stream.parked = stream.parked, []
                for message in parked:
                    self._enqueue_in_order(stream, dest, Arrived(source, message))

    def _side(self, name: str) -> Collection[str]:
        for group in self._partitions:
            if name in group:
                return group
        return ()

    def _delay(self) -> float:
        faults = self.faults
        delay = self.random.uniform(faults.min_delay, faults.max_delay)
        return delay * 10.0 if self.random.random() < faults.straggle else delay

    def _enqueue(self, when: float, action: _Action) -> None:
        heapq.heappush(self._queue, (when, next(self._order), action))

    def _stream(self, source: str, dest: str) -> _Stream:
        return self._streams.setdefault((source, dest), _Stream())

    def _enqueue_in_order(self, stream: _Stream, dest: str, event: SimEvent) -> None:
        stream.free_at = max(stream.free_at, self.now + self._delay())
        life = self._nodes[dest].life
        action = _Action(node=dest, life=life, event=event, stream=stream)
        stream.travelling.append(action)
        self._enqueue(stream.free_at, action)

    def _cut(self, stream: _Stream) -> None:
        """Lose a random tail of what is on its way."""
        for _ in range(self.random.randint(0, len(stream.travelling))):
            action = stream.travelling.pop()
            if isinstance(action.event, LinkReset):
                stream.travelling.append(action)  # a break is news that is never lost
                break
            action.cancelled = True

    def _end_stream(self, source: str, dest: str) -> None:
        """End a stream for ever, and keep in mind until when something may arrive on it."""
        stream = self._streams.pop((source, dest), None)
        if stream is not None:
            self._cut(stream)
            self._last_words[source, dest] = stream.free_at

    def _tell_lost(self, name: str, peer: str) -> None:
        """Tell a node, if it lives, of a death: after the last that still comes from the dead."""
        node = self._nodes.get(name)
        if node is not None:
            when = max(self._last_words.get((peer, name), 0.0), self.now) + self._delay()
            self._enqueue(when, _Action(node=name, life=node.life, event=PeerLost(peer)))
