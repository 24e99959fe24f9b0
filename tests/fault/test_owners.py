"""Owners: who is asked about a failure, and what goes with an owner that ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from danaus.actor import Actor, MeshFailure, SupervisionError, endpoint, this_host
from danaus.config import configured
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.victims import Owner, Victim, sleep


class AsyncOwner(Actor):
    """Decides about failures beside its endpoints."""

    def __init__(self) -> None:
        self.victims: Any = this_host().spawn_procs().spawn("owned", Victim)
        self.seen: list[str] = []
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    @endpoint
    async def start(self, how: str) -> None:
        self.victims.end.broadcast(how)

    @endpoint
    async def wait_asked(self) -> bool:
        return await self.asked.wait()

    @endpoint
    async def release(self) -> None:
        self.released.set()

    @endpoint
    async def wait_for_ever(self) -> None:
        await asyncio.Event().wait()

    @endpoint
    async def failures(self) -> list[str]:
        return self.seen

    async def __supervise__(self, failure: MeshFailure) -> bool:
        self.asked.set()
        await self.released.wait()
        self.seen.append(failure.mesh_name)
        return True


class Falsy(AsyncOwner):
    """Handles nothing, and says so only by returning nothing."""

    async def __supervise__(self, failure: MeshFailure) -> Any:
        del failure


class Busy(Actor):
    """Notes what it does, in order."""

    def __init__(self) -> None:
        self.victim = this_host().spawn_procs().spawn("owned", Victim)
        self.notes: list[str] = []

    @endpoint
    def lose(self) -> None:
        self.victim.end.broadcast("exit")

    @endpoint
    def work(self, seconds: float) -> None:
        self.notes.append("begin")
        sleep(seconds)
        self.notes.append("end")

    @endpoint
    def read(self) -> list[str]:
        return self.notes

    def __supervise__(self, failure: MeshFailure) -> bool:
        self.notes.append("supervise")
        return True


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_the_owner_decides_and_nobody_else_hears_of_it(faults: Faults):
    owner = this_host().spawn_procs().spawn("owner", Owner, "handle", None, 2)
    owner.pids.call_one().get(20)

    owner.let_die.call_one("SIGKILL").get(20)
    wait_until(lambda: len(owner.failures.call_one().get(20)) == 2, what="both failures")

    seen = owner.failures.call_one().get(20)
    assert sorted(failure.ranks for failure in seen) == [[0], [1]]
    assert {(f.mesh_name, f.exit, f.actor_class) for f in seen} == {("owned", "SIGKILL", "Victim")}
    assert not faults


@pytest.mark.parametrize("decision", ["refuse", "raise"])
def test_what_an_owner_does_not_handle_is_its_own_end(faults: Faults, decision: str):
    """The first failure comes first, with all its fields."""
    owner = this_host().spawn_procs().spawn("owner", Owner, decision)
    _, pid = owner.pids.call_one().get(20)

    os.kill(pid, signal.SIGKILL)
    failure = faults.wait()

    assert (failure.mesh_name, failure.first.mesh_name) == ("owner", "owned")
    assert (failure.first.pid, failure.first.exit) == (pid, "SIGKILL")
    report = failure.report()
    first = report.index("Victim owned{'procs': 0/1}")
    assert report.startswith("The actor ")
    assert first < report.index("Hence the actor")
    assert ("no idea what to do" in report) == (decision == "raise")
    with pytest.raises(SupervisionError, match="Victim owned"):
        owner.pids.call_one().get(20)
    assert len(faults) == 1


def test_a_failure_goes_up_through_all_owners_that_refuse_it(faults: Faults):
    """Owners of owners, each in a process of its own."""
    outer = this_host().spawn_procs().spawn("outer", Nested, 3)
    pids = outer.tree.call_one().get(30)

    os.kill(pids[-1], signal.SIGKILL)
    failure = faults.wait()

    names = []
    step: MeshFailure | None = failure
    while step is not None:
        names.append(step.mesh_name)
        step = step.origin
    assert names == ["outer", "level3", "level2", "level1"]
    assert failure.first.pid == pids[-1]
    assert len(failure.report()) <= 2048
    wait_until(lambda: gone(pids[1:]), timeout=10, what="the end of what the owners owned")


class Nested(Actor):
    """Owns one of its kind in another process, down to a depth."""

    def __init__(self, depth: int) -> None:
        self.below: Any = None
        if depth:
            procs = this_host().spawn_procs()
            self.below = procs.spawn(f"level{depth}", Nested, depth - 1)

    @endpoint
    def tree(self) -> list[int]:
        return [os.getpid(), *(self.below.tree.call_one().get(20) if self.below else [])]


def test_supervise_runs_between_messages_of_a_sync_actor(faults: Faults):
    """Never inside one, and before those that are queued."""
    busy = this_host().spawn_procs().spawn("busy", Busy)
    busy.lose.call_one().get(20)
    for _ in range(40):
        busy.work.broadcast(0.05)

    notes = busy.read.call_one().get(30)

    at = notes.index("supervise")
    assert notes[:at].count("begin") == notes[:at].count("end") < 40
    assert not faults


def test_supervise_runs_beside_the_messages_of_an_async_actor(faults: Faults):
    """While it waits, endpoints go on, one of which lets it go on."""
    owner = this_host().spawn_procs().spawn("owner", AsyncOwner)
    owner.start.call_one("exit").get(20)

    assert owner.wait_asked.call_one().get(20)
    assert owner.failures.call_one().get(20) == []
    owner.release.call_one().get(20)

    wait_until(lambda: owner.failures.call_one().get(20) == ["owned"])
    assert not faults


def test_a_pending_decision_is_dropped_when_the_owner_is_stopped(faults: Faults):
    procs = this_host().spawn_procs()
    owner = procs.spawn("owner", AsyncOwner)
    owner.start.call_one("exit").get(20)
    owner.wait_asked.call_one().get(20)

    owner.stop().get(20)
    procs.stop().get(20)

    assert not faults


def test_a_call_in_flight_ends_with_the_actor_that_refused(faults: Faults):
    """An endpoint that awaits is interrupted, and its caller told why."""
    owner = this_host().spawn_procs().spawn("owner", Falsy)
    owner.start.call_one("exit").get(20)
    pending = owner.wait_for_ever.call_one()

    with pytest.raises(SupervisionError, match="it ended with exit code 3"):
        pending.get(20)
    assert faults.wait().first.mesh_name == "owned"


def test_what_a_dead_actor_owned_goes_with_it(faults: Faults):
    """The actor fails, its process lives on."""
    with configured(process_exit_timeout="1s"):
        procs = this_host().spawn_procs()
        owner, neighbour = procs.spawn("owner", Owner, "handle", None, 2), procs.spawn("v", Victim)
        _, *pids = owner.pids.call_one().get(20)
        mesh = owner.mesh.call_one().get(20)
        pending = mesh.slice(procs=0).nap.call_one(60)

        owner.leave.broadcast("raise")

        assert "SystemExit" in faults.wait().reason
        with pytest.raises(SupervisionError, match="its owner has ended"):
            pending.get(20)
        wait_until(lambda: gone(pids), timeout=15, what="the end of the owned processes")
        with pytest.raises(SupervisionError, match="owned"):
            mesh.add.call(1).get(20)
        assert neighbour.add.call_one(1).get(20) == 1


@pytest.mark.parametrize("how", ["SIGKILL", "exit"])
def test_what_a_dead_process_owned_goes_with_it(faults: Faults, how: str):
    """Owned processes are killed, and who holds references is told why."""
    owner = this_host().spawn_procs().spawn("owner", Owner, "handle", None, 2)
    _, *pids = owner.pids.call_one().get(20)
    mesh = owner.mesh.call_one().get(20)
    pending = mesh.slice(procs=0).nap.call_one(60)

    owner.leave.broadcast(how)

    faults.wait()
    with pytest.raises(SupervisionError, match="its owner is gone"):
        pending.get(20)
    wait_until(lambda: gone(pids), timeout=10, what="the end of the owned processes")
    with pytest.raises(SupervisionError, match="its owner is gone"):
        mesh.add.call(1).get(20)


def touch_and_sleep(path: str) -> int:
    Path(path).touch()
    sleep(1)
    return 1


def test_actors_of_a_dead_owner_end_in_processes_that_live_on(faults: Faults, tmp_path: Path):
    """Their process belongs to the client; it stays, and so do other actors there."""
    hosts = this_host()
    lasting = hosts.spawn_procs()
    neighbour = lasting.spawn("neighbour", Victim)
    owner = hosts.spawn_procs().spawn("owner", Owner, "handle", lasting)
    mesh = owner.mesh.call_one().get(20)
    assert mesh.pid.call_one().get(20) == neighbour.pid.call_one().get(20)
    started = tmp_path / "started"
    pending = mesh.evaluate.call_one(touch_and_sleep, str(started))
    queued = mesh.add.call_one(1)
    wait_until(started.exists)

    owner.leave.broadcast("SIGKILL")

    faults.wait()
    with pytest.raises(SupervisionError, match="its owner is gone"):
        queued.get(20)
    assert pending.get(20) == 1
    with pytest.raises(SupervisionError, match="its owner is gone"):
        mesh.add.call_one(1).get(20)
    assert neighbour.add.call_one(1).get(20) == 1


@pytest.mark.parametrize("reason", [None, "the disk is full"])
def test_abort_is_a_failure_with_its_reason(faults: Faults, reason: str | None):
    victim = this_host().spawn_procs().spawn("victim", Victim)

    victim.abort.call_one(reason).exception(20)

    failure = faults.wait()
    assert (reason or "no reason provided") in failure.report()
    with pytest.raises(SupervisionError, match=re.escape(reason or "no reason provided")):
        victim.add.call_one(1).get(20)


def test_one_of_two_meshes_that_fails_leaves_the_other_alone(faults: Faults):
    """S8: and it can be made again."""
    hosts = this_host()
    meshes = [hosts.spawn_procs().spawn(f"m{i}", Victim) for i in range(2)]

    with pytest.raises(SupervisionError):
        meshes[0].end.call_one("segv").get(20)

    assert meshes[1].add.call_one(1).get(20) == 1
    again = hosts.spawn_procs().spawn("m0", Victim)
    assert again.add.call_one(1).get(20) == 1
    assert len(faults) == 1


def test_slices_without_the_failed_rank_keep_working(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 4})
    victims, others = procs.spawn("victims", Victim), procs.spawn("others", Victim)
    with pytest.raises(SupervisionError):
        victims.slice(gpus=3).end.call_one("raise").get(20)
    faults.wait()

    assert list(victims.slice(gpus=slice(0, 3)).add.call(1).get(20).values()) == [1, 1, 1]
    for slice_ in (victims, victims.slice(gpus=slice(2, 4)), victims.slice(gpus=3)):
        with pytest.raises(SupervisionError, match="at rank 3 with event"):
            slice_.add.call(1).get(20)
    assert list(others.add.call(1).get(20).values()) == [1] * 4


def test_an_unhandled_failure_is_told_within_the_time_of_a_message(faults: Faults):
    """Up two owners: each hop is one frame."""
    outer = this_host().spawn_procs().spawn("outer", Nested, 2)
    pids = outer.tree.call_one().get(30)
    start = time.monotonic()

    os.kill(pids[-1], signal.SIGKILL)
    faults.wait()

    assert time.monotonic() - start < 3
