"""No failure is forgotten or reported twice, and nothing outlives its owner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from danaus._core import supervision as v
from danaus.testing.network import Arrived, Faults, PeerLost, SimEvent, SimNetwork, Woken

pytestmark = pytest.mark.timeout(240)

ROOT = "client"


@dataclass(frozen=True)
class Spawn:
    """Start the actor of one rank in the process that gets this."""

    actor: str
    mesh: str
    rank: int
    owner: str


@dataclass(frozen=True)
class Report:
    """The actor of a rank died, its process did not."""

    mesh: str
    rank: int
    cause: str
    origin: v.Failure


class Process:
    """A process with one actor. Its driver does what the runtime and the agents do together."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.network = world.network
        self.name = name
        self.machine = world.kind(name, root="root" if name == ROOT else "")
        self.actor = "root" if name == ROOT else ""
        self.owner_process = ""
        self.children: dict[str, tuple[str, int]] = {}  # process -> proc mesh and rank there
        self.network.add(name, self.on_event, check=self.machine.check)

    def on_event(self, event: SimEvent, now: float) -> None:
        match event:
            case Arrived(message=Spawn() as spawn):
                self.actor = spawn.actor
                started = v.ActorStarted(
                    actor=spawn.actor, mesh=spawn.mesh, rank=spawn.rank, owner=spawn.owner
                )
                self.feed(started, now)
                self.world.actor_started(self)
            case Arrived(message=Report() as report):
                failed = v.Failed(
                    node=report.mesh,
                    rank=report.rank,
                    report="unhandled",
                    cause=report.cause,
                    origin=report.origin,
                )
                self.feed(failed, now)
            case Arrived(message=("exit", _)):
                self.exit(now)
            case PeerLost(peer=peer):
                self.on_lost(peer, now)
            case Woken(token=v.Handled() as answer):
                self.feed(answer, now)

    def on_lost(self, peer: str, now: float) -> None:
        if peer in self.children:
            mesh, rank = self.children[peer]
            self.feed(v.Failed(node=mesh, rank=rank, report="SIGKILL", cause=peer), now)
        elif peer == self.owner_process:
            owner = self.world.actor_in[peer]
            self.feed(v.OwnerGone(owner=owner, reason="its process died"), now)
            if not self.actor or self.actor in self.world.dead_actors:
                self.world.ended(self)  # the machine knows no actor here: the proc goes by itself

    def exit(self, now: float) -> None:
        if self.network.alive(self.name):
            self.feed(v.OwnerGone(owner=self.actor, reason="stopped"), now)
            self.world.ended(self)

    def spawn(self, ranks: int) -> None:
        """Make a mesh of new processes, and one of actors on it."""
        now = self.network.now
        procs, actors = self.world.new_name("procs"), self.world.new_name("actors")
        self.feed(v.MeshCreated(mesh=procs, owner=self.actor), now)
        self.feed(v.MeshCreated(mesh=actors, owner=self.actor, on=procs), now)
        self.world.owner_of.update({procs: self.actor, actors: self.actor})
        if self.network.random.random() < 0.5:  # two meshes of actors on one of procs
            more = self.world.new_name("more")
            self.feed(v.MeshCreated(mesh=more, owner=self.actor, on=procs), now)
            self.world.owner_of[more] = self.actor
        for rank in range(ranks):
            child = Process(self.world, self.world.new_name("process"))
            self.world.processes[child.name] = child
            child.owner_process = self.name
            self.children[child.name] = (procs, rank)
            actor = f"{actors}[{rank}]"
            self.world.actor_in[child.name] = actor
            self.network.send_in_order(
                self.name, child.name, Spawn(actor, actors, rank, self.actor)
            )

    def feed(self, event: v.SupervisionEvent, now: float) -> None:
        for command in self.machine.handle(event, now):
            self.perform(command, now)

    def perform(self, command: Any, now: float) -> None:
        match command:
            case v.AskOwner():
                self.world.asked(command)
                answer = v.Handled(
                    failure_id=command.failure.failure_id,
                    handled=self.network.random.random() < self.world.tolerance,
                    raised=self.network.random.choice(["", "ValueError: no"]),
                )
                if answer.handled:
                    self.world.handled.add(command.failure.cause)
                wait = self.network.random.choice([0.0, 0.01, 1.0])
                self.network.wake(self.name, now + wait, answer)
            case v.FailOwner():
                self.fail_actor(command)
            case v.StopOwned():
                self.stop_owned(command)
            case v.EscalateToRoot():
                self.world.escalated[command.failure.cause] += 1
            case _:
                assert isinstance(command, v.FailCallers)

    def fail_actor(self, command: v.FailOwner) -> None:
        assert command.owner == self.actor
        assert not command.reported, "each process has one actor: its owner is elsewhere"
        failure = command.failure
        mesh, rank = self.actor.removesuffix("]").split("[")
        report = Report(mesh, int(rank), failure.cause, failure)
        self.network.send_in_order(self.name, self.owner_process, report)
        self.world.dead_actors.add(self.actor)

    def stop_owned(self, command: v.StopOwned) -> None:
        for name, (mesh, _) in self.children.items():
            if mesh in command.meshes:
                self.network.send_in_order(self.name, name, ("exit", mesh))
        if self.actor in command.actors:  # our own owner is gone, and we go with it
            self.world.ended(self)


