"""RayJob on a real Ray cluster of several raylets."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from danaus.actor import SupervisionError
from danaus.job import RayJob, job_load
from danaus.testing import wait_until
from examples.anywhere import count_words
from tests.cluster.raylets import Raylets, is_installed, ray_cluster
from tests.integration.remote_actors import Counter, call_all

PATIENCE = 40.0

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason="Ray is not installed"),
    pytest.mark.leaks("processes", reason="Ray starts workers in advance; hosts are looked for"),
    pytest.mark.slow,
]

Make = Callable[..., RayJob]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Raylets]:
    root = Path(__file__).parents[2]
    before = os.environ.get("PYTHONPATH")
    # The nodes find this Danaus, and the actors of the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (root / "src", root)))
    try:
        with ray_cluster(tmp_path_factory.mktemp("ray")) as made:
            yield made
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def make(cluster: Raylets) -> Generator[Make]:
    """Makes jobs on the cluster; nothing of them may be left."""
    made: list[RayJob] = []

    def make_job(**options: object) -> RayJob:
        arguments = {
            "meshes": {"trainers": 2, "loaders": 1},
            "address": cluster.address,
            **options,
        }
        job = RayJob(**arguments)
        made.append(job)
        return job

    yield make_job
    for job in made:
        job.kill()
    wait_until(lambda: not cluster.groups(), timeout=PATIENCE, what="no placement group")
    wait_until(lambda: not cluster.hosts(), timeout=PATIENCE, what="no host")


def test_a_job_provides_its_meshes_and_ends(make: Make, cluster: Raylets):
    job = make()

    assert call_all(job) == [5] * 4 + [6]
    assert cluster.groups() == [f"danaus-{job.apply_id}"]

    job.kill()
    assert not job.active
    assert cluster.groups() == []
    job.kill()


def test_the_example_runs_on_ray(make: Make, capsys: pytest.CaptureFixture[str]):
    count_words(make(meshes={"readers": 2}))

    assert "2 hosts, 4 readers: [('the', 200)" in capsys.readouterr().out


def test_each_host_is_on_a_node_with_what_it_needs(make: Make):
    job = make(meshes={"loaders": 1})
    job.add_mesh("trainers", 3, {"slot": 1})

    trainers = job.state(cached_path=None).trainers.spawn_procs().spawn("counters", Counter)

    variables = trainers.variables.call().get(PATIENCE).values()
    assert len({v["RAY_RAYLET_PID"] for v in variables}) == 3


def test_a_job_in_a_state_file_is_found_again_and_ended(
    make: Make, cluster: Raylets, tmp_path: Path
):
    path = tmp_path / "job.json"
    first = make()
    assert call_all(first, path) == [5] * 4 + [6]

    again = make()
    assert call_all(again, path) == [5] * 4 + [6]
    assert again.apply_id == first.apply_id
    assert isinstance(job_load(path), RayJob)
    assert set(again.logs()) == {"trainers_0", "trainers_1", "loaders_0"}

    again.kill()
    assert not path.exists()
    assert cluster.hosts() == []


def test_what_the_workers_wrote_is_had_by_host(make: Make):
    job = make()
    job.apply()

    assert '"name": "loaders_0"' in job.logs()["loaders_0"]


def test_a_job_whose_hosts_were_shut_down_is_replaced(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, cluster: Raylets
):
    """J1. The last of its hosts gives back the place that it had."""
    path = tmp_path / "job.json"
    first = make()
    state = first.state(cached_path=path)
    state.trainers.shutdown().get(PATIENCE)
    state.loaders.shutdown().get(PATIENCE)
    wait_until(lambda: not cluster.groups(), timeout=PATIENCE, what="no placement group")

    again = make()
    assert call_all(again, path) == [5] * 4 + [6]

    assert "cannot be used" in caplog.text
    assert again.apply_id != first.apply_id


def test_a_spare_takes_the_place_of_a_host_whose_actor_was_killed(make: Make, failures: object):
    job = make(meshes={"trainers": 3})
    job.keep_spares(trainers=1)
    procs = job.state(cached_path=None).trainers.spawn_procs()
    counters = procs.spawn("counters", Counter)
    zygote = parent(counters.slice(hosts=1).pid.call_one().get(PATIENCE))
    agent = parent(zygote)

    os.kill(parent(agent), signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{agent}").exists(), timeout=PATIENCE, what="its end")
    with pytest.raises(SupervisionError):
        counters.slice(hosts=1).add.call_one(1).get(PATIENCE)
    procs.respawn().get(PATIENCE)

    assert list(counters.add.call(2).get(PATIENCE).values()) == [2, 2]
    assert set(job.logs()) == {"trainers_0", "trainers_2"}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


CLIENT = """
import sys, time
from danaus.job import RayJob
job = RayJob({"trainers": 2}, address=sys.argv[1])
job.state(cached_path=sys.argv[2] if len(sys.argv) > 2 else None)
print(job._driver._process.pid if job._driver else 0, flush=True)
time.sleep(1000)
"""


def start_client(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """A client with a job that runs, and the pid of its driver of Ray."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    return client, int(client.stdout.readline())


