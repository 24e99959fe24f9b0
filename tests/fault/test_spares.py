"""Spare hosts: a host dies, and one that stood by takes its rank."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from danaus.actor import Actor, HostMesh, SupervisionError, attach_to_workers, endpoint
from danaus.config import configured
from danaus.testing import wait_until
from tests.cluster.namespaces import can_be_made, network
from tests.fault.conftest import Faults
from tests.fault.victims import Victim
from tests.remote_workers import Worker, workers

PATIENCE = 20.0


class Pool:
    """Workers over TCP, of which the last ones stand by."""

    def __init__(self, started: list[Worker], key: Path, spares: int) -> None:
        self.workers = started
        self.key = key
        addresses = [worker.address for worker in started]
        count = len(started) - spares
        self.hosts = attach_to_workers(
            workers=addresses[:count], spares=addresses[count:], key=key, name="h"
        )

    def kill(self, host: int) -> None:
        """Kill the agent of a host, which takes all with it."""
        self.workers[host].process.send_signal(signal.SIGKILL)
        self.workers[host].process.wait(PATIENCE)


Pools = Callable[[int, int], Pool]


@pytest.fixture
def started(tmp_path: Path) -> Generator[tuple[list[Worker], Path]]:
    """Workers that tests add to, and the key of all of them."""
    with workers(tmp_path, 0) as made:
        yield made


@pytest.fixture
def pool(started: tuple[list[Worker], Path]) -> Pools:
    """Makes so many workers, the last of them spares, and attaches to them."""
    running, key = started

    def make(hosts: int, spares: int) -> Pool:
        running.extend(Worker(key, name=f"host-{i}") for i in range(hosts + spares))
        return Pool(running, key, spares)

    return make


def served_by(victims: Victim) -> list[int]:
    """The agent of each rank: the parent of its zygote."""
    return list(victims.evaluate.call(agent).get(PATIENCE).values())


def agent() -> int:
    zygote = os.getppid()
    return int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])


def pids(pool: Pool) -> list[int]:
    return [worker.process.pid for worker in pool.workers]


def test_a_spare_takes_the_rank_of_a_host_that_died_and_survivors_keep_their_state(
    pool: Pools, faults: Faults
):
    made = pool(3, 1)
    procs = made.hosts.spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim, 10)
    victims.add.call(1).get(PATIENCE)
    wait_until(lambda: made.hosts.spares_left == 1, timeout=10, what="the spare's answer")

    made.kill(1)
    faults.wait()
    procs.respawn().get(PATIENCE)

    values = victims.add.call(1).get(PATIENCE)
    assert list(values.values()) == [12, 12, 11, 11, 12, 12]
    assert values.extent.sizes == [3, 2]
    assert list(victims.rank.call().get(PATIENCE).values()) == list(range(6))
    a, _, c, spare = pids(made)
    assert served_by(victims) == [a, a, spare, spare, c, c]
    assert len(faults) == 1
    assert made.hosts.spares_left == 0


def test_ranks_of_the_dead_host_start_again_one_by_one_on_one_spare(pool: Pools, faults: Faults):
    made = pool(2, 2)
    procs = made.hosts.spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)

    made.kill(0)
    faults.wait()
    for rank in (1, 0):
        procs.respawn(rank).get(PATIENCE)

    _, b, spare, _ = pids(made)
    assert served_by(victims) == [spare, spare, b, b]
    assert made.hosts.spares_left == 1
    with pytest.raises(ValueError, match="rank 1 has not failed"):
        procs.respawn(1)


def test_the_spare_may_die_too_and_the_next_one_takes_over(pool: Pools, faults: Faults):
    made = pool(2, 2)
    procs = made.hosts.spawn_procs()
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)

    for i, dead in enumerate((0, 2)):
        made.kill(dead)
        faults.wait(i + 1)
        procs.respawn().get(PATIENCE)
        assert list(victims.add.call(1).get(PATIENCE).values()) == [1, i + 2]

    assert served_by(victims) == [pids(made)[3], pids(made)[1]]


def test_a_spare_that_died_while_it_waited_is_passed_over(pool: Pools, faults: Faults):
    made = pool(1, 2)
    procs = made.hosts.spawn_procs()
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)

    made.kill(1)
    wait_until(lambda: made.hosts.spares_left == 1, timeout=10, what="the loss of a spare")
    made.kill(0)
    faults.wait()
    procs.respawn(0).get(PATIENCE)

    assert served_by(victims) == [pids(made)[2]]


def test_without_a_spare_left_the_error_says_so_and_survivors_work_on(pool: Pools, faults: Faults):
    made = pool(3, 1)
    procs = made.hosts.spawn_procs()
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)
    made.kill(0)
    faults.wait()
    procs.respawn().get(PATIENCE)

    made.kill(1)
    faults.wait(2)
    with pytest.raises(SupervisionError, match=r"host h_1 is gone.*, and no spare host is left"):
        procs.respawn().get(PATIENCE)

    assert list(victims.slice(hosts=slice(0, 3, 2)).add.call(1).get(PATIENCE).values()) == [1, 2]
    assert len(faults) == 2


def test_a_mesh_without_spares_says_that_it_has_none(pool: Pools, faults: Faults):
    made = pool(1, 0)
    procs = made.hosts.spawn_procs()
    procs.initialized.get(PATIENCE)
    made.kill(0)
    faults.wait()

    with pytest.raises(SupervisionError, match=r"host h_0 is gone.*, and has no spare"):
        procs.respawn(0).get(PATIENCE)


def test_a_host_that_was_started_again_needs_no_spare(pool: Pools, faults: Faults):
    """A scheduler may do so, at the same address."""
    made = pool(1, 0)
    procs = made.hosts.spawn_procs()
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)
    made.kill(0)
    faults.wait()

    made.workers.append(Worker(made.key, made.workers[0].address))
    procs.respawn(0).get(PATIENCE)

    assert served_by(victims) == [pids(made)[1]]


def test_a_process_that_dies_on_a_live_host_stays_there(pool: Pools, faults: Faults):
    made = pool(1, 1)
    procs = made.hosts.spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    victims.slice(gpus=1).end.broadcast("SIGKILL")
    faults.wait()

    procs.respawn().get(PATIENCE)

    assert served_by(victims) == [pids(made)[0]] * 2
    assert made.hosts.spares_left == 1


def test_what_is_spawned_later_and_other_meshes_use_the_spare_as_well(pool: Pools, faults: Faults):
    made = pool(2, 1)
    first = made.hosts.spawn_procs()
    second = made.hosts.slice(hosts=0).spawn_procs()
    one, two = first.spawn("one", Victim), second.spawn("two", Victim)
    for victims in (one, two):
        victims.add.call(1).get(PATIENCE)
    made.kill(0)
    faults.wait()

    first.respawn().get(PATIENCE)
    second.respawn().get(PATIENCE)
    third = made.hosts.spawn_procs().spawn("three", Victim)

    _, b, spare = pids(made)
    assert served_by(one) == [spare, b]
    assert served_by(two) == [spare]
    assert served_by(third) == [spare, b]


def test_at_attachment_a_spare_stands_in_for_a_worker_that_is_not_there(
    started: tuple[list[Worker], Path],
):
    running, key = started
    running.extend(Worker(key) for _ in range(3))
    a, b, c = [worker.address for worker in running]
    running[1].end()

    hosts = attach_to_workers(workers=[a, b], spares=[c], key=key)

    assert hosts.initialized.get(PATIENCE) is True
    victims = hosts.spawn_procs().spawn("victims", Victim)
    assert served_by(victims) == [running[0].process.pid, running[2].process.pid]


def test_too_few_workers_and_spares_are_an_error_that_names_who_is_missing(
    started: tuple[list[Worker], Path],
):
    running, key = started
    running.extend(Worker(key) for _ in range(3))
    a, b, c = [worker.address for worker in running]
    running[1].end()
    running[2].end()

    hosts = attach_to_workers(workers=[a, b], spares=[c], key=key)

    with pytest.raises(RuntimeError, match="1 of 2 workers cannot be used: host 'host_1'"):
        hosts.initialized.get(PATIENCE)


def test_shutdown_ends_the_spares_too(pool: Pools):
    made = pool(1, 1)
    made.hosts.initialized.get(PATIENCE)

    made.hosts.shutdown().get(PATIENCE)

    assert [worker.process.wait(PATIENCE) for worker in made.workers] == [0, 0]


class Foreman(Actor):
    """Owns procs on hosts that it attaches to itself."""

    def __init__(self, workers: list[str], spares: list[str], key: str) -> None:
        hosts: HostMesh = attach_to_workers(workers=workers, spares=spares, key=key)
        self.procs = hosts.spawn_procs({"gpus": 2})
        self.victims = self.procs.spawn("owned", Victim)
        self.replaced = 0

    @endpoint
    def replacements(self) -> int:
        return self.replaced

    @endpoint
    def add(self) -> list[int]:
        return list(self.victims.add.call(1).get(PATIENCE).values())

    def __supervise__(self, failure: Any) -> bool:
        self.procs.respawn().get(PATIENCE)
        self.replaced += 1
        return True


def test_an_owner_replaces_a_host_in_supervise(pool: Pools, faults: Faults):
    """`respawn()` is for all that was on the host, whichever rank is reported."""
    made = pool(4, 0)
    own, a, b, spare = [worker.address for worker in made.workers]
    home = attach_to_workers(workers=[own], key=made.key)
    foreman = home.spawn_procs().spawn("foreman", Foreman, [a, b], [spare], made.key.read_text())
    assert foreman.add.call_one().get(PATIENCE) == [1] * 4

    made.kill(2)
    wait_until(lambda: foreman.replacements.call_one().get(PATIENCE) > 0, timeout=15)

    assert foreman.add.call_one().get(PATIENCE) == [2, 2, 1, 1]
    assert not faults


@pytest.mark.skipif(not can_be_made(), reason="no network namespaces here")
def test_a_host_that_is_cut_off_is_replaced_and_what_ran_there_ends(tmp_path: Path, faults: Faults):
    """It must not go on beside the new ranks, however long the network is away."""
    quick = configured(host_dead_after="3s", link_resume_within="1s")
    with network(3) as machines, workers(tmp_path, 0) as (started, key), quick:
        started += [Worker(key, f"tcp://{m.ipv4}:26600", m.name, m.inside) for m in machines]
        made = Pool(started, key, 1)
        procs = made.hosts.spawn_procs()
        victims = procs.spawn("victims", Victim)
        victims.add.call(1).get(PATIENCE)
        old = victims.slice(hosts=0).pid.call_one().get(PATIENCE)

        machines[0].cut()
        with pytest.raises(SupervisionError, match=machines[0].ipv4):
            victims.add.call(1).get(PATIENCE)
        faults.wait()
        procs.respawn().get(PATIENCE)

        assert list(victims.add.call(1).get(PATIENCE).values()) == [1, 3]
        wait_until(lambda: not Path(f"/proc/{old}").exists(), timeout=20, what="the old rank's end")
        machines[0].heal()
        assert list(victims.add.call(1).get(PATIENCE).values()) == [2, 4]
