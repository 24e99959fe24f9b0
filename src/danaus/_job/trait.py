"""What all jobs have in common: their life, and the state file by which clients share them."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from danaus._job import state_file
from danaus._job.record import find_class, plain, record_of
from danaus._job.state_file import DEFAULT_PATH, StateFileError

if TYPE_CHECKING:
    from danaus._job.state import JobState

__all__ = ["BATCH", "JobTrait", "in_batch", "job_load", "job_loads"]

BATCH = "DANAUS_BATCH_JOB"
"""Environment variable that is 1 in a script that runs inside of a job."""

_log = logging.getLogger("danaus.job")


@dataclass(frozen=True, slots=True)
class _Status:
    """Whether a job runs, and by which object.

    Attributes:
        apply_id: Id of this run of the job; None when it does not run.
        job: The job that was found in a state file and stands for this one, if so.
        files: The state files that hold it.
    """

    apply_id: str | None = None
    job: JobTrait | None = None
    files: tuple[str, ...] = ()


_NOT_RUNNING = _Status()


class JobTrait(ABC):
    """Hosts that are provisioned together: what every kind of job can do.

    A scheduler that Danaus does not know is a subclass that overrides `_create`, `_state`, `_kill`
    and `can_run`. Its attributes go to the state file as JSON; override `_record` and `_restore` if
    they are anything else. ``__init__`` must call this one's, without arguments.

    Example:
        >>> job = ProcessJob({"trainers": 4})
        >>> trainers = job.state().trainers
        >>> job.kill()
    """

    _status: _Status = _NOT_RUNNING

    _is_shared = True
    """Whether a state file may hold it, so that other clients can find it."""

    def __init__(self) -> None:
        self._status = _NOT_RUNNING

    # life

    @property
    def active(self) -> bool:
        """True from `apply`, or from a `state` that found the job, until `kill`."""
        return self._status.apply_id is not None

    @property
    def apply_id(self) -> str | None:
        """Id of this run of the job, the same for all its clients; None when it does not run."""
        return self._status.apply_id

    def apply(self, client_script: str | None = None) -> None:
        """Provision the hosts. Nothing happens if this job runs already.

        The hosts belong to this client, until `state` or `dump` writes the job to a file.

        Args:
            client_script: Program that the scheduler is to run beside the hosts, instead of this
                client; for kinds of jobs that can.

        Raises:
            RuntimeError: The hosts cannot be had, and why. None is left.
        """
        from uuid import uuid4

        if self.active:
            return
        self._status = _Status(str(uuid4()))
        try:
            self._create(client_script)
        except BaseException:
            self._status = _NOT_RUNNING
            raise

    def state(self, cached_path: str | os.PathLike[str] | None = DEFAULT_PATH) -> JobState:
        """Return the hosts of this job: found if they run already, else provisioned now.

        They are those of the first of these that there is: this job, if it runs; the job that a
        client before has written to ``cached_path``, if it provides what this one asks for; a job
        that is applied now, and written there. A job that is written down outlives its clients,
        until one of them calls `kill`.

        Args:
            cached_path: The state file; None for a job that ends with this client.

        Raises:
            RuntimeError: The hosts cannot be had, or were lost since.
        """
        if cached_path is not None and (self._is_shared or in_batch()):
            self._share(cached_path)
        self.apply()
        return self._running()._state()  # noqa: SLF001  # a job of this class

    def kill(self) -> None:
        """End the job, and all that runs on its hosts, whoever started it. Twice is as once."""
        if not self.active:
            return
        status = self._status
        self._running()._kill()  # noqa: SLF001  # a job of this class
        self._status = _NOT_RUNNING
        for file in status.files:
            _forget(file, status.apply_id)

    def _stand_for(self, spec: JobTrait) -> None:  # noqa: B027  # most have nothing of that kind
        """This job may be used in place of ``spec``: take from it what is each client's own."""

    def _running(self) -> JobTrait:
        """The job that stands for this one."""
        return self._status.job or self

    # the state file

    def dump(self, filename: str | os.PathLike[str]) -> None:
        """Write the job to a file, for `job_load` or the ``cached_path`` of `state`.

        From now on it outlives this client, until `kill`.

        Raises:
            OSError: The file cannot be written.
            TypeError: An attribute of the job has no place in JSON.
        """
        with state_file.locked(state_file.locate(filename)):
            self._save(filename)

    def dumps(self) -> bytes:
        """The job as JSON, for `job_loads`.

        Raises:
            TypeError: An attribute of the job has no place in JSON.
        """
        return state_file.serialize(self._as_record())

    def _as_record(self) -> dict[str, Any]:
        job = self._running()
        return record_of(job, job._record())  # noqa: SLF001  # a job of this class

    def _share(self, path: str | os.PathLike[str]) -> None:
        """Find this job in a state file, or start it and write it there."""
        with ExitStack() as stack:
            try:
                file = state_file.locate(path)
                stack.enter_context(state_file.locked(file))
                found = None if self.active else self._usable(file)
            except OSError as error:
                _warn_unshared(path, error)
                return
            if found is not None:
                _log.info("using the job in %s", file)
                self._status = _Status(found.apply_id, found, (file,))
                return
            self.apply()
            if self._status.files or os.path.exists(file) or not self._is_shared:
                return
            try:
                self._save(path)
            except (OSError, TypeError) as error:
                _warn_unshared(path, error)

    @staticmethod
    def from_record(record: Mapping[str, Any], *files: str) -> JobTrait:
        """Make the job that a record describes.

        Args:
            record: What `danaus._job.record.record_of` gave, back from JSON.
            files: The state files that hold it.

        Raises:
            StateFileError: It describes none.
        """
        cls = find_class(record.get("job"), JobTrait)
        job = cls.__new__(cls)
        JobTrait.__init__(job)
        try:
            apply_id = record["apply_id"]
            job._restore(record["fields"])  # noqa: SLF001  # a job of this class
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateFileError(
                f"it is damaged: {type(error).__name__}: {error} in the record of a {cls.__name__}"
            ) from None
        if apply_id is not None:
            job._status = _Status(apply_id, None, files)  # noqa: SLF001
        return job

    def _usable(self, file: str) -> JobTrait | None:
        """The job in a state file, if it provides what is asked for. Else the file is gone."""
        found = self._find(file)
        if found is None:
            return None
        found._stand_for(self)  # noqa: SLF001  # a job, too
        why = found._unfit_for(self)  # noqa: SLF001  # a job, too
        if why is None:
            return found
        self._replace(found, file, why)
        return None

    @staticmethod
    def _find(file: str) -> JobTrait | None:
        """The running job in a state file; a file that cannot be used is renamed."""
        try:
            found = JobTrait.from_record(state_file.read(file), file)
        except FileNotFoundError:
            return None
        except StateFileError as error:
            aside = state_file.set_aside(file)
            _log.warning(
                "%s cannot be used: %s. It is now %s; a new job is started.", file, error, aside
            )
            return None
        return found if found.active else None

    @staticmethod
    def _replace(found: JobTrait, file: str, why: str) -> None:
        """End a job that stands in the way of a new one."""
        _log.warning("the job in %s cannot be used: %s. A new job is started.", file, why)
        try:
            found._kill()  # a job, too
        except NotImplementedError:
            pass  # it is somebody else's to end
        except Exception:  # noqa: BLE001  # a subclass's failure; the new job must not wait for it
            _log.warning("the old job could not be ended, and may still run", exc_info=True)
        state_file.remove(file)

    def _run_script(
        self, client_script: str, inside: JobTrait, start: Callable[[str], None]
    ) -> None:
        """Start a script inside of this job, which is being applied.

        Args:
            client_script: The script.
            inside: This job as the script is to find it in the state file.
            start: Starts the script, or submits it.

        Raises:
            FileNotFoundError: There is no such script.
        """
        if not os.path.isfile(client_script):
            raise FileNotFoundError(f"there is no script {client_script!r} in {os.getcwd()}")
        file = state_file.locate(state_file.DEFAULT_PATH)
        with state_file.locked(file):
            found = self._find(file)
            if found is not None:
                self._replace(found, file, "the script looks for its own job there")
            start(client_script)
            # The script waits for the lock, and then finds the job with all that is known of it.
            inside._save(state_file.DEFAULT_PATH)
        self._note_file(file)

    def _save(self, path: str | os.PathLike[str]) -> None:
        file = state_file.write(path, self._as_record())
        if not self.active:
            return
        self._note_file(file)
        try:
            # Written first, kept then: a client that dies in between leaves a stale file, which
            # the next one sees, and not hosts that nobody knows of.
            self._running()._keep()  # noqa: SLF001  # a job of this class
        except BaseException:
            self._running()._kill()  # noqa: SLF001
            self._status = _NOT_RUNNING
            state_file.remove(file)
            raise

    def _note_file(self, file: str) -> None:
        """A state file holds this job, until it is killed."""
        status = self._status
        files = tuple(dict.fromkeys((*status.files, file)))
        self._status = _Status(status.apply_id, status.job, files)

    def _unfit_for(self, spec: JobTrait) -> str | None:
        """Why this job, found in a file, cannot do what ``spec`` asks for; None if it can."""
        return None if self.can_run(spec) else "it does not provide what is asked for"

    # for subclasses

    @abstractmethod
    def can_run(self, spec: JobTrait) -> bool:
        """Whether this running job provides what ``spec`` asks for."""

    @abstractmethod
    def _state(self) -> JobState:
        """Connect to the hosts of the running job."""

    @abstractmethod
    def _create(self, client_script: str | None) -> None:
        """Provision the hosts; leave none if that fails."""

    @abstractmethod
    def _kill(self) -> None:
        """End the hosts, including those that are gone in part. Must be repeatable."""

    def _keep(self) -> None:  # noqa: B027  # most hosts outlive their client in any case
        """Let the hosts outlive this client: the job was written to a file."""

    def _record(self) -> dict[str, Any]:
        """The attributes that make this job again, as JSON has them."""
        owner = type(self).__name__
        return {
            name: plain(owner, name, value)
            for name, value in vars(self).items()
            if name != "_status"
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        """Set the attributes that `_record` gave."""
        vars(self).update(fields)

    def __reduce__(self) -> Any:
        return (job_loads, (self.dumps(),))


def in_batch() -> bool:
    """True in a script that runs inside of a job."""
    return os.environ.get(BATCH) == "1"


def job_load(filename: str | os.PathLike[str] = DEFAULT_PATH) -> JobTrait:
    """The job that was written to a file.

    Raises:
        FileNotFoundError: There is no such file.
        StateFileError: It is damaged, or names a class of jobs that is not to be found.
    """
    file = state_file.locate(filename)
    return JobTrait.from_record(state_file.read(file), file)


def job_loads(data: bytes) -> JobTrait:
    """The job that `JobTrait.dumps` gave.

    Raises:
        StateFileError: The data are damaged, or name a class of jobs that is not to be found.
    """
    return JobTrait.from_record(state_file.parse(data))


def _warn_unshared(path: str | os.PathLike[str], error: Exception) -> None:
    _log.warning(
        "the job cannot be written to %s, so it ends with this client: %s", os.fspath(path), error
    )


def _forget(file: str, apply_id: str | None) -> None:
    """Remove a state file if it is still that job's."""
    try:
        with state_file.locked(file):
            if state_file.read(file).get("apply_id") == apply_id:
                state_file.remove(file)
    except (OSError, StateFileError):
        return  # it is gone, or another's
