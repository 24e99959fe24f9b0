"""Jobs that need no provisioning: this machine under several names, and scripts run beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from danaus._job.state import JobState
from danaus._job.trait import BATCH, JobTrait, in_batch
from danaus._mesh.host_mesh import this_host
from danaus._proc.running import end_group
from danaus._proc.system import start_time

if TYPE_CHECKING:
    import subprocess

__all__ = ["BatchJob", "LocalJob"]


class LocalJob(JobTrait):
    """This machine, as one or more host meshes: a program for a cluster runs on it unchanged.

    Args:
        hosts: Names of the host meshes; each is `danaus.actor.this_host`.

    Raises:
        ValueError: There is no name, or one comes twice.

    Example:
        >>> state = LocalJob(["trainers", "loaders"]).state()
        >>> state.trainers.spawn_procs(per_host={"procs": 2})
    """

    _is_shared = False  # there is nothing to share

    def __init__(self, hosts: Sequence[str] = ("hosts",)) -> None:
        super().__init__()
        if isinstance(hosts, str) or not hosts or len(set(hosts)) < len(hosts):
            raise ValueError(f"hosts must be a list of different names of meshes, got {hosts!r}")
        self._hosts = list(hosts)
        self._process: subprocess.Popen[bytes] | None = None
        self._script = 0, 0
        self._log_dir = ""

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The script that `apply` has started.

        Raises:
            ValueError: None was started by this object.
        """
        if self._process is None:
            raise ValueError("no local batch job: apply(client_script) was not called")
        return self._process

    def can_run(self, spec: JobTrait) -> bool:
        """False: a local job is made anew by each client."""
        del spec
        return False

    def _state(self) -> JobState:
        return JobState({name: this_host() for name in self._hosts})

    def _create(self, client_script: str | None) -> None:
        if client_script is None:
            return
        self._run_script(client_script, BatchJob(self), self._start)

    def _start(self, script: str) -> None:
        self._log_dir = _new_log_directory()
        self._process = _start(script, self._log_dir)
        self._script = self._process.pid, start_time(self._process.pid)

    def _kill(self) -> None:
        if self._script[0]:
            end_group(*self._script)
        if self._process is not None:
            self._process.wait()
        self._script = 0, 0

    def _record(self) -> dict[str, Any]:
        return {"hosts": self._hosts, "script": list(self._script), "log_dir": self._log_dir}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        LocalJob.__init__(self, fields["hosts"])
        pid, started = fields["script"]
        self._script = int(pid), int(started)
        self._log_dir = str(fields["log_dir"])


class BatchJob(JobTrait):
    """A job as a script sees it that runs inside of it.

    It lies in the state file, so that the script's own job, whatever it is, finds the hosts of
    this one.

    Args:
        job: The running job.
    """

    def __init__(self, job: JobTrait) -> None:
        super().__init__()
        self._job = job
        self._status = job._status  # noqa: SLF001  # a job, too

    def can_run(self, spec: JobTrait) -> bool:
        """True inside of the job, whatever is asked for: there is no other."""
        del spec
        return in_batch()

    def _unfit_for(self, spec: JobTrait) -> str | None:
        return None if self.can_run(spec) else "it is for the script that runs inside of it"

    def _state(self) -> JobState:
        return self._job._state()  # noqa: SLF001  # a job, too

    def _create(self, client_script: str | None) -> None:
        del client_script
        raise RuntimeError("a batch job is running, or over; apply the job that it was made from")

    def _kill(self) -> None:
        self._job._kill()  # noqa: SLF001  # a job, too

    def _record(self) -> dict[str, Any]:
        return {"job": self._job._as_record()}  # noqa: SLF001  # a job, too

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._job = JobTrait.from_record(fields["job"])


def _new_log_directory() -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = os.path.abspath(f".danaus/logs/job_{stamp}_{os.urandom(3).hex()}")
    os.makedirs(path, mode=0o700)
    return path


def _start(script: str, log_directory: str) -> subprocess.Popen[bytes]:
    import subprocess

    out, err = (os.path.join(log_directory, name) for name in ("stdout.log", "stderr.log"))
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        return subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
            env={**os.environ, BATCH: "1"},
        )
