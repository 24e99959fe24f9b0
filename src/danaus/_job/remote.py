"""What jobs on other machines have in common: named groups of workers, and the key to them."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from danaus._job.state import JobState
from danaus._job.trait import JobTrait
from danaus._mesh.workers import attach_to_workers
from danaus._net.job_key import JobKey
from danaus._runtime.process import existing_runtime
from danaus._wire import kinds

if TYPE_CHECKING:
    from danaus._runtime.router import Runtime

__all__ = ["RemoteJob", "check_mesh_name", "log_folder"]

_END_PATIENCE = 4.0
"""Seconds for workers to end by themselves."""

_PAUSE = 0.01
"""Seconds between two looks whether they have."""

_NOTHING = b"\x90"
"""An empty routing part."""

_ANSWER_PATIENCE = 12.0
"""Seconds for the workers of a job in a state file to answer, before they count as lost."""


class RemoteJob(JobTrait):
    """A job whose hosts are `danaus worker` processes, reached over TCP with a key of its own.

    A subclass overrides `_launch`, which starts the workers and returns their addresses, `_end`,
    `_wish` and, where more is to be written to the state file, `_record` and `_restore`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._key: JobKey | None = None
        self._workers: dict[str, list[str]] = {}
        """Addresses of the workers, by mesh."""

    # for subclasses

    @abstractmethod
    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        """Start the workers with that key; return their addresses by mesh, in order of rank.

        Raises:
            RuntimeError: They cannot be had, and why. None is left.
        """

    @abstractmethod
    def _end(self) -> None:
        """End the workers, including those that are gone in part. Must be repeatable."""

    @abstractmethod
    def _wish(self) -> dict[str, Any]:
        """What this job asks for, as JSON has it: two jobs with the same wish are the same."""

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, by host."""
        return {}

    # the life of a job

    def can_run(self, spec: JobTrait) -> bool:
        """True if this job runs, and provides what ``spec`` asks for."""
        return self._unfit_for(spec) is None

    def _unfit_for(self, spec: JobTrait) -> str | None:
        if type(spec) is not type(self):
            return f"it is a {type(self).__name__}"
        wish = spec._wish()  # noqa: SLF001  # a job of this class
        if self._wish() != wish:
            return f"it has {self._wish()}, and {wish} is asked for"
        return self._lost()

    def _lost(self) -> str | None:
        """What of the running job is gone; None when all workers answer."""
        if not self.active or not self._workers:
            return "it does not run"
        addresses = [address for group in self._workers.values() for address in group]
        hosts = attach_to_workers(workers=addresses, key=self._key)
        failure = hosts.initialized.exception(_ANSWER_PATIENCE)
        return None if failure is None else str(failure)

    def _create(self, client_script: str | None) -> None:
        if client_script is not None:
            raise RuntimeError(
                f"{type(self).__name__} cannot run batch-mode scripts; run the script itself"
            )
        self._key = JobKey.make()
        try:
            self._workers = self._launch(self._key)
        except BaseException:
            self._end()
            raise

    def _kill(self) -> None:
        found = existing_runtime()
        if found is not None:
            _shut_down(found, [at for group in self._workers.values() for at in group])
        self._end()
        self._workers = {}

    def _state(self) -> JobState:
        return JobState(
            {
                mesh: attach_to_workers(workers=addresses, key=self._key, name=mesh)
                for mesh, addresses in self._workers.items()
            }
        )

    def _record(self) -> dict[str, Any]:
        return {
            "wish": self._wish(),
            "workers": self._workers,
            # The file is for this user only, as every file that holds a job.
            "key": self._key.pem if self._key is not None else None,
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._workers = {
            str(mesh): [str(address) for address in addresses]
            for mesh, addresses in fields["workers"].items()
        }
        self._key = JobKey(fields["key"]) if fields["key"] else None

    def __repr__(self) -> str:
        state = "running" if self.active else "not running"
        return f"<{type(self).__name__} {self._wish()} {state}>"


def _shut_down(me: Runtime, addresses: Sequence[str]) -> None:
    """Tell workers to end that this client is connected to; a scheduler would only kill them."""
    # What this client has there is stopped thereby, and has not failed.
    me.faults.ending.update(addresses)
    links = [link for at in addresses if (link := me.routes.agents.get(at)) is not None]
    for link in links:
        link.send_small(kinds.SHUTDOWN, _NOTHING, b"")
    deadline = time.monotonic() + _END_PATIENCE
    while not all(link.lost for link in links) and time.monotonic() < deadline:
        time.sleep(_PAUSE)


def check_mesh_name(name: object, known: Sequence[str] = ()) -> str:
    """The name of a host mesh: an attribute of the job's state.

    Raises:
        TypeError: It is no text.
        ValueError: It cannot be an attribute, or is known already.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a host mesh is a str, got {name!r}")
    if not name or not name.isprintable() or name.startswith("_"):
        raise ValueError(
            f"{name!r} cannot be the name of a host mesh: it is an attribute of the job's state, "
            "so it has printable characters and does not begin with _"
        )
    if name in known:
        raise ValueError(f"there is a host mesh {name!r} already")
    return name


def log_folder(apply_id: str | None) -> str:
    """The folder for what the workers of a run of a job write; made if need be."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    folder = os.path.join(base, "danaus", "jobs", apply_id or "unknown")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
