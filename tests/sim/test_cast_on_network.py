"""A cast reaches every living proc once, and every reply or death reaches the caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from danaus._core import cast as c
from danaus._core import gather_events as g
from danaus._core.gather import GatherNode
from danaus._core.inbox import Inbox
from danaus.testing.network import Arrived, Faults, LinkReset, PeerLost, SimEvent, SimNetwork, Woken

pytestmark = pytest.mark.timeout(240)

ROOT = "root"


class Proc:
    """A proc of a host: it delivers casts in order, and answers each after a while."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.inbox: Inbox[int] = Inbox()
        self.delivered: list[int] = []


class Agent:
    """The agent of one host: a relay, a gather node, and the procs."""

    def __init__(self, world: World, host: str, procs: list[Proc]) -> None:
        self.world = world
        self.network = world.network
        self.host = host
        self.relay = world.relay_kind(host)
        self.gather = world.gather_kind(host)
        self.procs = {proc.rank: proc for proc in procs}
        self.network.add(host, self.on_event, check=self.check)

    def check(self) -> None:
        self.relay.check()
        self.gather.check()

    def on_event(self, event: SimEvent, now: float) -> None:
        match event:
            case Arrived(source=source):
                message: Any = event.message
                self.on_message(source, message, now)
            case Woken(token=("reply", str(cast_id), int(rank))):
                if rank in self.procs:
                    payload = (cast_id, rank)
                    self.perform(self.gather.reply(cast_id, rank, payload, now), now)
            case Woken():
                self.perform(self.gather.handle(g.Tick(), now), now)
            case PeerLost(peer=peer):
                self.on_lost(peer, now)
            case LinkReset(peer=peer):
                resumed = c.ChildResumed(child=peer)
                self.perform(self.relay.handle(resumed, now), now)
                self.perform(self.gather.handle(resumed, now), now)

    def on_lost(self, peer: str, now: float) -> None:
        lost = c.ChildLost(child=peer)
        self.perform(self.gather.handle(lost, now), now)
        self.perform(self.relay.handle(lost, now), now)

    def on_message(self, source: str, message: Any, now: float) -> None:
        match message:
            case c.Forward():
                self.on_cast(source, message.cast_id, message.depth, message.subtree, now)
            case c.Acknowledge():
                event = c.CastAcknowledged(cast_id=message.cast_id, child=source)
                self.perform(self.relay.handle(event, now), now)
            case g.Emit():
                event = g.BatchArrived(
                    cast_id=message.cast_id,
                    child=source,
                    batch=message.batch,
                    since=message.since,
                    entries=message.entries,
                    lost=message.lost,
                )
                self.perform(self.gather.handle(event, now), now)
            case g.AcknowledgeBatch():
                event = g.BatchAcknowledged(cast_id=message.cast_id, batch=message.batch)
                self.perform(self.gather.handle(event, now), now)
            case g.Adopt():
                event = g.Adopted(cast_id=message.cast_id, parent=source, depth=message.depth)
                self.perform(self.gather.handle(event, now), now)
            case g.CloseGather():
                event = g.GatherClosed(cast_id=message.cast_id, parent=source)
                self.perform(self.gather.handle(event, now), now)

    def on_cast(
        self, source: str | None, cast_id: str, depth: int, tree: c.Relay, now: float
    ) -> None:
        # A proc that died before the cast came here is not in `procs`, but the caller counts it.
        procs = {rank: self.procs.get(rank) for rank in self.world.ranks[self.host]}
        opened = g.GatherOpened(
            cast_id=cast_id,
            parent=source,
            depth=depth,
            subtree=tree,
            local={rank: proc.name if proc else "dead" for rank, proc in procs.items()},
            remote={host: self.world.ranks[host] for host in tree.hosts()[1:]},
            flush_after=self.world.flush_after,
        )
        self.perform(self.gather.handle(opened, now), now)
        if not all(procs.values()):
            self.perform(self.gather.handle(g.ProcLost(proc="dead"), now), now)
        arrived = c.CastArrived(
            cast_id=cast_id,
            parent=source,
            depth=depth,
            subtree=tree,
            dests=tuple(self.procs),
            payload=int(cast_id),
        )
        self.perform(self.relay.handle(arrived, now), now)

    def perform(self, commands: Sequence[Any], now: float) -> None:
        for command in commands:
            match command:
                case c.Deliver():
                    self.deliver(command, now)
                case c.Forward() | g.Adopt() | g.AcknowledgeBatch() | g.CloseGather():
                    self.network.send_in_order(self.host, command.child, command)
                case c.Acknowledge():
                    self.network.send_in_order(self.host, command.parent, command)
                case g.Emit(to=None):
                    self.world.consume(command)
                case g.Emit(to=str(parent)):
                    self.network.send_in_order(self.host, parent, command)
        deadline = self.gather.deadline
        if deadline is not None:
            self.network.wake(self.host, deadline, "flush")

    def deliver(self, command: c.Deliver, now: float) -> None:
        for rank in command.dests:
            proc = self.procs.get(rank) if isinstance(rank, int) else None
            if proc is not None:
                for number in proc.inbox.accept(
                    "caller", int(command.cast_id), int(command.cast_id)
                ):
                    assert number == len(proc.delivered), f"rank {rank}: {proc.delivered}, {number}"
                    proc.delivered.append(number)
                    think = self.network.random.choice([0.0, 0.001, 0.1, 5.0])
                    self.network.wake(self.host, now + think, ("reply", str(number), rank))

    def kill_proc(self, rank: int) -> None:
        proc = self.procs.pop(rank)
        now = self.network.now
        self.perform(self.gather.handle(g.ProcLost(proc=proc.name), now), now)


