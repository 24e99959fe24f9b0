from __future__ import annotations

import json
from typing import Any

import pytest

from danaus._job.local import LocalJob
from danaus._job.process import ProcessJob
from danaus._job.trait import job_loads


def running(job: ProcessJob, **fields: Any) -> ProcessJob:
    """The job as if it ran, with no hosts but those in ``fields``."""
    record = json.loads(job.dumps())
    record["apply_id"] = "run"
    record["fields"] |= fields
    loaded = job_loads(json.dumps(record).encode())
    assert isinstance(loaded, ProcessJob)
    return loaded


@pytest.mark.parametrize(
    ("meshes", "error", "text"),
    [
        ({}, ValueError, "at least one mesh"),
        ({"hosts": 0}, ValueError, "'hosts' needs at least 1 host, got 0"),
        ({"hosts": -3}, ValueError, "got -3"),
        ({"hosts": True}, TypeError, "'hosts': True"),
        ({"hosts": 1.5}, TypeError, r"'hosts': 1\.5"),
        ({3: 1}, TypeError, "3: 1"),
        ({"": 1}, ValueError, "cannot be the name"),
        ({"_status": 1}, ValueError, "'_status' cannot be the name"),
        ({"a\nb": 1}, ValueError, "printable"),
    ],
)
def test_meshes_that_cannot_be_are_refused(meshes: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        ProcessJob(meshes)


@pytest.mark.parametrize("env", [{"A": 1}, {"A": None}, {1: "A"}])
def test_variables_that_are_no_text_are_refused(env: Any):
    with pytest.raises(TypeError, match="env maps names to text"):
        ProcessJob({"hosts": 1}, env=env)


def test_a_batch_script_is_refused_before_anything_starts():
    job = ProcessJob({"hosts": 1})

    with pytest.raises(RuntimeError, match="ProcessJob cannot run batch-mode scripts"):
        job.apply("train.py")

    assert not job.active


def test_an_idle_job_can_run_nothing():
    assert not ProcessJob({"hosts": 1}).can_run(ProcessJob({"hosts": 1}))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (ProcessJob({"hosts": 3}), r"it has the hosts {'hosts': 2}, and {'hosts': 3} are asked"),
        (ProcessJob({"hosts": 2}, env={"A": "2", "C": "3"}), "other values of A, B, C"),
        (LocalJob(), "it is a ProcessJob, and a LocalJob is asked for"),
    ],
)
def test_a_job_that_does_not_fit_says_why(spec: Any, why: str):
    job = running(ProcessJob({"hosts": 2}, env={"A": "1", "B": "2"}))

    with pytest.raises(AssertionError, match=why):
        assert job._unfit_for(spec) is None, job._unfit_for(spec)


def test_a_job_of_another_machine_or_boot_is_none_of_this_one():
    job = running(ProcessJob({"hosts": 1}), machine="elsewhere (boot 1234)")

    why = job._unfit_for(ProcessJob({"hosts": 1}))

    assert why is not None
    assert why.startswith("it was started on elsewhere (boot 1234), and this is ")


def test_a_job_of_another_version_is_not_used():
    job = running(ProcessJob({"hosts": 1}), versions="danaus 0.0, python 3.11")

    assert "it runs danaus 0.0" in str(job._unfit_for(ProcessJob({"hosts": 1})))


def test_a_process_that_is_gone_is_missed_by_name():
    hosts = [["hosts_0", "/nowhere/danaus-0/s", 2**22 - 1, 1]]
    job = running(ProcessJob({"hosts": 1}), hosts=hosts)

    assert job._unfit_for(ProcessJob({"hosts": 1})) == "1 of its 1 hosts are gone (hosts_0)"


@pytest.mark.parametrize("hosts", [[["one"]], [["a", "b", 1, 2]] * 3, 7, [["a", "b", "c", "d"]]])
def test_a_damaged_record_is_refused(hosts: Any):
    with pytest.raises(ValueError, match="it is damaged"):
        running(ProcessJob({"hosts": 2}), hosts=hosts)
