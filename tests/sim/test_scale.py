"""What a host has to do does not grow with the number of hosts, and no host is forgotten."""

import pytest

from benchmarks.simulated_hosts import ROOT, SimulatedHosts
from danaus._core import liveness as v
from danaus._core.cast import Relay, plan_tree

FANOUT = 16


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("hosts", "depth"),
    [(1, 1), (16, 1), (17, 2), (1000, 3), (10_000, 4), pytest.param(100_000, 5, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_cast_reaches_every_host_once_and_costs_each_the_fan_out(hosts: int, depth: int):
    out = SimulatedHosts(hosts, FANOUT).cast()

    assert set(out.delivered.values()) == {1}
    assert len(out.delivered) == len(out.replies) == hosts
    assert set(out.replies.values()) == {1}
    assert not out.lost
    assert out.depth == depth
    # Down: the cast, and the acknowledgement of what came up. Up: an acknowledgement, replies.
    assert out.sent[ROOT] <= 2 * FANOUT
    assert out.received[ROOT] <= 2 * FANOUT
    assert max(out.sent.values()) <= 2 * FANOUT + 2


@pytest.mark.parametrize("seed", range(10))
def test_of_ten_thousand_hosts_a_hundred_die_and_the_others_are_reached_once(seed: int):
    world = SimulatedHosts(10_000, FANOUT, seed)
    killed = set(world.kill(100, within=20_000))

    out = world.cast()

    dead_ranks = {world.rank[host] for host in world.dead}
    alive = set(range(10_000)) - dead_ranks
    assert world.dead <= killed
    assert len(world.dead) > 50
    assert set(out.delivered.values()) == {1}
    assert {world.rank[host] for host in out.delivered} >= alive
    assert set(out.replies.values()) == {1}
    assert set(out.replies) >= alive
    assert out.lost | set(out.replies) == set(range(10_000))
    assert out.lost <= dead_ranks


def test_the_root_pays_for_each_host_without_a_tree():
    # What the first test asserts is the tree's doing.
    out = SimulatedHosts(1000, 1000).cast()

    assert out.sent[ROOT] == 2000


def neighbours(relay: Relay) -> int:
    """Most neighbours of a host of a plan: its parent and those below it."""
    return max([len(relay.children) + 1, *map(neighbours, relay.children)])


def test_a_host_listens_to_its_neighbours_however_many_hosts_there_are():
    most = neighbours(plan_tree([f"h{i}" for i in range(100_000)], FANOUT))

    machine = v.Liveness(0.0, None, lambda: 0.0)
    for peer in range(most):
        machine.handle(v.PeerAdded(peer=f"h{peer}"), 0.0)
    beats = 0
    while machine.deadline < 60.0:
        now = machine.deadline
        for peer in range(most):
            machine.handle(v.Heard(peer=f"h{peer}"), now)
        commands = machine.handle(v.Tick(), now)
        beats += sum(isinstance(command, v.SendHeartbeat) for command in commands)

    assert most == FANOUT + 1
    assert beats <= 60 * most
