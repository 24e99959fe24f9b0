"""SkyPilotJob without SkyPilot: what it asks for, and what it does with the answers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from danaus._job import skypilot
from danaus._job.trait import job_loads
from danaus.errors import MissingExtra
from danaus.job import JobKey, SkyPilotJob

KEY = JobKey.make()


class FakeSky:
    """Notes what it is asked, and answers what it is told to."""

    def __init__(self, nodes: int = 3) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.nodes = [(f"10.0.0.{i}", f"192.0.2.{i}") for i in range(nodes)]
        self.status = "UP"
        self.ended = False
        self.fails = ""

    def launch(
        self, config: dict[str, Any], cluster: str, *, idle_minutes: int | None, down: bool
    ) -> int:
        self.calls.append(("launch", cluster, idle_minutes, down))
        if self.fails:
            raise RuntimeError(self.fails)
        self.config = config
        return 7

    def addresses(self, cluster: str) -> list[tuple[str, str]]:
        return self.nodes

    def state(self, cluster: str) -> str:
        return self.status

    def has_ended(self, cluster: str, number: int | None) -> bool:
        self.calls.append(("has_ended", cluster, number))
        return self.ended

    def logs(self, cluster: str, number: int | None) -> str:
        return "no module named danaus"

    def down(self, cluster: str) -> None:
        self.calls.append(("down", cluster))


class Job(SkyPilotJob):
    """A job whose SkyPilot is a fake, and whose nodes listen or not."""

    sky = FakeSky()

    def _sky(self) -> Any:
        return self.sky


@pytest.fixture
def sky(monkeypatch: pytest.MonkeyPatch) -> FakeSky:
    made = FakeSky()
    monkeypatch.setattr(Job, "sky", made)
    monkeypatch.setattr(skypilot, "_listens", lambda _host, _port: True)
    return made


@pytest.mark.skipif(find_spec("sky") is not None, reason="SkyPilot is installed")
def test_without_skypilot_the_error_names_the_extra_and_no_job_is_left():
    job = SkyPilotJob({"trainers": 1})

    with pytest.raises(MissingExtra, match=r"pip install 'danaus\[skypilot\]'"):
        job.apply()

    assert not job.active


def test_the_task_runs_a_worker_on_each_node_with_the_key_as_a_secret():
    job = SkyPilotJob(
        {"trainers": 2, "loaders": 1},
        {"infra": "aws", "ports": 8080},
        python_exe="/opt/venv/bin/python",
        setup_commands=["pip install danaus", "nvidia-smi"],
        file_mounts={"/data": "s3://bucket"},
    )

    config = job.task_config(KEY)

    assert config == {
        "name": "danaus",
        "num_nodes": 3,
        "resources": {"infra": "aws", "ports": ["8080", "22222"]},
        "secrets": {"DANAUS_JOB_KEY": KEY.pem},
        "setup": "set -e\npip install danaus\nnvidia-smi",
        "run": "names=(trainers_0 trainers_1 loaders_0)\n"
        "exec /opt/venv/bin/python -m danaus_cli worker --address 'tcp://*:22222' "
        '--name "${names[$SKYPILOT_NODE_RANK]}"\n',
        "file_mounts": {"/data": "s3://bucket"},
    }


def test_the_nodes_become_the_hosts_of_the_meshes_in_order(sky: FakeSky):
    job = Job({"trainers": 2, "loaders": 1}, danaus_port=26600, idle_minutes_to_autostop=5)

    job.apply()

    assert job._workers == {
        "trainers": ["tcp://192.0.2.0:26600", "tcp://192.0.2.1:26600"],
        "loaders": ["tcp://192.0.2.2:26600"],
    }
    assert sky.calls == [("launch", job.cluster, 5, True)]
    assert job.cluster == f"danaus-{(job.apply_id or '')[:8]}"


def test_nodes_are_reached_inside_of_the_cluster_where_that_is_asked_for(sky: FakeSky):
    job = Job({"trainers": 3}, internal_ips=True)

    job.apply()

    assert job._addresses[0] == "tcp://10.0.0.0:22222"


def test_kill_deletes_the_cluster_and_another_client_can_do_so(sky: FakeSky):
    job = Job({"trainers": 3}, cluster_name="mine")
    job.apply()

    again = job_loads(job.dumps())
    again.kill()

    assert sky.calls[-1] == ("down", "mine")
    assert isinstance(again, Job)
    assert again.task_config(KEY) == job.task_config(KEY)


def test_a_launch_that_fails_says_why_and_deletes_what_there_may_be(sky: FakeSky):
    sky.fails = "SkyPilot could not launch cluster 'mine': no H100 is free"
    job = Job({"trainers": 3}, cluster_name="mine")

    with pytest.raises(RuntimeError, match="no H100 is free"):
        job.apply()

    assert sky.calls[-1] == ("down", "mine")


def test_fewer_nodes_than_asked_for_are_refused_and_deleted(sky: FakeSky):
    sky.nodes = sky.nodes[:2]

    with pytest.raises(RuntimeError, match="has 2 nodes, and 3 are needed"):
        Job({"trainers": 3}, cluster_name="mine").apply()

    assert sky.calls[-1] == ("down", "mine")


def test_workers_that_cannot_start_are_told_at_once_with_their_words(
    sky: FakeSky, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(skypilot, "_listens", lambda _host, _port: False)
    sky.ended = True

    with pytest.raises(RuntimeError, match="ended as they started: no module named danaus"):
        Job({"trainers": 3}).apply()

    assert sky.calls[-2][0::2] == ("has_ended", 7)


def test_a_cluster_that_is_gone_or_stopped_is_no_running_job(sky: FakeSky):
    job = Job({"trainers": 3}, cluster_name="mine")
    job.apply()

    sky.status = "STOPPED"

    assert job._unfit_for(Job({"trainers": 3}, cluster_name="mine")) == (
        "SkyPilot's cluster 'mine' is STOPPED"
    )


def test_what_cannot_work_is_refused_before_anything_is_launched(sky: FakeSky):
    with pytest.raises(RuntimeError, match="needs nodes"):
        Job().apply()
    with pytest.raises(RuntimeError, match="there is no folder /nowhere"):
        Job({"trainers": 1}, workdir="/nowhere").apply()
    with pytest.raises(ValueError, match="at least 1 node, got 0"):
        Job({"trainers": 0})
    with pytest.raises(TypeError, match=r"resources are a sky\.Resources or a mapping"):
        Job({"trainers": 1}, "A100")
    assert sky.calls == []
