"""SlurmJob on a real Slurm cluster."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus.job import JobKey, SlurmJob, job_load
from danaus.spmd import host_mesh_from_reports
from danaus.testing import wait_until
from examples.anywhere import count_words
from tests.cluster.python import interpreter
from tests.cluster.slurm import is_installed, slurm_cluster
from tests.integration.remote_actors import Counter, call_all

PATIENCE = 40.0

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason="Slurm is not installed"),
    pytest.mark.timeout(120),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as configuration:
        yield configuration


@pytest.fixture
def make(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[object]:
    """Makes jobs on the cluster; those that run are ended."""
    monkeypatch.setenv("SLURM_CONF", str(cluster))
    monkeypatch.chdir(tmp_path)
    python = interpreter(tmp_path)
    made: list[SlurmJob] = []

    def make_job(**options: object) -> SlurmJob:
        arguments = {
            "meshes": {"trainers": 2, "loaders": 1},
            "python_exe": str(python),
            "danaus_port": 0,
            "log_dir": str(tmp_path / "jobs"),
            **options,
        }
        job = SlurmJob(**arguments)
        made.append(job)
        return job

    yield make_job
    for job in made:
        job.kill()
    wait_until(lambda: not queue(), timeout=PATIENCE, what="an empty queue")


def queue() -> list[str]:
    done = subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_several_meshes_run_in_one_allocation(make):
    job = make()

    assert call_all(job) == [5] * 4 + [6]
    assert set(job.logs()) == {"trainers_0", "trainers_1", "loaders_0"}

    job.kill()


def test_the_example_runs_on_slurm(make, capsys: pytest.CaptureFixture[str]):
    count_words(make(meshes={"readers": 2}))

    assert "2 hosts, 4 readers: [('the', 200)" in capsys.readouterr().out


def test_each_worker_runs_on_a_node_of_its_own(make):
    job = make()
    state = job.state(cached_path=None)
    trainers = state.trainers.spawn_procs().spawn("counters", Counter)

    names = {v["SLURMD_NODENAME"] for v in trainers.variables.call().get(PATIENCE).values()}

    assert len(names) == 2


def test_a_job_in_a_state_file_is_found_again(make, tmp_path: Path):
    path = tmp_path / "state.json"
    first = make()
    assert call_all(first, path) == [5] * 4 + [6]

    again = make()
    assert call_all(again, path) == [5] * 4 + [6]

    loaded = job_load(path)
    assert isinstance(loaded, SlurmJob)
    assert loaded.job_id == first.job_id


def test_a_job_that_was_cancelled_is_replaced_and_that_is_said(
    make, tmp_path: Path, caplog: pytest.LogCaptureFixture, failures: object
):
    """J1."""
    path = tmp_path / "state.json"
    first = make()
    first.state(cached_path=path)
    subprocess.run(["scancel", first.job_id], check=True)
    wait_until(lambda: not queue(), timeout=PATIENCE, what="an empty queue")

    again = make()
    assert call_all(again, path) == [5] * 4 + [6]

    assert "cannot be used" in caplog.text


def test_submitting_from_within_an_allocation_makes_a_job_of_its_own(
    make, monkeypatch: pytest.MonkeyPatch
):
    """J3."""
    for name, value in {
        "SLURM_JOB_ID": "999",
        "SLURM_NODELIST": "n1",
        "SLURM_NTASKS": "1",
        "SBATCH_NODELIST": "n9",
    }.items():
        monkeypatch.setenv(name, value)

    assert call_all(make()) == [5] * 4 + [6]


def test_a_wrong_interpreter_is_found_before_submission(make):
    """J5."""
    with pytest.raises(RuntimeError, match="no interpreter at /no/such/python"):
        make(python_exe="/no/such/python").apply()
    assert queue() == []


def test_a_worker_that_cannot_start_is_told_with_its_words(make, tmp_path: Path):
    """J6."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no module named danaus here' >&2\nexit 1\n")
    broken.chmod(0o755)

    with pytest.raises(RuntimeError, match="no module named danaus here"):
        make(python_exe=str(broken)).apply()
    wait_until(lambda: not queue(), timeout=PATIENCE, what="an empty queue")


def test_what_the_scheduler_refuses_is_told_in_its_words(make):
    with pytest.raises(RuntimeError, match=r"Failed to submit SLURM job: .*partition"):
        make(partition="nowhere").apply()


def test_a_job_that_waits_too_long_is_cancelled(make):
    blocker = make(meshes={"all": 4})
    blocker.apply()

    with pytest.raises(RuntimeError, match="has waited for"):
        make(job_start_timeout=1.0).apply()


def test_several_hosts_share_a_node(make):
    job = make(meshes={"trainers": 1, "loaders": 1})
    job.share_node(2)

    state = job.state(cached_path=None)

    assert state.trainers.sizes == {"hosts": 2}
    actors = state.trainers.spawn_procs().spawn("counters", Counter)
    assert list(actors.add.call(3).get(PATIENCE).values()) == [3, 3]


SCRIPT = """
from danaus.job import SlurmJob
from tests.integration.remote_actors import Counter
job = SlurmJob({"trainers": 7})  # whatever it asks for: it runs inside of a job
trainers = job.state().trainers.spawn_procs().spawn("counters", Counter)
with open("answer", "w") as file:
    print(sum(trainers.add.call(4).get(40).values()), file=file)
"""


def test_a_script_runs_inside_of_its_job(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    interpreter(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    job = make()

    job.apply(str(script))

    answer = tmp_path / "answer"
    wait_until(
        lambda: answer.exists() and answer.read_text().strip() == "8",
        timeout=PATIENCE,
        what="the script's answer",
    )
    wait_until(lambda: not queue(), timeout=PATIENCE, what="the end of the job")


def test_workers_of_srun_are_found_by_their_reports(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SLURM_CONF", str(cluster))
    JobKey.make().save(tmp_path / "job.key")
    command = ["srun", "-N2", "--ntasks-per-node=2", str(interpreter(tmp_path)), "-m", "danaus_cli"]
    command += ["worker", "--address", "tcp://*:0", "--key", str(tmp_path / "job.key")]
    with subprocess.Popen([*command, "--report", f"{tmp_path}/reports/"]) as srun:
        hosts = host_mesh_from_reports(tmp_path / "reports", 4, key=str(tmp_path / "job.key"))
        actors = hosts.spawn_procs().spawn("counters", Counter)
        variables = list(actors.variables.call().get(PATIENCE).values())
        hosts.shutdown().get(PATIENCE)
        assert srun.wait(PATIENCE) == 0

    assert [v["SLURM_PROCID"] for v in variables] == ["0", "1", "2", "3"]
    assert [v["SLURM_LOCALID"] for v in variables] == ["0", "1", "0", "1"]


def test_ranks_of_srun_find_each_other_by_a_store(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SLURM_CONF", str(cluster))
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "store").mkdir()
    rank = Path(__file__).with_name("spmd_rank.py")
    command = ["srun", "-N2", "--ntasks-per-node=2", str(interpreter(tmp_path)), str(rank)]

    done = subprocess.run(
        [*command, "file", str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "answers [[0, null], [0, null], [1, null], [1, null]]\n"
