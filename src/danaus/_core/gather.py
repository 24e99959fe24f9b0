"""Which replies of a cast go up, when, and in which frame?

Replies travel back up the tree on which the cast came down. Each host's agent runs one
`GatherNode`: it collects the replies of its procs and the batches of its children, and emits one
merged frame when its subtree is complete, or when the first reply of the frame has waited for
`flush_after`. A call on 1,000 ranks thus costs its sender one frame per child, not 1,000.

Nothing is lost with a relay. A node keeps what it emitted until its parent says that it is *beyond
loss*: in the hands of the consumer, or acknowledged by the parent's own parent. When a parent
dies, the grandparent adopts (`Adopt`), and the node emits what it kept again. Acknowledgements are
cumulative, so a parent acknowledges only frames before which none is missing (`Emit.since` says
where to begin). Each rank counts once, so what arrives twice is dropped. Of two parents the one
nearer to the root is right, whatever the order of their messages: only ancestors adopt.

Ranks whose proc or host died are reported as lost, in the same frames. A reply that arrives for a
lost rank nevertheless is passed on; the consumer decides what the first word was.

An orphan that nobody adopts for `orphan_after` has nothing to say to anybody: either all above it
had everything, and only the last acknowledgement was lost, or the consumer is gone. It closes.

The consumer's own node has no parent (`parent=None`): what it emits is beyond loss at once, and no
acknowledgement travels. That is all there is on a single host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple, assert_never

from danaus._core.cast import ChildLost, ChildResumed, Relay
from danaus._core.gather_events import (
    AcknowledgeBatch,
    Adopt,
    Adopted,
    BatchAcknowledged,
    BatchArrived,
    CloseGather,
    Emit,
    Entry,
    GatherClosed,
    GatherCommand,
    GatherEvent,
    GatherOpened,
    ProcLost,
    ReplyArrived,
    Tick,
)
from danaus._core.history import History
from danaus._core.recent import Recent

__all__ = ["FLUSH_AFTER", "ORPHAN_AFTER", "GatherNode", "GatherStatistics"]

FLUSH_AFTER = 0.001
"""Seconds that a reply waits for others by default: the procs of one host that were called at
once answer within it, and against a call over a network it does not count."""

ORPHAN_AFTER = 60.0
"""Seconds after the death of its parent in which an ancestor adopts a node, or does not exist:
six times what a partition takes to be noticed (`LivenessTiming.dead_after`)."""

FINISHED_LIMIT = 16384
"""Finished gathers remembered per node, so that a cast that comes again does not open its gather
again, and a late reply of a lost rank is passed on: some seconds of the casts of a busy relay."""


class GatherStatistics(NamedTuple):
    """What one node has done so far. All are counts."""

    open: int
    """Gathers that are not finished here now."""
    waiting: int
    """Ranks that have neither answered nor died, over all open gathers."""
    kept: int
    """Replies emitted that are not beyond loss."""
    replies: int
    """Replies taken, repetitions left out."""
    repeated: int
    """Replies dropped because their rank had answered, or because nobody waits."""
    frames: int
    """Frames emitted, repetitions included."""


class _Gather:
    """One cast's replies at this node."""

    __slots__ = (
        "children", "deadline", "depth", "entries", "flush_after", "kept", "last_batch", "lost",
        "new_lost", "orphan_at", "parent", "seen", "taken", "waiting",
    )  # fmt: skip

    def __init__(self, opened: GatherOpened, flush_after: float) -> None:
        self.parent = opened.parent
        self.depth = opened.depth
        self.flush_after = flush_after
        # Each rank that has not answered, with the proc here, or with the host as a 1-tuple:
        # names of procs and hosts must not be mixed up.
        self.waiting: dict[int, str | tuple[str]] = dict(opened.local)
        for host, ranks in opened.remote.items():
            self.waiting.update(dict.fromkeys(ranks, (host,)))
        self.children: dict[str, Relay] = {child.host: child for child in opened.subtree.children}
        self.lost: set[int] = set()
        self.seen: dict[str, int] = {}  # child -> last batch before which none is missing
        # The next frame, with the highest batch of each child that is in it.
        self.entries: list[Entry] = []
        self.new_lost: set[int] = set()
        self.taken: dict[str, int] = {}
        self.deadline: float | None = None  # None if and only if the next frame is empty
        self.kept: dict[int, tuple[Emit, dict[str, int]]] = {}  # not beyond loss, oldest first
        self.last_batch = 0
        self.orphan_at: float | None = None  # when it closes, if and only if its parent is dead


