from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import pytest

from danaus._job.state_file import StateFileError
from danaus._job.trait import BATCH, JobTrait, job_load, job_loads
from tests.unit._job import fake_job
from tests.unit._job.fake_job import (
    KILLED,
    FailingJob,
    FakeJob,
    ForeignJob,
    HandleJob,
    LostJob,
    StubbornJob,
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KILLED.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(BATCH, raising=False)


def test_applying_twice_creates_once():
    job = FakeJob()

    job.apply("train.py")
    job.apply()

    assert job.created == ["train.py"]
    assert job.active


def test_each_run_has_an_id_of_its_own():
    job = FakeJob()
    assert job.apply_id is None

    job.apply()
    first = job.apply_id
    job.kill()
    job.apply()

    assert first is not None
    assert job.apply_id not in (None, first)


def test_a_job_that_could_not_be_created_does_not_run():
    job = FailingJob()

    with pytest.raises(RuntimeError, match="no hosts are free"):
        job.apply()

    assert not job.active


def test_killing_twice_kills_once_and_an_idle_job_not_at_all():
    job = FakeJob()
    job.kill()
    assert KILLED == []

    job.apply()
    job.kill()
    job.kill()

    assert KILLED == ["job"]
    assert not job.active


def test_without_a_path_nothing_is_written(tmp_path: Path):
    state = FakeJob(hosts=["trainers"]).state(cached_path=None)

    assert hasattr(state, "trainers")
    assert list(tmp_path.iterdir()) == []


def test_state_writes_the_job_and_the_next_client_finds_it(tmp_path: Path):
    first = FakeJob(hosts=["trainers"])
    first.state(tmp_path / "job.json")
    second = FakeJob()

    state = second.state(tmp_path / "job.json")

    assert hasattr(state, "trainers")
    assert second.created == []
    assert second.apply_id == first.apply_id
    assert (first.kept, second.kept) == (1, 0)


def test_the_job_of_this_object_comes_before_the_one_in_the_file(tmp_path: Path):
    FakeJob(hosts=["old"]).state(tmp_path / "job.json")
    job = FakeJob(hosts=["own"])
    job.apply()

    state = job.state(tmp_path / "job.json")

    assert hasattr(state, "own")
    assert job_load(tmp_path / "job.json").apply_id != job.apply_id


def test_a_job_that_was_applied_before_is_written_where_nothing_is(tmp_path: Path):
    job = FakeJob()
    job.apply()

    job.state(tmp_path / "job.json")

    assert job_load(tmp_path / "job.json").apply_id == job.apply_id
    assert job.kept == 1


def test_a_job_that_does_not_fit_is_ended_replaced_and_spoken_of_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    FakeJob("old").state(tmp_path / "job.json")
    new = FakeJob("new")

    new.state(tmp_path / "job.json")

    assert KILLED == ["old"]
    assert new.created == [None]
    assert job_load(tmp_path / "job.json").apply_id == new.apply_id
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"the job in {tmp_path / 'job.json'} cannot be used: it does not provide what is asked "
        "for. A new job is started."
    )


def test_an_old_job_that_cannot_be_ended_does_not_stop_the_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    StubbornJob("old").state(tmp_path / "job.json")
    new = FakeJob("new")

    new.state(tmp_path / "job.json")

    assert new.created == [None]
    assert "may still run" in caplog.text
    assert "the scheduler does not answer" in caplog.text


def test_an_old_job_that_is_not_ours_to_end_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    ForeignJob("old").state(tmp_path / "job.json")

    FakeJob("new").state(tmp_path / "job.json")

    assert len(caplog.records) == 1


@pytest.mark.parametrize("content", ["", "{}", "half a file", '{"format": 1, "job": "os:path"}'])
def test_a_damaged_file_is_set_aside_and_spoken_of_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
):
    path = tmp_path / "job.json"
    path.write_text(content)
    job = FakeJob()

    job.state(path)

    assert job.created == [None]
    assert (tmp_path / "job.json.damaged").read_text() == content
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{path} cannot be used: ")
    assert "\n" not in record.getMessage()


