from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from danaus._job.local import BatchJob, LocalJob
from danaus._job.trait import BATCH, job_load, job_loads
from tests.unit._job.fake_job import KILLED, FakeJob


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KILLED.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(BATCH, raising=False)


@pytest.mark.parametrize("hosts", [[], "trainers", ["a", "b", "a"]])
def test_names_that_cannot_be_are_refused(hosts: Any):
    with pytest.raises(ValueError, match="list of different names"):
        LocalJob(hosts)


def test_a_local_job_can_run_nothing_for_another():
    assert LocalJob().can_run(LocalJob()) is False


def test_there_is_no_script_before_one_is_applied():
    with pytest.raises(ValueError, match="no local batch job"):
        _ = LocalJob().process


def test_a_script_that_does_not_exist_is_refused_before_anything_starts(tmp_path: Path):
    job = LocalJob()

    with pytest.raises(FileNotFoundError, match=r"there is no script 'train\.py' in "):
        job.apply("train.py")

    assert not job.active
    assert list(tmp_path.iterdir()) == []


def test_a_local_job_comes_back_with_its_names():
    job = job_loads(LocalJob(["a", "b"]).dumps())

    assert isinstance(job, LocalJob)
    assert job._hosts == ["a", "b"]


def test_a_batch_job_runs_anything_inside_of_it_and_nothing_outside(
    monkeypatch: pytest.MonkeyPatch,
):
    inner = FakeJob()
    inner.apply()
    job = BatchJob(inner)
    assert not job.can_run(FakeJob("whatever"))

    monkeypatch.setenv(BATCH, "1")

    assert job.can_run(FakeJob("whatever"))


def test_a_job_inside_of_a_batch_job_finds_that_ones_hosts(monkeypatch: pytest.MonkeyPatch):
    inner = FakeJob(hosts=["allocated"])
    inner.apply()
    BatchJob(inner).dump("job.json")
    monkeypatch.setenv(BATCH, "1")
    job = FakeJob("other", hosts=["asked"])

    state = job.state("job.json")

    assert hasattr(state, "allocated")
    assert job.apply_id == inner.apply_id


def test_killing_a_batch_job_kills_the_job_in_it():
    inner = FakeJob("inner")
    inner.apply()
    BatchJob(inner).dump("job.json")

    job_load("job.json").kill()

    assert KILLED == ["inner"]


def test_a_batch_job_of_a_script_that_is_over_is_replaced(caplog: pytest.LogCaptureFixture):
    inner = FakeJob("inner")
    inner.apply()
    BatchJob(inner).dump("job.json")
    job = FakeJob()

    job.state("job.json")

    assert job.created == [None]
    assert "it is for the script that runs inside of it" in caplog.text


def test_a_batch_job_cannot_be_applied():
    with pytest.raises(RuntimeError, match="apply the job that it was made from"):
        BatchJob(FakeJob()).apply()