class World:
    def __init__(self, seed: int, kind: type[v.Supervision] = v.Supervision) -> None:
        self.network = SimNetwork(seed)
        self.random = self.network.random
        self.network.faults = Faults(max_delay=self.random.choice([0.001, 0.2]))
        self.kind = kind
        self.tolerance = self.random.choice([0.0, 0.5, 0.9])
        self.names: Counter[str] = Counter()
        self.owner_of: dict[str, str] = {}
        self.actor_in: dict[str, str] = {ROOT: "root"}
        self.dead_actors: set[str] = set()
        self.killed: set[str] = set()
        self.handled: set[str] = set()
        self.escalated: Counter[str] = Counter()
        self.questions: dict[tuple[str, int | None], int] = defaultdict(int)
        self.processes: dict[str, Process] = {}
        self.processes[ROOT] = Process(self, ROOT)

    def new_name(self, kind: str) -> str:
        self.names[kind] += 1
        return f"{kind}{self.names[kind]}"

    def actor_started(self, process: Process) -> None:
        """Some actors make meshes of their own as soon as they run."""
        if self.names["process"] < 30 and self.random.random() < 0.5:
            process.spawn(self.random.randint(1, 3))

    def asked(self, command: v.AskOwner) -> None:
        failure = command.failure
        self.questions[failure.mesh, failure.rank] += 1
        assert self.questions[failure.mesh, failure.rank] == 1, f"{failure} was reported twice"
        assert self.owner_of[failure.mesh] == command.owner, f"{command.owner} does not own it"

    def ended(self, process: Process) -> None:
        """A process exits on purpose: agents report it like any end, and nobody must mind."""
        self.network.at(self.network.now, lambda: self.network.kill(process.name))

    def disturb(self) -> None:
        victims = [name for name in self.processes if name != ROOT and self.network.alive(name)]
        if victims:
            victim = self.random.choice(victims)
            if self.processes[victim].actor:
                self.killed.add(victim)
            self.network.kill(victim)

    def run(self) -> None:
        with self.network.telling():
            for _ in range(self.random.randint(1, 3)):
                self.processes[ROOT].spawn(self.random.randint(1, 4))
            for _ in range(self.random.randint(1, 6)):
                self.network.at(3.0 * self.random.random(), self.disturb)
            self.network.run()
            self.verify()

    def verify(self) -> None:
        assert set(self.escalated.values()) <= {1}, f"told the root twice: {self.escalated}"
        for process in self.processes.values():
            if process.name != ROOT and self.network.alive(process.name):
                owner = process.owner_process
                assert self.network.alive(owner), f"{process.name} outlived {owner}"
                owner_actor = self.actor_in[owner]
                assert owner_actor not in self.dead_actors, f"{process.name} outlived {owner_actor}"
        for cause in self.killed:
            told = cause in self.handled or cause in self.escalated
            assert told or self.owner_died(cause), f"nobody heard of the death of {cause}"
        for process in self.processes.values():
            if self.network.alive(process.name):
                assert process.machine.statistics().asked == 0, "an owner never answered"

    def owner_died(self, name: str) -> bool:
        """Whether somebody above a process died as well: then its own death is no news."""
        above = self.processes[name].owner_process
        while above and above != ROOT:
            if not self.network.alive(above) or self.actor_in[above] in self.dead_actors:
                return True
            above = self.processes[above].owner_process
        return False


def test_no_failure_is_forgotten_and_nothing_outlives_its_owner(seeds: Sequence[int]):
    escalated = 0
    for seed in seeds:
        world = World(seed)
        world.run()
        escalated += len(world.escalated)

    assert escalated or len(seeds) == 1


class SupervisionThatIsPleasedWithAll(v.Supervision):
    def _handled(self, event, out):
        self._asked.pop(event.failure_id, None)


class SupervisionThatRepeats(v.Supervision):
    def _escalate(self, failure, out):
        out.append(v.EscalateToRoot(failure=failure))


class SupervisionThatForgetsWhatIsOwned(v.Supervision):
    def _owner_gone(self, owner, reason, out):
        super()._owner_gone(owner, reason, [])


class SupervisionWithoutProcs(v.Supervision):
    def _failed_above(self, event, out):
        return {self._meshes[event.node].owner}


@pytest.mark.parametrize(
    "broken",
    [
        SupervisionThatIsPleasedWithAll,
        SupervisionThatRepeats,
        SupervisionThatForgetsWhatIsOwned,
        SupervisionWithoutProcs,
    ],
)
def test_a_broken_supervision_is_caught(broken: type[v.Supervision]):
    def try_seeds():
        for seed in range(200):
            World(seed, broken).run()

    with pytest.raises(AssertionError) as caught:
        try_seeds()

    assert "--sim-seed=" in caught.value.__notes__[0]
