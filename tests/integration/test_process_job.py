"""Jobs on this machine, with real hosts: their life, and how clients share them (CASES J1, J6)."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from danaus.actor import SupervisionError, shutdown_context
from danaus.job import JobState, ProcessJob, job_load
from danaus.testing import wait_until
from tests.integration.job_actors import Process
from tests.integration.job_client import Client

pytestmark = pytest.mark.needs_linux


@contextmanager
def private(job: ProcessJob) -> Iterator[JobState]:
    """The state of a job that no other client knows; the job is ended at the exit."""
    try:
        yield job.state(cached_path=None)
    finally:
        job.kill()


def exists(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_gone(*pids: int) -> None:
    wait_until(lambda: not any(map(exists, pids)), timeout=5, what=f"the end of {pids}")


def hosts_in(path: Path) -> list[list[Any]]:
    """Name, address, pid and start time of each host in a state file."""
    return json.loads(path.read_text())["fields"]["hosts"]


def pids_in(path: Path) -> list[int]:
    return [pid for _, _, pid, _ in hosts_in(path)]


def test_each_host_is_an_agent_of_its_own_with_its_name_and_the_jobs_variables():
    with private(ProcessJob({"trainers": 2, "loaders": 1}, env={"COLOUR": "red"})) as hosts:
        trainers = hosts.trainers.spawn_procs({"procs": 2}).spawn("trainer", Process)
        loader = hosts.loaders.spawn_procs().spawn("loader", Process)
        agents = [agent for _, agent in trainers.pids.call().get(20).values()]
        agents += [agent for _, agent in loader.pids.call().get(20).values()]
        names = list(trainers.variable.call("DANAUS_PROCESS_NAME").get(20).values())
        colours = set(loader.variable.call("COLOUR").get(20).values())

    assert dict(hosts.trainers.extent) == {"hosts": 2}
    assert dict(trainers.extent) == {"hosts": 2, "procs": 2}
    assert agents[0] == agents[1] != agents[2] == agents[3] != agents[4] != agents[0]
    assert names == ["trainers_0", "trainers_0", "trainers_1", "trainers_1"]
    assert colours == {"red"}


def test_killing_ends_all_processes_and_removes_all_files(tmp_path: Path):
    job = ProcessJob({"hosts": 2})
    actors = job.state(tmp_path / "job.json").hosts.spawn_procs().spawn("process", Process)
    pids = [pid for pair in actors.pids.call().get(20).values() for pid in pair]
    folders = [Path(address).parent for _, address, _, _ in hosts_in(tmp_path / "job.json")]
    assert all(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in folders)

    job.kill()

    assert [pid for pid in pids if exists(pid)] == []
    assert [folder for folder in folders if folder.exists()] == []
    assert list(tmp_path.iterdir()) == []


def test_calls_after_a_kill_say_that_the_actors_were_stopped():
    job = ProcessJob({"hosts": 1})
    actors = job.state(cached_path=None).hosts.spawn_procs().spawn("process", Process)
    actors.pids.call().get(20)

    job.kill()

    with pytest.raises(SupervisionError, match="stopped"):
        actors.pids.call().get(20)


def test_a_killed_job_can_be_applied_again():
    job = ProcessJob({"hosts": 1})
    job.apply()
    first = job.apply_id
    job.kill()
    job.kill()

    with private(job) as hosts:
        assert hosts.hosts.initialized.get(20) is True
        assert job.apply_id != first


def test_the_end_of_the_context_ends_a_private_job_and_a_kill_may_follow():
    job = ProcessJob({"hosts": 1})
    actors = job.state(cached_path=None).hosts.spawn_procs().spawn("process", Process)
    ((pid, agent),) = actors.pids.call().get(20).values()

    shutdown_context().get(20)

    assert not exists(pid)
    assert not exists(agent)
    job.kill()


def test_a_private_job_ends_with_its_program_and_quietly():
    with Client(None, {"hosts": 2}) as client:
        client.ask("state")
        pids = [pid for pair in client.ask("spawn", "hosts") for pid in pair]

        assert client.leave() == ""

    assert client.process.returncode == 0
    wait_gone(*pids)


def test_a_written_job_outlives_its_program_and_the_next_one_finds_it(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 2}) as first, Client(path, {"hosts": 2}) as second:
        apply_id = first.ask("state")
        agents = pids_in(path)
        assert first.leave() == ""

        assert second.ask("state") == apply_id
        assert [agent for _, agent in second.ask("spawn", "hosts")] == agents
        second.ask("kill")

        assert [pid for pid in agents if exists(pid)] == []
        assert list(tmp_path.iterdir()) == []
        assert second.leave() == ""


def test_a_program_that_ends_right_after_state_leaves_a_job_that_lives(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 3}) as client:
        client.ask("state")
        client.leave()

    job = ProcessJob({"hosts": 3})
    assert job_load(path).can_run(job)
    job.state(path)
    job.kill()


def test_two_programs_that_start_at_once_share_one_job(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 1}) as first, Client(path, {"hosts": 1}) as second:
        first.send("state")
        second.send("state")

        assert first.answer() == second.answer()
        first.ask("kill")


def test_a_client_that_dies_takes_its_own_processes_and_nobody_elses(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 2}) as maker, Client(path, {"hosts": 2}) as other:
        maker.ask("state")
        other.ask("state")
        lost = [pid for pid, _ in maker.ask("spawn", "hosts")]
        kept = other.ask("spawn", "hosts")

        maker.process.kill()
        wait_gone(*lost)

        assert other.ask("ask") == kept
        other.ask("kill")


def test_a_second_client_that_dies_does_not_disturb_the_one_that_made_the_job(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 1}) as maker, Client(path, {"hosts": 1}) as other:
        maker.ask("state")
        other.ask("state")
        kept = maker.ask("spawn", "hosts")
        lost = [pid for pid, _ in other.ask("spawn", "hosts")]

        other.process.kill()
        wait_gone(*lost)

        assert maker.ask("ask") == kept
        maker.ask("kill")


def test_the_state_file_is_json_for_its_user_only(tmp_path: Path):
    job = ProcessJob({"hosts": 1}, env={"A": "1"})
    job.state(tmp_path / "job.json")
    record = json.loads((tmp_path / "job.json").read_text())
    mode = stat.S_IMODE((tmp_path / "job.json").stat().st_mode)
    job.kill()

    assert mode == 0o600
    assert record["job"] == "danaus.job:ProcessJob"
    assert record["fields"]["meshes"] == {"hosts": 1}


@pytest.mark.parametrize("victims", [slice(0, 2), slice(1, 2)], ids=["all", "one"])
def test_a_job_whose_hosts_are_gone_is_replaced_and_spoken_of_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, victims: slice
):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 2}) as client:
        client.ask("state")
    old = hosts_in(path)
    for _, _, pid, _ in old[victims]:
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
    job = ProcessJob({"hosts": 2})

    hosts = job.state(path)

    names = ", ".join(name for name, *_ in old[victims])
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the job in {path} cannot be used: {len(old[victims])} of its 2 hosts are gone ({names}). "
        "A new job is started."
    )
    assert hosts.hosts.initialized.get(20) is True
    wait_gone(*(pid for _, _, pid, _ in old))
    assert [address for _, address, *_ in old if Path(address).parent.exists()] == []
    job.kill()


def test_a_job_of_another_size_is_ended_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "job.json"
    ProcessJob({"hosts": 1}).state(path)
    old = pids_in(path)
    job = ProcessJob({"hosts": 2})

    job.state(path)

    assert [pid for pid in old if exists(pid)] == []
    assert len(pids_in(path)) == 2
    assert "it has the hosts {'hosts': 1}, and {'hosts': 2} are asked for" in caplog.text
    job.kill()


def test_the_state_of_a_job_that_lost_a_host_is_refused_until_it_is_killed(tmp_path: Path):
    job = ProcessJob({"hosts": 2})
    job.state(tmp_path / "job.json")
    victim = pids_in(tmp_path / "job.json")[1]
    os.kill(victim, signal.SIGKILL)
    wait_gone(victim)

    with pytest.raises(RuntimeError, match=r"lost connection .* 1 of its 2 hosts .* \(hosts_1\)"):
        job.state()

    job.kill()
    with private(job) as hosts:
        assert hosts.hosts.initialized.get(20) is True


def test_a_host_that_cannot_start_is_reported_at_once_with_what_it_wrote(tmp_path: Path):
    began = time.monotonic()

    with pytest.raises(RuntimeError, match=r"host 'hosts_[01]' .*\n(.*\n)*.*no such prefix") as e:
        ProcessJob({"hosts": 2}, env={"PYTHONHOME": "/no such prefix"}).state(tmp_path / "job.json")

    assert time.monotonic() - began < 5
    assert len(str(e.value)) < 2500
    assert list(tmp_path.iterdir()) == []


def test_a_host_mesh_of_a_job_can_be_shut_down_by_itself():
    job = ProcessJob({"trainers": 2, "loaders": 1})
    with private(job) as hosts:
        trainers = hosts.trainers.spawn_procs().spawn("trainer", Process)
        loader = hosts.loaders.spawn_procs().spawn("loader", Process)
        gone = [pid for pair in trainers.pids.call().get(20).values() for pid in pair]
        kept = list(loader.pids.call().get(20).values())

        hosts.trainers.shutdown().get(20)

        assert [pid for pid in gone if exists(pid)] == []
        assert list(loader.pids.call().get(20).values()) == kept


def test_a_second_client_can_shut_the_hosts_down(tmp_path: Path):
    path = tmp_path / "job.json"
    with Client(path, {"hosts": 1}) as maker:
        maker.ask("state")
        maker.leave()
    agents = pids_in(path)
    job = ProcessJob({"hosts": 1})

    job.state(path).hosts.shutdown().get(20)

    assert [pid for pid in agents if exists(pid)] == []
    job.kill()
    assert list(tmp_path.iterdir()) == []


def test_stopping_a_host_mesh_ends_the_processes_that_were_spawned_through_it_only():
    job = ProcessJob({"hosts": 2})
    with private(job) as first:
        second = job.state(cached_path=None)
        one = first.hosts.spawn_procs().spawn("one", Process)
        two = second.hosts.spawn_procs().spawn("two", Process)
        gone = [pid for pid, _ in one.pids.call().get(20).values()]
        kept = list(two.pids.call().get(20).values())

        first.hosts.stop().get(20)

        assert [pid for pid in gone if exists(pid)] == []
        assert list(two.pids.call().get(20).values()) == kept
        assert first.hosts.spawn_procs().initialized.get(20) is True


def test_a_shut_down_host_mesh_refuses_further_use():
    with private(ProcessJob({"hosts": 1})) as hosts:
        hosts.hosts.shutdown().get(20)

        with pytest.raises(RuntimeError, match="HostMesh has already been shut down"):
            hosts.hosts.spawn_procs()
        with pytest.raises(RuntimeError, match="HostMesh has already been shut down"):
            hosts.hosts.shutdown()


def test_only_the_whole_of_a_host_mesh_can_be_shut_down():
    with (
        private(ProcessJob({"hosts": 2})) as hosts,
        pytest.raises(RuntimeError, match="a reference instead of owned"),
    ):
        hosts.hosts.slice(hosts=1).shutdown()


async def test_leaving_the_context_of_a_host_mesh_shuts_it_down():
    job = ProcessJob({"hosts": 1})
    try:
        state = job.state(cached_path=None)
        async with state.hosts as hosts:
            actors = hosts.spawn_procs().spawn("process", Process)
            ((pid, agent),) = (await actors.pids.call()).values()

        assert not exists(pid)
        assert not exists(agent)
    finally:
        job.kill()


def test_a_host_that_is_gone_is_named_by_initialized():
    with private(ProcessJob({"hosts": 2})) as hosts:
        actors = hosts.hosts.spawn_procs().spawn("process", Process)
        agent = actors.slice(hosts=1).pids.call_one().get(20)[1]
        hosts.hosts.stop().get(20)
        os.kill(agent, signal.SIGKILL)
        wait_gone(agent)

        with pytest.raises(RuntimeError, match="attach failed: host 'hosts_1' is lost"):
            hosts.hosts.initialized.get(20)
