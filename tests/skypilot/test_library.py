"""The seam to SkyPilot, on its real task and resource objects; only calls to a cloud are replaced.

This needs SkyPilot (``pip install 'danaus[skypilot]'``), which is too large for the development
environment.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from danaus._job.skypilot_calls import GONE, SkyPilot
from danaus.job import JobKey, SkyPilotJob

pytestmark = [
    pytest.mark.skipif(find_spec("sky") is None, reason="SkyPilot is not installed"),
    pytest.mark.timeout(120),
    pytest.mark.leaks("threads", "fds", "files", reason="the library's own"),
]

KEY = JobKey.make()


@pytest.fixture
def sky() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sky as library  # pyright: ignore[reportMissingImports]  # as above
    return library


@pytest.fixture
def calls(sky: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the library is asked for; requests are answered by `answers`."""
    noted: dict[str, Any] = {"answers": {}}

    def stub(name: str) -> None:
        def call(*args: Any, **kwargs: Any) -> str:
            noted[name] = (args, kwargs)
            return name

        monkeypatch.setattr(sky, name, call)

    for name in ("launch", "status", "down", "job_status"):
        stub(name)

    def get(request: str) -> Any:
        answer = noted["answers"].get(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sky, "get", get)
    return noted


def test_the_library_takes_the_task_as_it_is_meant(sky: Any):
    job = SkyPilotJob(
        {"trainers": 3},
        {"cpus": "4+", "memory": "16+", "use_spot": True},
        setup_commands="pip install danaus",
        danaus_port=26600,
    )

    task = SkyPilot().task(job.task_config(KEY))

    assert isinstance(task, sky.Task)
    assert task.num_nodes == 3
    assert task.setup == "set -e\npip install danaus"
    assert "danaus_cli worker --address 'tcp://*:26600'" in task.run
    (resources,) = task.resources
    assert isinstance(resources, sky.Resources)
    assert (resources.cpus, resources.memory, resources.use_spot) == ("4+", "16+", True)
    assert resources.ports == ["26600"]
    assert task.secrets["DANAUS_JOB_KEY"].get_secret_value() == KEY.pem


def test_the_key_is_in_nothing_that_the_library_shows_or_notes(sky: Any):
    task = SkyPilot().task(SkyPilotJob({"trainers": 1}).task_config(KEY))

    shown = [repr(task), task.to_yaml_config(use_user_specified_yaml=True), task.envs]
    noted = {**vars(task), "_secrets": None}
    assert "PRIVATE KEY" not in f"{shown} {noted}"
    assert task.secrets["DANAUS_JOB_KEY"].get_secret_value() == KEY.pem


def test_resources_of_the_library_are_taken(sky: Any):
    asked = sky.Resources(cpus="2+", ports=["8080"])

    job = SkyPilotJob({"trainers": 1}, asked)

    (resources,) = SkyPilot().task(job.task_config(KEY)).resources
    assert resources.cpus == "2+"
    assert sorted(resources.ports) == ["22222", "8080"]


def test_what_the_library_refuses_is_told_in_its_words(sky: Any):
    job = SkyPilotJob({"trainers": 1}, {"cpu": 3})

    with pytest.raises(ValueError, match=r"SkyPilot refuses the task: .*cpu"):
        SkyPilot().task(job.task_config(KEY))


def test_a_launch_is_one_request_and_gives_the_number_of_the_run(sky: Any, calls: dict[str, Any]):
    calls["answers"]["launch"] = (7, object())

    number = SkyPilot().launch(
        SkyPilotJob({"trainers": 2}).task_config(KEY), "mine", idle_minutes=10, down=True
    )

    (task,), options = calls["launch"]
    assert number == 7
    assert task.num_nodes == 2
    assert options == {"cluster_name": "mine", "idle_minutes_to_autostop": 10, "down": True}


