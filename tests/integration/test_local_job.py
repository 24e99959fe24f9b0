"""Jobs that use this machine as it is, and scripts that run inside of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from danaus.actor import this_host
from danaus.job import LocalJob, job_load
from danaus.testing import wait_until
from tests.integration.job_actors import Process

pytestmark = pytest.mark.needs_linux

SCRIPT = """
import sys
from danaus.job import LocalJob, ProcessJob

print(sorted(LocalJob().state()._hosts), sorted(ProcessJob({"other": 7}).state()._hosts))
print("to stderr", file=sys.stderr)
sys.exit(3)
"""

ENDLESS = """
import os, pathlib, time
from danaus.actor import this_host

this_host().spawn_procs().initialized.get(20)
pathlib.Path("ready").write_text("yes")
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_mesh_is_this_host():
    state = LocalJob(["trainers", "loaders"]).state()

    assert state.trainers == state.loaders == this_host()
    actor = state.trainers.spawn_procs({"procs": 2}).spawn("process", Process)
    assert len(set(map(tuple, actor.pids.call().get(20).values()))) == 2


def test_a_local_job_writes_no_file(tmp_path: Path):
    LocalJob().state()

    assert list(tmp_path.iterdir()) == []


def test_a_script_finds_the_job_that_it_runs_in_whatever_it_asks_for(tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT)
    job = LocalJob(["allocated"])

    job.apply("train.py")
    code = job.process.wait(20)

    (logs,) = (tmp_path / ".danaus" / "logs").iterdir()
    assert logs.name.startswith("job_")
    assert (logs / "stdout.log").read_text() == "['allocated'] ['allocated']\n"
    assert (logs / "stderr.log").read_text() == "to stderr\n"
    assert code == 3
    job.kill()
    assert not (tmp_path / ".danaus" / "job_state.json").exists()


def test_another_client_can_end_the_script_and_all_that_it_started(tmp_path: Path):
    (tmp_path / "train.py").write_text(ENDLESS)
    job = LocalJob()
    job.apply("train.py")
    wait_until((tmp_path / "ready").exists, timeout=20, what="the script")

    job_load().kill()

    assert job.process.wait(5) < 0
    assert not os.path.lexists(".danaus/default/state.json")
    job.kill()
