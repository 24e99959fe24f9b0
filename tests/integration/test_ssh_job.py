"""SSHJob on a real sshd."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus.job import SSHJob, job_load
from danaus.testing import wait_until
from examples.anywhere import count_words
from tests.cluster.python import interpreter
from tests.cluster.sshd import SshServer, is_installed, ssh_server
from tests.integration.remote_actors import call_all

PATIENCE = 30.0

pytestmark = pytest.mark.skipif(not is_installed(), reason="OpenSSH is not installed")


@pytest.fixture
def server(tmp_path: Path) -> Generator[SshServer]:
    with ssh_server(tmp_path) as made:
        yield made


def make(server: SshServer, folder: Path, *, detached: bool = False) -> SSHJob:
    python = interpreter(folder)
    job = SSHJob(str(python), server.arguments, danaus_port=0, detached=detached)
    job.add_mesh("trainers", ["node1", "node2"])
    job.add_mesh("loaders", ["node3"])
    return job


def test_a_job_provides_its_meshes_and_ends(server: SshServer, tmp_path: Path):
    job = make(server, tmp_path)

    assert call_all(job) == [5] * 4 + [6]

    job.kill()
    assert not job.active
    job.kill()


def test_the_example_runs_by_ssh(
    server: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job = SSHJob(str(interpreter(tmp_path)), server.arguments, danaus_port=0)
    job.add_mesh("readers", ["node1", "node2"])

    count_words(job)

    assert "2 hosts, 4 readers: [('the', 200)" in capsys.readouterr().out


def test_a_detached_job_is_found_again_and_ended(server: SshServer, tmp_path: Path):
    path = tmp_path / "state" / "job.json"
    assert call_all(make(server, tmp_path, detached=True), path) == [5] * 4 + [6]

    again = make(server, tmp_path, detached=True)
    assert call_all(again, path) == [5] * 4 + [6]
    assert job_load(path).apply_id == again.apply_id

    again.kill()
    assert not path.exists()


def folders() -> set[Path]:
    """What detached workers have; logins have no TMPDIR."""
    return set(Path("/tmp").glob("danaus-job-*"))


def test_detached_workers_leave_no_folder_when_they_end(server: SshServer, tmp_path: Path):
    before = folders()
    job = make(server, tmp_path, detached=True)
    job.apply()
    assert len(folders() - before) == 3

    job.kill()

    wait_until(lambda: not folders() - before, timeout=PATIENCE, what="no folder")


def test_a_detached_worker_that_cannot_start_leaves_no_folder(server: SshServer):
    before = folders()
    job = SSHJob("/no/such/python", server.arguments, detached=True)
    job.add_mesh("trainers", ["node1"])

    with pytest.raises(RuntimeError, match=r"/no/such/python"):
        job.apply()

    wait_until(lambda: not folders() - before, timeout=PATIENCE, what="no folder")


def test_a_stale_job_is_replaced_and_that_is_said(
    server: SshServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """J1."""
    path = tmp_path / "state" / "job.json"
    first = make(server, tmp_path, detached=True)
    hosts = first.state(cached_path=path)
    hosts.trainers.shutdown().get(PATIENCE)
    hosts.loaders.shutdown().get(PATIENCE)

    again = make(server, tmp_path, detached=True)
    assert call_all(again, path) == [5] * 4 + [6]

    assert "cannot be used" in caplog.text
    assert first.apply_id != again.apply_id
    again.kill()


def test_a_wrong_interpreter_is_told_with_the_words_of_the_shell(server: SshServer, tmp_path: Path):
    """J5, J6."""
    job = SSHJob("/no/such/python", server.arguments)
    job.add_mesh("trainers", ["node1"])

    with pytest.raises(RuntimeError, match=r"(?s)node1.*/no/such/python"):
        job.apply()
    assert not job.active


def test_a_host_that_lets_nobody_in_is_named(tmp_path: Path):
    job = SSHJob("python", ["-o", "ConnectTimeout=3", "-p", "1"])
    job.add_mesh("trainers", ["127.0.0.1"])

    with pytest.raises(RuntimeError, match=r"(?s)127\.0\.0\.1.*refused"):
        job.apply()


def test_workers_end_when_their_connection_does(
    server: SshServer, tmp_path: Path, failures: object
):
    job = make(server, tmp_path)
    assert call_all(job) == [5] * 4 + [6]

    for connection in job._connections:
        process = connection._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(Exception, match=r"gone|nobody|shut down"):
        wait_until(lambda: bool(call_all(job)) and False, timeout=PATIENCE)
    job.kill()


@pytest.mark.parametrize("name", ["", "_x", 7])
def test_names_that_cannot_be_meshes_are_refused(name: str):
    with pytest.raises((ValueError, TypeError), match="host mesh"):
        SSHJob().add_mesh(name, ["node1"])


@pytest.mark.parametrize("hosts", ["node1", [], ["-oProxyCommand=x"], [3]])
def test_odd_hosts_are_refused(hosts: list[str]):
    with pytest.raises((ValueError, TypeError)):
        SSHJob().add_mesh("trainers", hosts)