class World:
    def __init__(
        self,
        seed: int,
        hosts: int,
        relay_kind: type[c.CastRelay] = c.CastRelay,
        gather_kind: type[GatherNode] = GatherNode,
    ) -> None:
        self.network = SimNetwork(seed)
        self.random = self.network.random
        self.network.faults = Faults.hostile(self.random)
        self.relay_kind = relay_kind
        self.gather_kind = gather_kind
        self.flush_after = self.random.choice([None, 0.0, 0.05])
        self.fanout = self.random.choice([2, 3, 16])
        self.hosts = [f"host {n}" for n in range(hosts)]
        self.ranks: dict[str, list[int]] = {ROOT: []}
        self.casts = 0
        self.replied: dict[str, dict[int, object]] = defaultdict(dict)
        self.lost: dict[str, set[int]] = defaultdict(set)
        self.complete: set[str] = set()
        self.agents = {ROOT: Agent(self, ROOT, [])}
        self.dead_ranks: set[int] = set()
        self.cut_off: set[str] = set()
        count = 0
        for host in self.hosts:
            procs = [Proc(f"proc {rank}", rank) for rank in range(count, count + self.per_host())]
            count += len(procs)
            self.ranks[host] = [proc.rank for proc in procs]
            self.agents[host] = Agent(self, host, procs)

    def per_host(self) -> int:
        return self.random.choice([1, 1, 3])

    def call(self) -> None:
        """Call all ranks, as the caller's agent does."""
        plan = c.plan_tree(self.hosts, self.fanout, root=ROOT)
        cast_id = str(self.casts)
        self.casts += 1
        self.agents[ROOT].on_cast(None, cast_id, 0, plan, self.network.now)

    def consume(self, emit: g.Emit) -> None:
        for rank, payload in emit.entries:
            assert payload == (emit.cast_id, rank), f"rank {rank} got the reply {payload}"
            assert rank not in self.replied[emit.cast_id], f"rank {rank} replied twice"
            self.replied[emit.cast_id][rank] = payload
        assert self.dead_ranks.issuperset(emit.lost), f"living ranks {emit.lost} reported as lost"
        self.lost[emit.cast_id].update(emit.lost)
        if emit.complete:
            self.complete.add(emit.cast_id)

    def disturb(self) -> None:
        what = self.random.random()
        host = self.random.choice(self.hosts)
        alive = self.network.alive(host)
        if what < 0.4 and alive:
            self.dead_ranks.update(self.ranks[host])
            self.network.kill(host)
        elif what < 0.6 and alive and self.agents[host].procs:
            rank = self.random.choice(list(self.agents[host].procs))
            self.dead_ranks.add(rank)
            self.agents[host].kill_proc(rank)
        elif what < 0.8 and alive:
            other = self.random.choice([name for name in self.agents if name != host])
            if self.network.alive(other):
                self.disturb_link(host, other)
        elif what < 0.9:
            group = self.random.sample(self.hosts, self.random.randint(0, len(self.hosts)))
            self.network.partition(group)
            self.network.at(self.network.now + self.random.random(), self.network.heal)

    def disturb_link(self, host: str, other: str) -> None:
        if self.random.random() < 0.7:
            self.network.reset_link(host, other)
            return
        self.network.sever(host, other)
        # Each takes the other for dead; whoever hears of it makes it true of the lower one.
        lower = other if other in self.below(host) else host
        self.dead_ranks.update(self.ranks[lower])
        self.cut_off.add(lower)
        fenced = self.network.now + 2.0 * self.random.random()
        self.network.at(fenced, lambda: self.network.kill(lower))

    def below(self, host: str) -> list[str]:
        """The hosts below one in the tree."""
        found: list[str] = []

        def visit(relay: c.Relay) -> None:
            if relay.host == host:
                found.extend(relay.hosts()[1:])
            for child in relay.children:
                visit(child)

        visit(c.plan_tree(self.hosts, self.fanout, root=ROOT))
        return found

    def run(self, casts: int, troubles: int) -> None:
        with self.network.telling():
            self.network.at(0.0, self.call)
            for _ in range(casts - 1):
                self.network.at(self.random.uniform(0.0, 0.3), self.call)
            for _ in range(troubles):
                self.network.at(
                    self.random.choice([0.02, 0.3, 6.0]) * self.random.random(), self.disturb
                )
            self.network.run()
            self.verify()

    def verify(self) -> None:
        everybody = {rank for ranks in self.ranks.values() for rank in ranks}
        for number in range(self.casts):
            cast_id = str(number)
            replied, lost = self.replied[cast_id].keys(), self.lost[cast_id]
            assert replied | lost == everybody, (
                f"cast {cast_id}: silent {everybody - replied - lost}"
            )
            assert lost <= self.dead_ranks, f"cast {cast_id}: lost, but alive"
            assert cast_id in self.complete, f"cast {cast_id} was never complete"
        for host, agent in self.agents.items():
            if self.network.alive(host):
                self.verify_agent(host, agent)

    def verify_agent(self, host: str, agent: Agent) -> None:
        assert agent.relay.statistics().in_flight == 0, f"{host} keeps casts for ever"
        gather = agent.gather.statistics()
        assert (gather.open, gather.kept) == (0, 0), f"{host} keeps replies for ever: {gather}"
        for proc in agent.procs.values() if host not in self.cut_off else ():
            assert proc.delivered == list(range(self.casts)), f"{proc.name}: {proc.delivered}"


