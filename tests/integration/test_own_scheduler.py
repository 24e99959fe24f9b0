"""A scheduler of one's own, the example's: its workers are real, and so is what it inherits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import danaus.actor
from danaus.actor import MeshFailure
from danaus.testing import wait_until
from examples.own_scheduler import PoolJob
from tests.fault.victims import Victim

PATIENCE = 20.0


class SharedPool(PoolJob):
    """May be found again, by a client that has not started it."""

    _is_shared = True
    _pool: list[subprocess.Popen[str]] = []  # noqa: RUF012  # of a client that started none


def test_the_hosts_that_are_kept_as_spares_take_the_ranks_of_those_that_die(
    monkeypatch: pytest.MonkeyPatch,
):
    faults: list[MeshFailure] = []
    monkeypatch.setattr(danaus.actor, "unhandled_fault_hook", faults.append)
    job = PoolJob({"pool": 3})
    job.keep_spares(pool=1)
    hosts = job.state(cached_path=None).pool
    procs = hosts.spawn_procs()
    victims = procs.spawn("victims", Victim)
    victims.add.call(1).get(PATIENCE)
    assert hosts.sizes == {"hosts": 2}

    job._pool[0].kill()
    wait_until(lambda: bool(faults), timeout=15)
    procs.respawn().get(PATIENCE)

    assert list(victims.add.call(1).get(PATIENCE).values()) == [1, 2]
    job.kill()


def test_a_job_that_is_found_again_may_have_lost_as_many_hosts_as_it_has_spares(tmp_path: Path):
    path = tmp_path / "job.json"
    first = SharedPool({"pool": 3})
    first.apply()
    first.dump(path)
    dead = first._pool[0]
    dead.kill()
    dead.wait(PATIENCE)

    second = SharedPool({"pool": 3})
    second.keep_spares(pool=1)
    hosts = second.state(path).pool

    assert second.apply_id == first.apply_id
    victims = hosts.spawn_procs().spawn("victims", Victim)
    assert list(victims.add.call(1).get(PATIENCE).values()) == [1, 1]
    second.kill()
    first.kill()


def test_a_job_whose_worker_cannot_start_leaves_none(monkeypatch: pytest.MonkeyPatch):
    job = PoolJob({"pool": 2})
    monkeypatch.setattr(
        "examples.own_scheduler.worker_command", lambda **_: ["sh", "-c", "read line; exit 1"]
    )

    with pytest.raises(RuntimeError, match="a worker ended with code 1"):
        job.apply()

    assert job._pool == []
    assert not job.active
