"""Two users have jobs on the same host at the same time (case N4)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from danaus.actor import attach_to_workers
from danaus.job import JobKey
from tests.integration.remote_actors import Counter
from tests.remote_workers import Worker

PATIENCE = 30.0
STRANGER = 65534
"""Another user: nobody."""

# It may read the interpreter and the source, wherever they are, and nothing else of ours.
AS_STRANGER = [
    "setpriv",
    f"--reuid={STRANGER}",
    f"--regid={STRANGER}",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]

pytestmark = [
    pytest.mark.fault,
    pytest.mark.needs_root,
    pytest.mark.skipif(not shutil.which("setpriv"), reason="there is no setpriv here"),
]

CLIENT = """
import sys
from danaus.actor import attach_to_workers
from danaus.job import JobKey
from tests.integration.remote_actors import Counter

hosts = attach_to_workers(workers=[sys.argv[1]], key=sys.argv[2])
procs = hosts.spawn_procs(per_host={"procs": 2})
print(list(procs.spawn("counters", Counter).add.call(int(sys.argv[3])).get(30).values()))
"""


@pytest.fixture
def two(tmp_path: Path) -> Generator[tuple[Worker, Path, Worker, Path]]:
    """A worker and a key of ours, a worker and a key of another user."""
    ours, theirs = tmp_path / "ours.key", tmp_path / "theirs.key"
    with ExitStack() as stack:
        for path in (ours, theirs):
            JobKey.make().save(path)
        os.chown(theirs, STRANGER, STRANGER)
        mine = Worker(ours, name="mine")
        stack.callback(mine.end)
        other = Worker(theirs, name="other", before=AS_STRANGER)
        stack.callback(other.end)
        yield mine, ours, other, theirs


def client_of_stranger(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*AS_STRANGER, sys.executable, "-c", CLIENT, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )


def test_jobs_of_two_users_on_one_host_do_not_meet(two: tuple[Worker, Path, Worker, Path]):
    mine, ours, other, theirs = two
    procs = attach_to_workers(workers=[mine.address], key=ours).spawn_procs()
    counters = procs.spawn("counters", Counter)
    counters.add.call(1).get(PATIENCE)

    done = client_of_stranger(other.address, str(theirs), "7")

    assert done.stdout.strip() == "[7, 7]", done.stderr
    assert list(counters.all.call().get(PATIENCE).values()) == [[1]]


def test_a_user_does_not_get_into_the_job_of_another(two: tuple[Worker, Path, Worker, Path]):
    mine, ours, other, theirs = two

    done = client_of_stranger(mine.address, str(theirs), "7")
    with pytest.raises(Exception, match="another job key"):
        attach_to_workers(workers=[other.address], key=ours).initialized.get(PATIENCE)

    assert done.returncode != 0
    assert "another job key" in done.stderr