def test_a_client_that_is_killed_leaves_no_host(make: Make, cluster: Raylets):
    client, _ = start_client(cluster.address)
    assert len(cluster.groups()) == 1
    assert cluster.hosts()

    with client:
        client.kill()

    wait_until(lambda: not cluster.hosts(), timeout=PATIENCE, what="no host")


def test_a_client_and_its_driver_that_are_killed_leave_no_host(make: Make, cluster: Raylets):
    client, driver = start_client(cluster.address)
    assert len(cluster.groups()) == 1

    with client:
        os.kill(driver, signal.SIGKILL)
        client.kill()

    wait_until(lambda: not cluster.hosts(), timeout=PATIENCE, what="no host")


def test_a_job_in_a_state_file_outlives_a_client_that_is_killed(
    make: Make, cluster: Raylets, tmp_path: Path
):
    path = tmp_path / "job.json"
    client, driver = start_client(cluster.address, str(path))
    assert driver == 0
    with client:
        client.kill()

    job = job_load(path)
    trainers = job.state(cached_path=None).trainers.spawn_procs().spawn("counters", Counter)
    assert list(trainers.add.call(7).get(PATIENCE).values()) == [7, 7]

    job.kill()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"meshes": {"trainers": 5}}, "5 nodes are needed, one for each host, and 4 of its 4"),
        ({"resources": {"GPU": 1}}, "none of its 4 nodes has GPU 1; they have GPU 0"),
        ({"meshes": {"all": 4}, "resources": {"slot": 1}}, "4 nodes are needed"),
        ({"resources": {"CPU": 3}, "strategy": "PACK"}, "none of its 4 nodes has CPU 3"),
        ({"meshes": {"all": 8}, "strategy": "PACK"}, "8 CPU are needed, and its nodes have 7"),
    ],
)
def test_what_the_cluster_can_never_have_is_refused_at_once(
    make: Make, cluster: Raylets, options: dict[str, object], words: str
):
    """J5."""
    job = make(**options)

    with pytest.raises(RuntimeError, match=words):
        job.apply()

    assert not job.active
    assert cluster.groups() == []


def test_a_job_that_waits_too_long_for_its_place_is_withdrawn(make: Make):
    make(meshes={"all": 3}, resources={"slot": 1}).apply()

    with pytest.raises(RuntimeError, match=r"no place for 1 hosts for 1 s.*slot 0 is free"):
        make(meshes={"one": 1}, resources={"slot": 1}, start_timeout=1.0).apply()


def test_a_wrong_interpreter_is_told_by_host(make: Make):
    """J5."""
    with pytest.raises(RuntimeError, match=r"host 'one_0' .*/no/such/python"):
        make(meshes={"one": 1}, python_exe="/no/such/python").apply()


def test_a_worker_that_cannot_start_is_told_with_its_words(make: Make, tmp_path: Path):
    """J6."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no module named danaus here' >&2\nexit 1\n")
    broken.chmod(0o755)

    with pytest.raises(RuntimeError, match="no module named danaus here"):
        make(python_exe=str(broken)).apply()


def test_a_cluster_that_is_not_there_is_named():
    with pytest.raises(RuntimeError, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        RayJob({"trainers": 1}, address="127.0.0.1:1").apply()