class GatherNode:
    """The replies that pass through one host.

    Args:
        host: Name of this host, as it stands in the trees.
        flush_after: Seconds that a reply may wait for others; a gather may state its own.
        orphan_after: Seconds that a node waits to be adopted after its parent died.
        remember: Finished gathers to remember (count).
    """

    def __init__(
        self,
        host: str,
        *,
        flush_after: float = FLUSH_AFTER,
        orphan_after: float = ORPHAN_AFTER,
        remember: int = FINISHED_LIMIT,
    ) -> None:
        self.host = host
        self._orphan_after = orphan_after
        self._flush_after = flush_after
        self._gathers: dict[str, _Gather] = {}
        self._due: list[tuple[float, str]] = []  # a heap; an entry whose gather moved on is stale
        self._finished: Recent[str, tuple[str | None, set[int]]] = Recent(remember)  # parent, lost
        self._replies = 0
        self._repeated = 0
        self._frames = 0
        self._history = History(f"gather node on {host!r}")

    def handle(self, event: GatherEvent, now: float) -> list[GatherCommand]:
        """Take one event at ``now`` (seconds); return what the driver must do, in order."""
        if isinstance(event, ReplyArrived):
            return self.reply(event.cast_id, event.rank, event.payload, now)
        out: list[GatherCommand] = []
        if isinstance(event, Tick):
            self._tick(now, out)
        elif isinstance(event, (ProcLost, ChildLost, ChildResumed)):
            self._handle_for_all(event, now, out)
        else:
            self._handle_for_one(event, now, out)
        return out

    def reply(self, cast_id: str, rank: int, payload: object, now: float) -> list[GatherCommand]:
        """Take a reply of a local proc, as `handle` does a `ReplyArrived`, without the event."""
        out: list[GatherCommand] = []
        gather = self._gathers.get(cast_id)
        if gather is None:
            self._pass_late(cast_id, ((rank, payload),), out)
        else:
            self._take(gather, rank, payload)
            self._settle(cast_id, gather, now, out)
        return out

    def _handle_for_one(
        self,
        event: GatherOpened | BatchArrived | BatchAcknowledged | Adopted | GatherClosed,
        now: float,
        out: list[GatherCommand],
    ) -> None:
        self._history.record(now, type(event).__name__, event.cast_id)
        if isinstance(event, GatherOpened) and event.cast_id not in self._gathers:
            self._open(event, now, out)
            return
        gather = self._gathers.get(event.cast_id)
        if gather is None:
            if isinstance(event, BatchArrived):
                self._batch_late(event, out)
            return
        match event:
            case BatchArrived():
                self._batch_arrived(event, gather, now, out)
            case BatchAcknowledged():
                self._batch_acknowledged(event, gather, out)
            case GatherOpened() | Adopted():
                if event.parent is not None and event.depth < gather.depth:
                    gather.parent, gather.depth = event.parent, event.depth
                    gather.orphan_at = None
                    self._emit_again(gather, out)
            case GatherClosed():
                if event.parent == gather.parent:
                    self._close(event.cast_id, gather, out)
            case _:
                assert_never(event)

    def _handle_for_all(
        self, event: ProcLost | ChildLost | ChildResumed, now: float, out: list[GatherCommand]
    ) -> None:
        if isinstance(event, ProcLost):
            self._history.record(now, "ProcLost", event.proc)
            for cast_id, gather in list(self._gathers.items()):
                self._lose_place(event.proc, gather)
                self._settle(cast_id, gather, now, out)
        elif isinstance(event, ChildLost):
            self._history.record(now, "ChildLost", event.child)
            for cast_id, gather in list(self._gathers.items()):
                if event.child == gather.parent and gather.orphan_at is None:
                    gather.orphan_at = now + self._orphan_after
                    heappush(self._due, (gather.orphan_at, cast_id))
                if event.child in gather.children:
                    self._adopt_children(cast_id, gather, event.child, out)
                    self._lose_place((event.child,), gather)
                    self._settle(cast_id, gather, now, out)
        else:
            self._history.record(now, "ChildResumed", event.child)
            # The neighbour may be our parent, our child, or both, in different casts.
            for cast_id, gather in self._gathers.items():
                if event.child == gather.parent:
                    self._emit_again(gather, out)
                elif event.child in gather.children:
                    depth = gather.depth + 1
                    out.append(Adopt(cast_id=cast_id, child=event.child, depth=depth))

    def _open(self, event: GatherOpened, now: float, out: list[GatherCommand]) -> None:
        if event.cast_id in self._finished:
            return  # the cast came again after all its replies were beyond loss
        wait = self._flush_after if event.flush_after is None else event.flush_after
        gather = self._gathers[event.cast_id] = _Gather(event, wait)
        if not gather.waiting:
            self._emit(event.cast_id, gather, out)  # a call on nobody is complete at once
        else:
            self._settle(event.cast_id, gather, now, out)

    def _close(self, cast_id: str, gather: _Gather, out: list[GatherCommand]) -> None:
        del self._gathers[cast_id]
        gather.lost.clear()
        self._remember(cast_id, gather)
        out.extend(CloseGather(cast_id=cast_id, child=child) for child in gather.children)

    def _take(self, gather: _Gather, rank: int, payload: object) -> None:
        if gather.waiting.pop(rank, None) is None:
            if rank not in gather.lost:
                self._repeated += 1
                return
            gather.lost.discard(rank)
            gather.new_lost.discard(rank)
        gather.entries.append((rank, payload))
        self._replies += 1

    @staticmethod
    def _lose_place(place: str | tuple[str], gather: _Gather) -> None:
        """Report the ranks that a proc (or, as a 1-tuple, a host) took with it as lost."""
        ranks = [rank for rank, at in gather.waiting.items() if at == place]
        GatherNode._lose_ranks(ranks, gather)

    @staticmethod
    def _lose_ranks(ranks: Sequence[int], gather: _Gather) -> None:
        for rank in ranks:
            if gather.waiting.pop(rank, None) is not None:
                gather.lost.add(rank)
                gather.new_lost.add(rank)

    @staticmethod
    def _adopt_children(
        cast_id: str, gather: _Gather, child: str, out: list[GatherCommand]
    ) -> None:
        for orphan in gather.children.pop(child).children:
            gather.children[orphan.host] = orphan
            out.append(Adopt(cast_id=cast_id, child=orphan.host, depth=gather.depth + 1))

    def _batch_arrived(
        self, event: BatchArrived, gather: _Gather, now: float, out: list[GatherCommand]
    ) -> None:
        for rank, payload in event.entries:
            self._take(gather, rank, payload)
        self._lose_ranks(event.lost, gather)
        if event.batch:
            seen = max(gather.seen.get(event.child, 0), event.since - 1)
            gather.seen[event.child] = seen + (event.batch == seen + 1)
            self._owe_acknowledgement(event.cast_id, event.child, gather, out)
        self._settle(event.cast_id, gather, now, out)

    def _owe_acknowledgement(
        self, cast_id: str, child: str, gather: _Gather, out: list[GatherCommand]
    ) -> None:
        """Acknowledge a child's batches when all that was in them is beyond loss.

        It is either in the next frame, or in one that was emitted before, or beyond loss already.
        """
        if gather.entries or gather.new_lost:
            gather.taken[child] = gather.seen[child]
        elif gather.kept:
            gather.kept[gather.last_batch][1][child] = gather.seen[child]
        else:
            self._acknowledge(cast_id, {child: gather.seen[child]}, out)

    def _batch_late(self, event: BatchArrived, out: list[GatherCommand]) -> None:
        """Relieve a child whose gather is finished or closed here."""
        self._pass_late(event.cast_id, event.entries, out)
        if event.batch:
            self._acknowledge(event.cast_id, {event.child: event.batch}, out)

    def _pass_late(self, cast_id: str, entries: Sequence[Entry], out: list[GatherCommand]) -> None:
        """Pass on what belongs to ranks that were reported as lost; drop the rest."""
        parent, lost = self._finished.get(cast_id, (None, set[int]()))
        late = tuple(entry for entry in entries if entry[0] in lost)
        self._repeated += len(entries) - len(late)
        if late:
            lost.difference_update(rank for rank, _ in late)
            self._replies += len(late)
            self._frames += 1
            out.append(
                Emit(
                    cast_id=cast_id,
                    to=parent,
                    batch=0,
                    since=0,
                    entries=late,
                    lost=(),
                    complete=True,
                )
            )

    def _batch_acknowledged(
        self, event: BatchAcknowledged, gather: _Gather, out: list[GatherCommand]
    ) -> None:
        done: dict[str, int] = {}
        for batch in [batch for batch in gather.kept if batch <= event.batch]:
            done.update(gather.kept.pop(batch)[1])  # later batches know higher numbers
        self._acknowledge(event.cast_id, done, out)
        self._finish_if_done(event.cast_id, gather)

    @staticmethod
    def _acknowledge(cast_id: str, taken: dict[str, int], out: list[GatherCommand]) -> None:
        out.extend(
            AcknowledgeBatch(cast_id=cast_id, child=child, batch=batch)
            for child, batch in taken.items()
            if batch
        )

    def _settle(self, cast_id: str, gather: _Gather, now: float, out: list[GatherCommand]) -> None:
        """Emit the next frame, or set its deadline, after something may have been added."""
        if not gather.entries and not gather.new_lost:
            return
        if not gather.waiting or gather.flush_after <= 0.0:
            self._emit(cast_id, gather, out)
        elif gather.deadline is None:
            gather.deadline = now + gather.flush_after
            heappush(self._due, (gather.deadline, cast_id))

    def _emit(self, cast_id: str, gather: _Gather, out: list[GatherCommand]) -> None:
        at_consumer = gather.parent is None
        if not at_consumer:
            gather.last_batch += 1
        emit = Emit(
            cast_id=cast_id,
            to=gather.parent,
            batch=gather.last_batch,
            since=next(iter(gather.kept), gather.last_batch),
            entries=tuple(gather.entries),
            lost=tuple(sorted(gather.new_lost)),
            complete=not gather.waiting,
        )
        if gather.orphan_at is None:
            out.append(emit)
            self._frames += 1
        if at_consumer:
            self._acknowledge(cast_id, gather.taken, out)
        else:
            gather.kept[emit.batch] = (emit, gather.taken)
        gather.entries, gather.new_lost, gather.taken = [], set(), {}
        gather.deadline = None
        self._finish_if_done(cast_id, gather)

    def _emit_again(self, gather: _Gather, out: list[GatherCommand]) -> None:
        since = next(iter(gather.kept), 0)
        for emit, _ in gather.kept.values():
            out.append(replace(emit, to=gather.parent, since=since))
        self._frames += len(gather.kept)

    def _finish_if_done(self, cast_id: str, gather: _Gather) -> None:
        if gather.waiting or gather.kept or gather.entries or gather.new_lost:
            return
        del self._gathers[cast_id]
        self._remember(cast_id, gather)

    def _remember(self, cast_id: str, gather: _Gather) -> None:
        if gather.parent is None and not gather.lost:
            return  # nobody sends a local cast again, and nothing more can come of it
        self._finished[cast_id] = (gather.parent, gather.lost)

    def knows(self, cast_id: str) -> bool:
        """Whether the gather is open here, or was, as far as is remembered."""
        return cast_id in self._gathers or cast_id in self._finished

    @property
    def deadline(self) -> float | None:
        """When the next `Tick` is due, in seconds; None if and only if nothing waits."""
        while self._due:
            when, cast_id = self._due[0]
            gather = self._gathers.get(cast_id)
            if gather is not None and when in (gather.deadline, gather.orphan_at):
                return when
            heappop(self._due)
        return None

    def _tick(self, now: float, out: list[GatherCommand]) -> None:
        while (when := self.deadline) is not None and when <= now:
            _, cast_id = heappop(self._due)
            gather = self._gathers[cast_id]
            if when == gather.orphan_at:
                self._close(cast_id, gather, out)
            else:
                self._emit(cast_id, gather, out)

    def statistics(self) -> GatherStatistics:
        """Return the counts. Cost: one pass over the open gathers."""
        gathers = self._gathers.values()
        return GatherStatistics(
            open=len(gathers),
            waiting=sum(len(gather.waiting) for gather in gathers),
            kept=sum(len(emit.entries) for gather in gathers for emit, _ in gather.kept.values()),
            replies=self._replies,
            repeated=self._repeated,
            frames=self._frames,
        )

    def check(self) -> None:
        """Raise `InvariantBroken` if a rule of the machine does not hold."""
        require = self._history.require
        for cast_id, gather in self._gathers.items():
            pending = bool(gather.entries or gather.new_lost)
            require(bool(gather.waiting or gather.kept or pending), f"{cast_id} is not finished")
            require(
                pending == (gather.deadline is not None), f"{cast_id}: what waits has a deadline"
            )
            require(
                gather.lost.isdisjoint(gather.waiting), f"{cast_id}: no lost rank is waited for"
            )
            require(gather.new_lost <= gather.lost, f"{cast_id}: reported ranks are lost")
            require(not gather.kept or gather.parent is not None, f"{cast_id}: kept for a parent")
            require(pending or not gather.taken, f"{cast_id}: only a coming frame takes batches")
            require(cast_id not in self._finished, f"{cast_id} is not both open and finished")

    def __repr__(self) -> str:
        return f"<GatherNode {self.host} {len(self._gathers)} open>"
