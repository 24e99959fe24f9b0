"""Casts over a hundred thousand hosts, simulated: the machines of the real agents, without links.

Each host has a `CastRelay` and a `GatherNode`, as an agent has. A message is an entry of a queue;
time stands still unless nothing else is to be done. What is counted (messages, depth, who got what)
is exact; seconds are not simulated here, they are the model's (`benchmarks.scale_model`).

    python -m benchmarks.simulated_hosts --hosts 1000 10000 100000
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from danaus._core import cast as c
from danaus._core import gather as g
from danaus._core import gather_events as e

__all__ = ["Outcome", "SimulatedHosts", "main"]

ROOT = "root"


@dataclass(slots=True)
class Outcome:
    """What a cast came to."""

    delivered: Counter[str] = field(default_factory=Counter[str])
    """Times that each host handed the cast to its procs."""
    replies: Counter[int] = field(default_factory=Counter[int])
    """Times that each rank's reply came to the root."""
    lost: set[int] = field(default_factory=set[int])
    """Ranks that were reported as lost."""
    depth: int = 0
    """Hops to the farthest host."""
    sent: Counter[str] = field(default_factory=Counter[str])
    """Messages that each host has sent."""
    received: Counter[str] = field(default_factory=Counter[str])


class SimulatedHosts:
    """A root and hosts below it, one rank each.

    Args:
        count: Number of hosts.
        fanout: Most hosts that a host passes a cast on to.
        seed: For the choice of those that die.
    """

    def __init__(self, count: int, fanout: int, seed: int = 0) -> None:
        self.names = [f"h{i}" for i in range(count)]
        self.rank = {name: i for i, name in enumerate(self.names)}
        self.plan = c.plan_tree(self.names, fanout, root=ROOT)
        self.random = random.Random(seed)  # no secret
        self.dead: set[str] = set()
        self.outcome = Outcome()
        self._relays: defaultdict[str, c.CastRelay] = defaultdict(lambda: c.CastRelay(""))
        self._nodes: defaultdict[str, g.GatherNode] = defaultdict(lambda: g.GatherNode(""))
        self._queue: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, str]] = []
        self._now = 0.0
        self._neighbours: defaultdict[str, set[str]] = defaultdict(set)
        self._below: dict[str, dict[str, tuple[int, ...]]] = {}
        self._kill_at: dict[int, str] = {}
        self._done = 0

    def kill(self, count: int, within: int) -> list[str]:
        """Let so many hosts die, each after some of the first ``within`` messages."""
        victims = self.random.sample(self.names, count)
        self._kill_at = {self.random.randrange(within): victim for victim in victims}
        return list(self._kill_at.values())

    def cast(self) -> Outcome:
        """Send one cast that wants replies, and run until nothing is left to do."""
        self._arrive(ROOT, None, 0, self.plan)
        while True:
            while self._queue:
                self._queue.popleft()()
                self._done += 1
                victim = self._kill_at.get(self._done)
                if victim is not None:
                    self._die(victim)
            if not self._timers:
                return self.outcome
            self._now, host = heappop(self._timers)
            if host not in self.dead:
                self._gather(host, e.Tick())

    def _die(self, victim: str) -> None:
        self.dead.add(victim)
        for other in self._neighbours.pop(victim, set()):
            self._queue.append(lambda o=other: self._lost(o, victim))

    def _lost(self, host: str, gone: str) -> None:
        if host in self.dead:
            return
        self._casts(host, self._relays[host].handle(c.ChildLost(child=gone), self._now))
        self._gather(host, e.ChildLost(child=gone))

    def _send(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        self.outcome.sent[source] += 1
        self._neighbours[source].add(target)
        self._neighbours[target].add(source)

        def arrive() -> None:
            if source in self.dead:
                return  # what it has written may be lost with it; here it always is
            if target in self.dead:
                self._lost(source, target)
                return
            self.outcome.received[target] += 1
            deliver()

        self._queue.append(arrive)

    def _ranks_below(self, relay: c.Relay) -> dict[str, tuple[int, ...]]:
        known = self._below.get(relay.host)
        if known is None:
            known = self._below[relay.host] = {
                host: (self.rank[host],) for host in relay.hosts()[1:]
            }
        return known

    def _arrive(self, host: str, parent: str | None, depth: int, subtree: c.Relay) -> None:
        self.outcome.depth = max(self.outcome.depth, depth)
        local = {} if host == ROOT else {self.rank[host]: "proc"}
        opened = e.GatherOpened(
            cast_id="cast",
            parent=parent,
            depth=depth,
            subtree=subtree,
            local=local,
            remote=self._ranks_below(subtree),
        )
        self._gather(host, opened)
        arrived = c.CastArrived(
            cast_id="cast",
            parent=parent,
            depth=depth,
            subtree=subtree,
            dests=tuple(local),
            payload=None,
        )
        self._casts(host, self._relays[host].handle(arrived, self._now))

    def _casts(self, host: str, commands: list[c.CastCommand]) -> None:
        for command in commands:
            match command:
                case c.Deliver():
                    self.outcome.delivered[host] += 1
                    self._queue.append(lambda h=host: self._reply(h))
                case c.Forward(child=child, subtree=subtree, depth=depth):
                    self._send(
                        host,
                        child,
                        lambda h=host, k=child, s=subtree, d=depth: self._arrive(k, h, d, s),
                    )
                case c.Acknowledge(parent=parent):
                    event = c.CastAcknowledged(cast_id="cast", child=host)
                    self._send(
                        host,
                        parent,
                        lambda p=parent, v=event: self._casts(
                            p, self._relays[p].handle(v, self._now)
                        ),
                    )
                case c.HostLost():
                    pass  # its rank is reported by the gather, too

    def _reply(self, host: str) -> None:
        if host not in self.dead:
            reply = e.ReplyArrived(cast_id="cast", rank=self.rank[host], payload="done")
            self._gather(host, reply)

    def _gather(self, host: str, event: e.GatherEvent) -> None:
        node = self._nodes[host]
        for command in node.handle(event, self._now):
            self._carry_out(host, command)
        due = node.deadline
        if due is not None:
            heappush(self._timers, (due, host))

    def _carry_out(self, host: str, command: e.GatherCommand) -> None:
        events: tuple[str, e.GatherEvent]
        match command:
            case e.Emit(to=None):
                self.outcome.replies.update(rank for rank, _ in command.entries)
                self.outcome.lost.update(command.lost)
                return
            case e.Emit(to=str(parent)):
                events = (
                    parent,
                    e.BatchArrived(
                        cast_id="cast",
                        child=host,
                        batch=command.batch,
                        since=command.since,
                        entries=command.entries,
                        lost=command.lost,
                    ),
                )
            case e.AcknowledgeBatch(child=child, batch=batch):
                events = (child, e.BatchAcknowledged(cast_id="cast", batch=batch))
            case e.Adopt(child=child, depth=depth):
                events = (child, e.Adopted(cast_id="cast", parent=host, depth=depth))
            case e.CloseGather(child=child):
                events = (child, e.GatherClosed(cast_id="cast", parent=host))
            case _:
                raise AssertionError(command)
        target, event = events
        self._send(host, target, lambda: self._gather(target, event))


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, and print what the root and the busiest host had to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--fanouts", type=int, nargs="+", default=[16])
    parser.add_argument("--kill", type=int, default=0, help="hosts that die meanwhile")
    arguments = parser.parse_args(argv)
    print(
        "| hosts | fan-out | killed | depth | root sends | root receives | busiest host sends | took |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for hosts in arguments.hosts:
        for fanout in arguments.fanouts:
            began = time.perf_counter()
            world: Any = SimulatedHosts(hosts, fanout)
            killed = len(world.kill(arguments.kill, hosts)) if arguments.kill else 0
            out: Outcome = world.cast()
            busiest = max(count for host, count in out.sent.items() if host != ROOT)
            print(
                f"| {hosts} | {fanout} | {killed} | {out.depth} | {out.sent[ROOT]} "
                f"| {out.received[ROOT]} | {busiest} | {time.perf_counter() - began:.1f} s |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
