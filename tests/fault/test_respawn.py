"""Respawn: one rank fails, the others keep their state and the mesh its shape."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from danaus.actor import SupervisionError, this_host
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.victims import DiesAtBirth, Owner, Victim


def test_one_of_eight_starts_again_and_seven_keep_their_state(faults: Faults):
    """S7"""
    procs = this_host().spawn_procs({"hosts": 2, "gpus": 4})
    victims = procs.spawn("victims", Victim, 100)
    pids = list(victims.pid.call().get(20).values())
    victims.add.call(1).get(20)
    os.kill(pids[5], signal.SIGKILL)
    faults.wait()

    procs.respawn(5).get(20)

    values = victims.add.call(1).get(20)
    assert list(values.values()) == [102] * 5 + [101] + [102] * 2
    assert values.extent.sizes == [2, 4]
    again = list(victims.pid.call().get(20).values())
    assert [a == b for a, b in zip(pids, again, strict=True)] == [True] * 5 + [False] + [True] * 2
    assert list(victims.rank.call().get(20).values()) == list(range(8))
    assert victims.slice(hosts=1, gpus=1).pid.call_one().get(20) == again[5]
    assert len(faults) == 1


def test_calls_in_flight_fail_and_those_after_it_go_to_the_new_process(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    pid = victims.pid.call().get(20).item(gpus=1)
    flying = victims.slice(gpus=1).nap.call_one(1000)
    os.kill(pid, signal.SIGKILL)
    faults.wait()

    future = procs.respawn(1)
    calls = [victims.add.call(1) for _ in range(50)]

    with pytest.raises(SupervisionError):
        flying.get(20)
    assert list(calls[-1].get(20).values()) == [50, 50]
    future.get(20)


def test_all_meshes_on_the_rank_start_again(faults: Faults):
    """Those on slices of the procs, too."""
    procs = this_host().spawn_procs({"gpus": 4})
    whole = procs.spawn("whole", Victim)
    part = procs.slice(gpus=slice(2, 4)).spawn("part", Victim, 7)
    stopped = procs.spawn("stopped", Victim)
    pid = whole.pid.call().get(20).item(gpus=3)
    part.add.call(1).get(20)
    stopped.stop().get(20)
    os.kill(pid, signal.SIGKILL)
    faults.wait()

    procs.respawn(3).get(20)

    assert list(whole.add.call(1).get(20).values()) == [1] * 4
    assert list(part.add.call(1).get(20).values()) == [9, 8]
    with pytest.raises(SupervisionError, match="stopped"):
        stopped.add.call(1).get(20)


def test_a_rank_may_die_and_start_again_many_times(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(20)

    for i in range(5):
        victims.slice(gpus=1).end.broadcast("SIGKILL")
        assert faults.wait(i + 1).ranks == [1]
        procs.respawn(1).get(20)
        assert list(victims.add.call(1).get(20).values()) == [i + 2, 1]


def test_an_actor_that_failed_starts_again_with_its_process(faults: Faults):
    """The process had not died: it is ended first."""
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    pids = list(victims.pid.call().get(20).values())
    victims.slice(gpus=0).end.broadcast("raise")
    faults.wait()

    procs.respawn(0).get(20)

    assert list(victims.add.call(1).get(20).values()) == [1, 1]
    assert not Path(f"/proc/{pids[0]}").exists()
    assert victims.slice(gpus=1).pid.call_one().get(20) == pids[1]
    assert len(faults) == 1


def test_what_fails_at_its_new_start_is_a_failure_again(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    procs.spawn("stillborn", DiesAtBirth, "exit")
    faults.wait(2)

    procs.respawn(0).exception(20)

    assert faults.wait(3).ranks == [0]


def test_an_owner_brings_back_what_it_owns(faults: Faults):
    """From within __supervise__ or an endpoint: owners need not be clients."""
    owner = this_host().spawn_procs().spawn("owner", Owner, "respawn", None, 2)
    _, first, second = owner.pids.call_one().get(20)

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(owner.failures.call_one().get(20)) == 1)

    _, again, same = owner.pids.call_one().get(20)
    assert same == second
    assert again != first
    assert not faults


def test_what_cannot_be_respawned_is_refused(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    procs.initialized.get(20)

    with pytest.raises(ValueError, match="rank 1 has not failed"):
        procs.respawn(1)
    with pytest.raises(ValueError, match=r"no rank 2; the mesh has ranks 0\.\.1"):
        procs.respawn(2)
    with pytest.raises(ValueError, match="only its owner"):
        procs.slice(gpus=0).respawn(0)
    procs.stop().get(20)
    with pytest.raises(RuntimeError, match="already been stopped"):
        procs.respawn(1)


def test_respawn_on_a_host_that_is_gone_says_so(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    zygote = victims.slice(gpus=0).evaluate.call_one(os.getppid).get(20)
    agent = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    faults.wait()

    with pytest.raises(SupervisionError, match=r"host .* is gone"):
        procs.respawn(1).get(20)


def test_a_stop_during_a_respawn_ends_all(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    pid = victims.pid.call().get(20).item(gpus=1)
    os.kill(pid, signal.SIGKILL)
    faults.wait()

    future = procs.respawn(1)
    procs.stop().get(20)

    future.exception(20)
    with pytest.raises(SupervisionError):
        victims.pid.call().get(20)