def run_world(seed: int, **kinds: Any) -> World:
    world = World(seed, hosts=1 + seed % 12, **kinds)
    world.run(casts=1 + seed % 3, troubles=seed % 7)
    return world


def test_every_proc_gets_each_cast_and_every_reply_or_death_reaches_the_caller(
    seeds: Sequence[int],
):
    for seed in seeds:
        run_world(seed)


def test_trees_of_hundreds_of_hosts_lose_nothing_when_relays_die(seeds: Sequence[int]):
    for seed in seeds[:8]:
        world = World(seed, hosts=100 + 40 * (seed % 8))

        world.run(casts=2, troubles=30)

        assert world.agents[ROOT].gather.statistics().replies > 100


class RelayThatDoesNotAdopt(c.CastRelay):
    def _child_lost(self, child, out):
        for cast in self._casts.values():
            if child in cast.waiting:
                cast.waiting[child] = c.Relay(child)
        super()._child_lost(child, out)


class RelayThatAcknowledgesTooEarly(c.CastRelay):
    def _cast_arrived(self, event, out):
        super()._cast_arrived(event, out)
        if event.parent is not None:
            out.insert(0, c.Acknowledge(cast_id=event.cast_id, parent=event.parent))


class NodeThatKeepsNothing(GatherNode):
    def _emit_again(self, gather, out):
        pass


class NodeThatTrustsItsFirstParent(GatherNode):
    def _handle_for_one(self, event, now, out):
        if not isinstance(event, g.Adopted):
            super()._handle_for_one(event, now, out)


class NodeThatCountsTwice(GatherNode):
    def _take(self, gather, rank, payload):
        gather.lost.add(rank)
        super()._take(gather, rank, payload)


@pytest.mark.parametrize(
    "broken",
    [
        {"relay_kind": RelayThatDoesNotAdopt},
        {"relay_kind": RelayThatAcknowledgesTooEarly},
        {"gather_kind": NodeThatKeepsNothing},
        {"gather_kind": NodeThatTrustsItsFirstParent},
        {"gather_kind": NodeThatCountsTwice},
    ],
)
def test_a_broken_relay_or_node_is_caught(broken: dict[str, Any]):
    def try_seeds():
        for seed in range(200):
            run_world(seed, **broken)

    with pytest.raises(AssertionError) as caught:
        try_seeds()

    assert "--sim-seed=" in caught.value.__notes__[0]