def test_a_file_that_cannot_be_written_only_makes_the_job_private(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").touch()
    job = FakeJob()

    job.state(tmp_path / "file" / "job.json")

    assert job.active
    assert job.kept == 0
    (record,) = caplog.records
    assert "ends with this client" in record.getMessage()


def test_a_job_that_json_cannot_hold_is_private_and_the_line_names_the_attribute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    job = HandleJob()

    job.state(tmp_path / "job.json")

    assert job.active
    assert "attribute 'handle' holds a object" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_the_launcher_is_not_taken_for_one_of_the_file(tmp_path: Path):
    with pytest.raises(RuntimeError, match="no hosts are free"):
        FailingJob().state(tmp_path / "job.json")

    assert list(tmp_path.iterdir()) == []


def test_a_job_that_loses_a_host_while_it_is_written_down_is_ended(tmp_path: Path):
    job = LostJob("lost")

    with pytest.raises(RuntimeError, match="a host is gone"):
        job.state(tmp_path / "job.json")

    assert KILLED == ["lost"]
    assert not job.active
    assert list(tmp_path.iterdir()) == []


def test_killing_removes_every_file_that_holds_the_job(tmp_path: Path):
    job = FakeJob()
    job.state(tmp_path / "one.json")
    job.dump(tmp_path / "two.json")

    job.kill()

    assert list(tmp_path.iterdir()) == []


def test_any_client_can_kill_the_job(tmp_path: Path):
    FakeJob().state(tmp_path / "job.json")
    second = FakeJob()
    second.state(tmp_path / "job.json")

    second.kill()

    assert KILLED == ["job"]
    assert list(tmp_path.iterdir()) == []


def test_killing_leaves_a_file_that_is_another_jobs_by_now(tmp_path: Path):
    old = FakeJob("old")
    old.state(tmp_path / "job.json")
    new = FakeJob("new")
    new.state(tmp_path / "job.json")

    old.kill()

    assert job_load(tmp_path / "job.json").apply_id == new.apply_id


def test_a_dumped_job_comes_back_running(tmp_path: Path):
    job = FakeJob("trainer", ["gpus"])
    job.apply()

    job.dump(tmp_path / "new" / "job.json")
    loaded = job_load(tmp_path / "new" / "job.json")

    assert isinstance(loaded, FakeJob)
    assert (loaded.name, loaded.apply_id, loaded.active) == ("trainer", job.apply_id, True)
    assert hasattr(loaded.state(), "gpus")


def test_a_dumped_idle_job_comes_back_idle_and_is_not_found_by_state(tmp_path: Path):
    FakeJob("idle").dump(tmp_path / "job.json")

    assert not job_load(tmp_path / "job.json").active
    job = FakeJob("other")
    job.state(tmp_path / "job.json")
    assert job.created == [None]
    assert KILLED == []


def test_what_is_dumped_is_json():
    record = json.loads(FakeJob("trainer").dumps())

    assert record["job"] == f"{fake_job.__name__}:FakeJob"
    assert record["fields"]["name"] == "trainer"


def test_a_job_survives_pickling():
    job = FakeJob("trainer")
    job.apply()

    copy = pickle.loads(pickle.dumps(job))

    assert (copy.name, copy.apply_id) == ("trainer", job.apply_id)


def test_dumping_a_job_that_stands_for_a_found_one_dumps_that(tmp_path: Path):
    FakeJob(hosts=["real"]).state(tmp_path / "job.json")
    job = FakeJob(hosts=["asked"])
    job.state(tmp_path / "job.json")

    loaded = job_loads(job.dumps())

    assert isinstance(loaded, FakeJob)
    assert loaded.hosts == ["real"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job": "no_such_module:Job"}, "not to be found"),
        ({"job": f"{fake_job.__name__}:NoJob"}, "not to be found"),
        ({"job": "pathlib:Path"}, "pathlib:Path is no class of jobs"),
        ({"job": 7}, "names no class of jobs"),
        ({"fields": None}, "it is damaged"),
    ],
)
def test_a_record_of_no_job_is_refused_with_the_reason(change: dict[str, object], why: str):
    record = {**json.loads(FakeJob().dumps()), **change}

    with pytest.raises(StateFileError, match=why):
        job_loads(json.dumps(record).encode())


def test_the_abstract_job_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        JobTrait()  # pyright: ignore[reportAbstractUsage]
