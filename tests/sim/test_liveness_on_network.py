"""The dead are declared dead in time, and nobody else, whatever happens to our own clock."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from danaus._core import liveness as v
from danaus.testing.network import Arrived, Faults, SimEvent, SimNetwork, Woken

pytestmark = pytest.mark.timeout(240)

LONGEST_DETECTION = 14.0
"""Seconds: dead after 10, seen at the next beat, plus delays and jitter."""


class Agent:
    """An agent that watches all others, and may be stopped for a while, as by SIGSTOP."""

    def __init__(self, world: World, name: str, kind: type[v.Liveness]) -> None:
        self.network = world.network
        self.world = world
        self.name = name
        self.skew = self.network.random.choice([0.0, 1e6])
        self.stopped_until = 0.0
        self.missed: list[SimEvent] = []
        self.dead: dict[str, float] = {}
        random = self.network.random
        self.machine = kind(self.clock(), None, lambda: random.uniform(-0.1, 0.1))
        self.network.add(name, self.on_event, check=self.machine.check)

    def clock(self) -> float:
        return self.network.now + self.skew

    def watch(self, peers: list[str]) -> None:
        for peer in peers:
            self.feed(v.PeerAdded(peer=peer))
        self.wake()

    def wake(self) -> None:
        if self.network.now < self.world.end:
            self.network.wake(self.name, self.machine.deadline - self.skew, self.machine.deadline)

    def stop(self, seconds: float) -> None:
        self.stopped_until = max(self.stopped_until, self.network.now + seconds)
        self.network.wake(self.name, self.stopped_until, "continue")

    def on_event(self, event: SimEvent, now: float) -> None:
        if now < self.stopped_until:
            self.missed.append(event)
            return
        # What piled up is handled in the order that a select() would give: none in particular.
        missed, self.missed = [*self.missed, event], []
        if len(missed) > 1:
            self.network.random.shuffle(missed)
        for one in missed:
            self.on_one(one)

    def on_one(self, event: SimEvent) -> None:
        if isinstance(event, Arrived):
            self.feed(v.Heard(peer=event.source))
        elif isinstance(event, Woken) and event.token != "continue":
            self.feed(v.Tick())
            self.wake()

    def feed(self, event: v.LivenessEvent) -> None:
        for command in self.machine.handle(event, self.clock()):
            if isinstance(command, v.SendHeartbeat):
                self.network.send(self.name, command.peer, "beat")
            elif isinstance(command, v.PeerDead):
                self.world.declared(self, command.peer)


class World:
    def __init__(self, seed: int, kind: type[v.Liveness] = v.Liveness) -> None:
        self.network = SimNetwork(seed)
        random = self.network.random
        self.end = random.uniform(20.0, 120.0)
        self.network.faults = Faults(
            min_delay=0.0,
            max_delay=random.choice([0.001, 0.3]),
            drop=random.choice([0.0, 0.05]),
            straggle=random.choice([0.0, 0.05]),
        )
        names = [f"agent {n}" for n in range(random.randint(2, 5))]
        self.agents = {name: Agent(self, name, kind) for name in names}
        self.silent_since: dict[str, float] = {}  # when an agent began not to be heard by all
        self.killed: dict[str, float] = {}
        for name, agent in self.agents.items():
            agent.watch([peer for peer in names if peer != name])

    def declared(self, agent: Agent, peer: str) -> None:
        since = self.silent_since.get(peer)
        if agent.name in self.silent_since:
            # The others may have given it up while it was stopped, and then they are silent.
            since = min(agent.stopped_until, since or agent.stopped_until)
        assert since is not None, f"{agent.name} declared {peer} dead, which is alive"
        silence = self.network.now - since
        assert silence > 5.0, f"{agent.name} declared {peer} dead after {silence:.3f} s"
        agent.dead[peer] = self.network.now

    def disturb(self) -> None:
        random = self.network.random
        name = random.choice(list(self.agents))
        if not self.network.alive(name) or name in self.silent_since:
            return
        if random.random() < 0.4:
            self.silent_since[name] = self.killed[name] = self.network.now
            self.network.kill(name)
        else:
            seconds = random.choice([0.5, 3.0, 60.0])
            if seconds > 5.0:
                self.silent_since[name] = self.network.now
            self.agents[name].stop(seconds)

    def run(self) -> None:
        random = self.network.random
        with self.network.telling():
            for _ in range(random.randint(0, 5)):
                self.network.at(random.uniform(0.0, self.end), self.disturb)
            self.network.run()
            self.verify()

    def verify(self) -> None:
        for name, agent in self.agents.items():
            if name in self.silent_since:
                continue  # it was dead or stopped, and is not asked
            for peer, when in self.killed.items():
                in_time = when + LONGEST_DETECTION
                if self.end > in_time + 5.0:
                    declared = agent.dead.get(peer, self.end)
                    assert declared <= in_time + 5.0, f"{name} saw the end of {peer} too late"


def test_the_dead_are_declared_dead_in_time_and_nobody_else(seeds: Sequence[int]):
    for seed in seeds:
        World(seed).run()


class LivenessWithoutGrace(v.Liveness):
    def _advance(self, now):
        self._running += now - self._now
        self._now = now


class LivenessThatForgivesAll(v.Liveness):
    def _judge(self, now, out):
        pass


@pytest.mark.parametrize("broken", [LivenessWithoutGrace, LivenessThatForgivesAll])
def test_a_broken_liveness_is_caught(broken: type[v.Liveness]):
    def try_seeds():
        for seed in range(200):
            World(seed, broken).run()

    with pytest.raises(AssertionError) as caught:
        try_seeds()

    assert "--sim-seed=" in caught.value.__notes__[0]