def test_launch_and_the_others_take_what_they_are_given(sky: Any):
    """The stubs above take anything; the library's own signatures do not."""
    from inspect import signature

    signature(sky.launch).bind(
        object(), cluster_name="c", idle_minutes_to_autostop=None, down=False
    )
    signature(sky.status).bind(cluster_names=["c"], refresh=sky.StatusRefreshMode.AUTO)
    signature(sky.down).bind("c")
    signature(sky.job_status).bind("c", [1])
    signature(sky.tail_logs).bind("c", 1, follow=False, output_stream=None)
    signature(sky.get).bind("request")


def test_a_launch_without_autostop_does_not_delete_the_cluster_by_itself(
    sky: Any, calls: dict[str, Any]
):
    calls["answers"]["launch"] = (1, None)

    SkyPilot().launch(
        SkyPilotJob({"trainers": 1}).task_config(KEY), "mine", idle_minutes=None, down=True
    )

    assert calls["launch"][1]["down"] is False


def test_a_launch_that_fails_is_told_in_the_librarys_words(sky: Any, calls: dict[str, Any]):
    calls["answers"]["launch"] = sky.exceptions.ResourcesUnavailableError("no H100 anywhere")

    with pytest.raises(RuntimeError, match=r"cluster 'mine'.*no H100 anywhere"):
        SkyPilot().launch(
            SkyPilotJob({"trainers": 1}).task_config(KEY), "mine", idle_minutes=None, down=True
        )


def record(sky: Any, **fields: Any) -> Any:
    """A record as the library makes it."""
    from sky.schemas.api.responses import (  # pyright: ignore[reportMissingImports]  # as above
        StatusResponse,
    )

    return StatusResponse.model_construct(name="mine", **fields)


def test_the_addresses_of_nodes_come_from_the_clusters_handle(sky: Any, calls: dict[str, Any]):
    handle = SimpleNamespace(
        internal_ips=lambda: ["10.0.0.1", "10.0.0.2"],
        external_ips=lambda: ["192.0.2.1", "192.0.2.2"],
    )
    calls["answers"]["status"] = [record(sky, handle=handle, status=sky.ClusterStatus.UP)]

    seam = SkyPilot()

    assert seam.addresses("mine") == [("10.0.0.1", "192.0.2.1"), ("10.0.0.2", "192.0.2.2")]
    assert seam.state("mine") == "UP"
    assert calls["status"][1]["cluster_names"] == ["mine"]


def test_a_handle_of_the_library_has_these_addresses(sky: Any):
    from sky.backends import (  # pyright: ignore[reportMissingImports]  # as above
        CloudVmRayResourceHandle,
    )

    handle = CloudVmRayResourceHandle.__new__(CloudVmRayResourceHandle)
    handle.stable_internal_external_ips = [("10.0.0.1", "192.0.2.1"), ("10.0.0.2", "192.0.2.2")]

    assert handle.internal_ips() == ["10.0.0.1", "10.0.0.2"]
    assert handle.external_ips() == ["192.0.2.1", "192.0.2.2"]


def test_a_cluster_that_is_unknown_is_gone(sky: Any, calls: dict[str, Any]):
    calls["answers"]["status"] = []

    assert SkyPilot().state("mine") == GONE
    assert SkyPilot().addresses("mine") == []


def test_a_run_has_ended_when_the_library_says_so(sky: Any, calls: dict[str, Any]):
    seam = SkyPilot()
    for status, ended in [
        (sky.JobStatus.RUNNING, False),
        (sky.JobStatus.SETTING_UP, False),
        (sky.JobStatus.FAILED_SETUP, True),
        (None, True),
    ]:
        calls["answers"]["job_status"] = {7: status}
        assert seam.has_ended("mine", 7) is ended


def test_a_cluster_that_is_gone_counts_as_deleted_and_other_failures_are_told(
    sky: Any, calls: dict[str, Any]
):
    seam = SkyPilot()
    seam.down("mine")
    assert calls["down"] == (("mine",), {})

    calls["answers"]["down"] = sky.exceptions.ClusterDoesNotExist("no such cluster")
    seam.down("mine")

    calls["answers"]["down"] = RuntimeError("the cloud does not answer")
    with pytest.raises(RuntimeError, match=r"may still cost money.*the cloud does not answer"):
        seam.down("mine")
