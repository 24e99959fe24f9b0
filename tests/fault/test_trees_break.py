"""Trees of hosts whose relays die, whose procs die, whose connections break."""

import os
import random
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from danaus.actor import HostMesh, SupervisionError, attach_to_workers
from danaus.config import configured
from tests.fault.test_networks import Wire
from tests.integration.tree_actors import Diary
from tests.remote_workers import Worker, workers

pytestmark = pytest.mark.fault

PATIENCE = 30.0
HOSTS = 7


@pytest.fixture
def tree(tmp_path: Path) -> Generator[tuple[HostMesh, list[Worker]]]:
    """Seven hosts below this client: two that pass on, to two each, and so on."""
    with workers(tmp_path, HOSTS) as (started, key), configured(max_cast_fanout=2):
        hosts = attach_to_workers(workers=[one.address for one in started], key=key, name="node")
        yield hosts, started


def spawn(hosts: HostMesh, per_host: int = 1) -> Diary:
    return hosts.spawn_procs(per_host={"procs": per_host}).spawn("diaries", Diary)


def kill(worker: Worker) -> None:
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait(PATIENCE)


@pytest.mark.parametrize("victim", [0, 3, 1, 6], ids=["relay", "relay", "below", "leaf"])
def test_a_host_that_dies_loses_no_message_of_the_others(
    tree: tuple[HostMesh, list[Worker]], faults: object, victim: int
):
    hosts, started = tree
    diaries = spawn(hosts, 2)
    diaries.note.call(-1).get(PATIENCE)
    survivors = [host for host in range(HOSTS) if host != victim]

    sent = 0
    with pytest.raises(SupervisionError, match=f"host-{victim}|{started[victim].address}"):  # noqa: PT012
        while True:
            if sent == 50:
                kill(started[victim])
            diaries.note.broadcast(sent)
            sent += 1
            if sent % 10 == 0:
                diaries.nothing.call().get(PATIENCE)

    for host in survivors:
        for proc in range(2):
            one = diaries.slice(hosts=host, procs=proc)
            notes = one.read.call_one().get(PATIENCE)
            assert notes[: sent + 1] == [-1, *range(sent)]


def test_calls_on_the_survivors_of_a_relay_go_on(
    tree: tuple[HostMesh, list[Worker]], faults: object
):
    hosts, started = tree
    diaries = spawn(hosts)
    diaries.nothing.call().get(PATIENCE)
    rest = diaries.slice(hosts=slice(1, HOSTS))
    rest.nothing.call().get(PATIENCE)

    pending = rest.wait.call(1.0, 3)
    kill(started[0])

    assert list(pending.get(PATIENCE).values()) == list(range(HOSTS - 1))
    for i in range(50):
        rest.note.broadcast(i)
    assert list(rest.read.call().get(PATIENCE).values()) == [list(range(50))] * (HOSTS - 1)


def test_replies_that_a_dying_relay_held_come_by_another_way(
    tree: tuple[HostMesh, list[Worker]], faults: object
):
    hosts, started = tree
    diaries = spawn(hosts)
    diaries.nothing.call().get(PATIENCE)
    # The first of these leads the others: it dies while their replies are on their way.
    rest = diaries.slice(hosts=slice(0, 3))
    stream = list(rest.wait.stream(1.0, 2))
    stream += list(diaries.wait.stream(1.0, 2))
    kill(started[0])

    ended: list[object] = []
    for future in stream:
        try:
            ended.append(future.get(PATIENCE))
        except SupervisionError as error:
            ended.append(str(error))
    texts = [text for text in ended if isinstance(text, str)]
    assert len(texts) <= 2
    assert all("host-0" in text or started[0].address in text for text in texts), texts
    assert {1, 2, 3, 4, 5, 6} <= set(ended)


def test_a_proc_that_dies_fails_the_call_with_the_cause_of_its_death(
    tree: tuple[HostMesh, list[Worker]], faults: object
):
    hosts, _ = tree
    diaries = spawn(hosts, 2)
    pid, _agent = diaries.slice(hosts=5, procs=1).pid.call_one().get(PATIENCE)
    pending = diaries.wait.call(60.0, 11)

    os.kill(pid, signal.SIGKILL)

    with pytest.raises(SupervisionError, match="SIGKILL"):
        pending.get(PATIENCE)
    rest = diaries.slice(procs=0)
    assert len(rest.nothing.call().get(PATIENCE)) == HOSTS


@contextmanager
def wired(folder: Path) -> Generator[tuple[HostMesh, list[Wire]]]:
    """Hosts that reach each other, and that this client reaches, by wires that can be cut."""
    with workers(folder, HOSTS) as (started, key), ExitStack() as stack:
        wires = [Wire(worker.address) for worker in started]
        for wire in wires:
            stack.callback(wire.close)
        hosts = attach_to_workers(workers=[wire.address for wire in wires], key=key)
        yield hosts, wires
        hosts.shutdown().get(PATIENCE)


def test_connections_between_relays_break_and_nothing_is_lost_doubled_or_reordered(
    tmp_path: Path,
):
    with wired(tmp_path) as (hosts, wires), configured(max_cast_fanout=2):
        diaries = spawn(hosts)
        diaries.note.call(-1).get(PATIENCE)
        chance = random.Random(7)

        for number in range(1000):
            diaries.note.broadcast(number)
            if chance.random() < 0.02:
                chance.choice(wires).cut()
            if number % 100 == 99:
                assert len(diaries.nothing.call().get(PATIENCE)) == HOSTS

        assert sum(wire.broken for wire in wires) > 10
        for notes in diaries.read.call().get(PATIENCE).values():
            assert notes == [-1, *range(1000)]


def test_a_relay_that_stands_still_for_a_while_delays_its_casts_and_loses_none(
    tree: tuple[HostMesh, list[Worker]],
):
    hosts, started = tree
    diaries = spawn(hosts)
    diaries.nothing.call().get(PATIENCE)
    started[0].process.send_signal(signal.SIGSTOP)
    try:
        pending = diaries.note.call("x")
        # Those below the other relay have it, and answer; those below this one do not.
        other = diaries.slice(hosts=slice(3, 5))
        assert list(other.read.call().get(PATIENCE).values()) == [["x"]] * 2
        assert not pending.done
    finally:
        started[0].process.send_signal(signal.SIGCONT)

    assert len(pending.get(PATIENCE)) == HOSTS
