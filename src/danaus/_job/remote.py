"""What jobs on other machines have in common: named groups of workers, and the key to them."""

from __future__ import annotations

import os
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from danaus._job.record import plain
from danaus._job.state import JobState
from danaus._job.trait import JobTrait
from danaus._mesh.workers import attach_to_workers, shut_down
from danaus._net.job_key import JobKey
from danaus._proc.output import state_directory
from danaus._runtime.process import existing_runtime

if TYPE_CHECKING:
    from danaus._mesh.host_mesh import HostMesh

__all__ = ["RemoteJob", "log_folder", "worker_command"]

_END_PATIENCE = 4.0
"""Seconds for workers to end by themselves."""

_ANSWER_PATIENCE = 12.0
"""Seconds for the workers of a job in a state file to answer, before they count as lost."""


class RemoteJob(JobTrait):
    """A job whose hosts are `danaus worker` processes, reached over TCP with a key of its own.

    A scheduler that Danaus does not know is a subclass with two methods: `_launch` starts the
    workers and returns their addresses, `_end` ends them. Its ``__init__`` calls this one's, and
    sets what is asked for as public attributes that JSON has; two jobs of a class whose public
    attributes are equal ask for the same, and the one that runs is used for both (else override
    `_wish` and `_restore`). What `_end` must know to find the hosts again, in this client or the
    next, `_launch` puts into `_ticket`. Where workers end with the client that started them, the
    class says ``_is_shared = False``.

    Example:
        >>> class BatchJob(RemoteJob):
        ...     def __init__(self, hosts: int, queue: str = "batch") -> None:
        ...         super().__init__()
        ...         self.hosts, self.queue = hosts, queue
        ...
        ...     def _launch(self, key: JobKey) -> dict[str, list[str]]:
        ...         self._ticket["id"] = submit(worker_command(key="job.key"), self.hosts)
        ...         return {"hosts": wait_for_addresses(self._ticket["id"])}
        ...
        ...     def _end(self) -> None:
        ...         if "id" in self._ticket:
        ...             cancel(self._ticket["id"])
    """

    def __init__(self) -> None:
        super().__init__()
        self._ticket: dict[str, Any] = {}
        """What the scheduler gave, such as the number of a job; as JSON has it."""
        self._key: JobKey | None = None
        self._workers: dict[str, list[str]] = {}
        """Addresses of the workers, by mesh."""
        self._spares: dict[str, int] = {}

    def keep_spares(self, **meshes: int) -> None:
        """Have the last hosts of these meshes stand by, instead of being a part of them.

        One of them takes the rank of a host that is gone, when a rank of it is respawned or when a
        client attaches (see ``spares`` of `attach_to_workers`). This is for the next call of
        `state`, and each client has its own.

        Args:
            meshes: Number of spares of each mesh, by its name.

        Raises:
            ValueError: A number is negative.

        Example:
            >>> job = SlurmJob({"trainers": 5})
            >>> job.keep_spares(trainers=1)
            >>> job.state().trainers.extent
            {hosts: 4}
        """
        for mesh, count in meshes.items():
            if count < 0:
                raise ValueError(f"host mesh {mesh!r} cannot have {count} spares")
        self._spares.update(meshes)

    @property
    def _addresses(self) -> list[str]:
        """Addresses of all workers."""
        return [address for group in self._workers.values() for address in group]

    # for subclasses

    @abstractmethod
    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        """Start the workers with that key; return their addresses by mesh, in order of rank.

        Whatever was raised, `_end` is called.

        Raises:
            RuntimeError: They cannot be had, and why.
        """

    @abstractmethod
    def _end(self) -> None:
        """End the workers, including those that are gone in part. Must be repeatable.

        It is also called where `_launch` has failed half-way, and by other clients, which know
        `_ticket`, the wish and the addresses (`_workers`). Workers that this client is connected
        to have been told to end before.
        """

    def _wish(self) -> dict[str, Any]:
        """What this job asks for, as JSON has it: two jobs with the same wish are the same.

        By default, the public attributes.
        """
        owner = type(self).__name__
        return {
            name: plain(owner, name, value)
            for name, value in vars(self).items()
            if not name.startswith("_")
        }

    def _make_key(self) -> JobKey:
        """The key of the workers that `_launch` is to start, or to find."""
        return JobKey.make()

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
        """What of the running job is gone; None when all workers answer.

        A subclass may ask its scheduler first.
        """
        if not self.active or not self._workers:
            return "it does not run"
        deadline = time.monotonic() + _ANSWER_PATIENCE
        for hosts in self._attach().values():
            failure = hosts.initialized.exception(max(0.0, deadline - time.monotonic()))
            if failure is not None:
                return str(failure)
        return None

    def _attach(self) -> dict[str, HostMesh]:
        """Attach to the workers of all meshes.

        Raises:
            ValueError: There are more spares than a mesh can have.
        """
        for mesh, count in self._spares.items():
            if count >= len(self._workers.get(mesh, ())):
                raise ValueError(
                    f"host mesh {mesh!r} of {len(self._workers.get(mesh, ()))} hosts cannot keep "
                    f"{count} of them as spares; the job has {', '.join(self._workers)}"
                )
        found: dict[str, HostMesh] = {}
        for mesh, addresses in self._workers.items():
            count = len(addresses) - self._spares.get(mesh, 0)
            found[mesh] = attach_to_workers(
                workers=addresses[:count], spares=addresses[count:], key=self._key, name=mesh
            )
        return found

    def _stand_for(self, spec: JobTrait) -> None:
        if isinstance(spec, RemoteJob):
            self._spares = dict(spec._spares)  # noqa: SLF001  # a job, too

    def _create(self, client_script: str | None) -> None:
        if client_script is not None:
            raise RuntimeError(
                f"{type(self).__name__} cannot run batch-mode scripts; run the script itself"
            )
        self._key = self._make_key()
        try:
            self._workers = self._launch(self._key)
        except BaseException:
            self._end()
            self._ticket = {}
            raise

    def _kill(self) -> None:
        found = existing_runtime()
        if found is not None:
            # What this client has there is stopped thereby, and has not failed.
            found.faults.ending.update(self._addresses)
            agents = found.routes.agents
            # Those that it is connected to; a scheduler would only kill them.
            shut_down([agents[at] for at in self._addresses if at in agents], _END_PATIENCE)
        self._end()
        self._workers = {}
        self._ticket = {}

    def _state(self) -> JobState:
        return JobState(self._attach())

    def _record(self) -> dict[str, Any]:
        return {
            "wish": self._wish(),
            "workers": self._workers,
            "ticket": self._ticket,
            # The file is for this user only, as every file that holds a job.
            "key": self._key.pem if self._key is not None else None,
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        if type(self)._wish is RemoteJob._wish:  # noqa: SLF001  # is it overridden?
            vars(self).update(fields["wish"])
        self._ticket = dict(fields["ticket"])
        self._workers = {
            str(mesh): [str(address) for address in addresses]
            for mesh, addresses in fields["workers"].items()
        }
        self._key = JobKey(fields["key"]) if fields["key"] else None
        self._spares = {}

    def __repr__(self) -> str:
        state = "running" if self.active else "not running"
        return f"<{type(self).__name__} {self._wish()} {state}>"


def worker_command(
    python: str = sys.executable,
    *,
    name: str = "",
    address: str = "tcp://*:0",
    key: str = "-",
    report: str = "",
    until_eof: bool = False,
) -> list[str]:
    """The command that makes a machine a host, for a scheduler to start there.

    It writes one line of JSON, ``{"address": ..., "name": ..., "pid": ...}``, to its standard
    output once it listens.

    Args:
        python: An interpreter there that has Danaus.
        name: The host's name, for people; by default the machine's.
        address: Where it serves: ``tcp://HOST:PORT``; ``*`` for all addresses of the machine, port
            0 for any free one.
        key: Path of the job key there, which only its user may read; ``-`` for its standard input,
            empty for what the variable DANAUS_JOB_KEY has: the path, or the key itself.
        report: A file that it writes the line of JSON to as well, whole or not at all.
        until_eof: Whether it ends when its standard input does, with all that runs there; for
            workers that are to end with whatever started them.
    """
    command = [python, "-m", "danaus_cli", "worker", "--address", address]
    command += ["--key", key] if key else []
    command += ["--name", name] if name else []
    command += ["--report", report] if report else []
    return [*command, "--until-eof"] if until_eof else command


def log_folder(apply_id: str | None) -> str:
    """The folder for what the workers of a run of a job write; made if need be."""
    folder = os.path.join(state_directory(), "jobs", apply_id or "unknown")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
