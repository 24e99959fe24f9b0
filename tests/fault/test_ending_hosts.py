"""Hosts that do not end when they are asked to, and clients that die before they can ask."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import danaus.actor
from danaus._job.holding import start_hosts
from danaus._mesh.host_mesh import HostMesh
from danaus._proc.running import RunningHost, end_group, end_hosts
from danaus._proc.system import children_of, is_running, start_time
from danaus._shape import NDSlice, Shape
from danaus.actor import MeshFailure, shutdown_context, this_host
from danaus.testing import wait_until
from tests.integration.job_actors import Process
from tests.integration.job_client import Client

pytestmark = pytest.mark.needs_linux


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[MeshFailure]:
    """Failures that nobody handles, which then do not end the test run."""
    seen: list[MeshFailure] = []
    monkeypatch.setattr(danaus.actor, "unhandled_fault_hook", seen.append)
    return seen


def spawn_on(host: RunningHost) -> Process:
    shape = Shape(["hosts"], NDSlice.new_row_major([1]))
    return HostMesh([(host.name, host.address)], shape).spawn_procs().spawn("process", Process)


def tree(pid: int) -> list[tuple[int, int]]:
    """A process and all below it, each with its start time."""
    found = [(pid, start_time(pid))]
    for child in children_of(pid):
        found += tree(child)
    return found


def running(processes: list[tuple[int, int]]) -> list[int]:
    return [pid for pid, started in processes if is_running(pid, started)]


@pytest.mark.parametrize("frozen", ["agent", "zygote", "both"])
def test_a_host_that_is_stopped_is_killed_with_all_that_it_started(frozen: str):
    held = start_hosts(["stuck"], {})
    (host,) = held.hosts
    actors = spawn_on(host)
    actors.start_sleeper.call_one().get(20)
    below = tree(host.pid)
    assert len(below) == 4  # agent, zygote, proc, sleeper
    zygote = children_of(host.pid)[0]
    for pid in {"agent": [host.pid], "zygote": [zygote], "both": [host.pid, zygote]}[frozen]:
        os.kill(pid, signal.SIGSTOP)

    held.end(0.2)

    assert running(below) == []
    assert not Path(host.address).parent.exists()


def test_the_end_of_a_host_that_ended_already_costs_nothing_and_its_folder_goes():
    held = start_hosts(["dead"], {})
    (host,) = held.hosts
    below = tree(host.pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: either tidies up after the other
        for pid, _ in below:
            os.kill(pid, number)
    wait_until(lambda: not running(below), what="the end of the host")
    assert Path(host.address).parent.exists()

    held.end(0)

    assert not Path(host.address).parent.exists()


def test_a_process_that_has_a_hosts_number_by_now_is_left_alone(tmp_path: Path):
    folder = tmp_path / "danaus-0123"
    folder.mkdir()
    me = RunningHost("me", str(folder / "s"), os.getpid(), start_time(os.getpid()) - 1)

    end_hosts([me], 0)
    end_group(me.pid, me.started)

    assert not folder.exists()  # which is as far as the test gets if it is not left alone


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_private_job_is_gone_with_its_client_whatever_ended_that(number: signal.Signals):
    """L1: within 5 s, and what the actors started too."""
    with Client(None, {"hosts": 2}) as client:
        client.ask("state")
        client.ask("spawn", "hosts")
        below = tree(client.process.pid)
        assert len(below) == 7  # the client, and an agent, a zygote and a proc a host

        client.process.send_signal(number)
        client.wait_end(10)
        wait_until(lambda: not running(below), timeout=5, what="the end of the hosts")


@pytest.mark.parametrize("how", ["kill the job", "stop the proc", "SIGKILL of the proc"])
def test_the_job_of_an_actor_ends_with_it_and_leaves_no_folder(
    how: str, failures: list[MeshFailure]
):
    """The leak check looks for the folders."""
    held = start_hosts(["outer"], {})
    shape = Shape(["hosts"], NDSlice.new_row_major([1]))
    procs = HostMesh([("outer", held.hosts[0].address)], shape).spawn_procs()
    actor = procs.spawn("process", Process)
    ((pid, _),) = actor.pids.call().get(20).values()
    inner = [(p, start_time(p)) for p in actor.start_job.call_one(2).get(20)]
    if how == "stop the proc":
        procs.stop().get(20)
    elif how == "SIGKILL of the proc":
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: failures, timeout=5, what="the failure")
    if how != "kill the job":
        wait_until(lambda: not running(inner), timeout=5, what="the end of the inner hosts")

    held.end()

    assert running(inner) == []


def test_the_folder_of_this_host_goes_with_the_context_though_its_agent_was_killed(
    failures: list[MeshFailure],
):
    host = this_host()
    ((_, address),) = host._hosts()
    actor = host.spawn_procs().spawn("process", Process)
    ((_, agent),) = actor.pids.call().get(20).values()
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: failures, timeout=5, what="the failure")

    shutdown_context().get(20)

    assert not Path(address).parent.exists()


def test_a_group_whose_leader_ends_at_once_is_ended_as_a_whole(tmp_path: Path):
    program = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"    open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(1000)\n"
    )
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ, setsid=True)
    wait_until((tmp_path / "ready").exists, what="the child")
    below = tree(pid)

    end_group(*below[0])
    os.waitpid(pid, 0)

    wait_until(lambda: not running(below), what="the end of the child")
