"""What a scheduler of one's own inherits."""

from __future__ import annotations

import sys

import pytest

from danaus._job.remote import RemoteJob, worker_command
from danaus._job.trait import job_loads
from danaus.job import JobKey


class QueueJob(RemoteJob):
    """Asks for nodes of a queue that does not exist."""

    def __init__(self, nodes: int = 2, queue: str = "batch", fail: str = "") -> None:
        super().__init__()
        self.nodes = nodes
        self.queue = queue
        self._fail = fail
        self._ended: list[dict[str, object]] = []

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        self._ticket["id"] = 17
        if self._fail:
            raise RuntimeError(self._fail)
        return {"nodes": [f"tcp://127.0.0.1:{i + 1}" for i in range(self.nodes)]}

    def _end(self) -> None:
        self._ended.append(dict(self._ticket))


def test_what_is_asked_for_are_the_public_attributes():
    assert QueueJob(3)._wish() == {"nodes": 3, "queue": "batch"}


def test_what_json_does_not_have_cannot_be_asked_for():
    job = QueueJob()
    job.queue = object()  # type: ignore[assignment]

    with pytest.raises(TypeError, match="attribute 'queue' holds a object"):
        job._wish()


def test_a_job_comes_back_from_json_with_its_wish_and_the_ticket_of_the_scheduler():
    job = QueueJob(3, "gpu")
    job.apply()

    again = job_loads(job.dumps())

    assert isinstance(again, QueueJob)
    assert (again.nodes, again.queue) == (3, "gpu")
    assert again._ticket == {"id": 17}
    assert again._addresses == job._addresses
    assert again._key == job._key
    assert again.apply_id == job.apply_id


def test_a_launch_that_fails_is_ended_with_its_ticket():
    job = QueueJob(fail="the queue is closed")

    with pytest.raises(RuntimeError, match="the queue is closed"):
        job.apply()

    assert job._ended == [{"id": 17}]
    assert job._ticket == {}
    assert not job.active


def test_a_kill_ends_with_the_ticket_and_forgets_it():
    job = QueueJob()
    job.apply()

    job.kill()

    assert job._ended == [{"id": 17}]
    assert job._ticket == {}
    assert job._addresses == []


def test_another_wish_is_another_job():
    job = QueueJob()
    job.apply()

    assert "it has" in (job._unfit_for(QueueJob(3)) or "")
    assert job._unfit_for(RunsNowhere()) == "it is a QueueJob"


class RunsNowhere(QueueJob):
    """Of another class."""


def test_a_script_to_run_inside_of_the_job_is_refused():
    with pytest.raises(RuntimeError, match="QueueJob cannot run batch-mode scripts"):
        QueueJob().apply("script.py")


@pytest.mark.parametrize(("spares", "words"), [(2, "of 2 hosts cannot keep 2"), (5, "keep 5")])
def test_a_mesh_keeps_at_least_one_host_beside_its_spares(spares: int, words: str):
    job = QueueJob()
    job.keep_spares(nodes=spares)
    job.apply()

    with pytest.raises(ValueError, match=words):
        job._state()


def test_spares_of_a_mesh_that_is_not_there_are_refused_with_those_that_are():
    job = QueueJob()
    job.keep_spares(trainers=1)
    job.apply()

    with pytest.raises(ValueError, match=r"'trainers'.*the job has nodes"):
        job._state()


def test_fewer_than_no_spares_are_refused():
    with pytest.raises(ValueError, match="cannot have -1 spares"):
        QueueJob().keep_spares(nodes=-1)


def test_the_command_of_a_worker_says_only_what_was_asked_for():
    assert worker_command() == [
        *[sys.executable, "-m", "danaus_cli", "worker"],
        *["--address", "tcp://*:0", "--key", "-"],
    ]
    assert worker_command(
        "/opt/python", name="n", address="tcp://h:1", key="/k", report="/r", until_eof=True
    ) == [
        *["/opt/python", "-m", "danaus_cli", "worker", "--address", "tcp://h:1", "--key", "/k"],
        *["--name", "n", "--report", "/r", "--until-eof"],
    ]
