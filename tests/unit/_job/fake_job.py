"""A job without hosts, which notes what is done to it."""

from __future__ import annotations

from collections.abc import Sequence

from danaus._job.state import JobState
from danaus._job.trait import JobTrait

KILLED: list[str] = []
"""Names of the jobs that were killed, by whichever object."""


class FakeJob(JobTrait):
    """Can do what another of the same name asks for."""

    def __init__(self, name: str = "job", hosts: Sequence[str] = ("hosts",)) -> None:
        super().__init__()
        self.name = name
        self.hosts = list(hosts)
        self.created: list[str | None] = []
        self.kept = 0

    def can_run(self, spec: JobTrait) -> bool:
        return isinstance(spec, FakeJob) and self.name == spec.name

    def _state(self) -> JobState:
        return JobState(dict.fromkeys(self.hosts))  # pyright: ignore[reportArgumentType]

    def _create(self, client_script: str | None) -> None:
        self.created.append(client_script)

    def _kill(self) -> None:
        KILLED.append(self.name)

    def _keep(self) -> None:
        self.kept += 1


class StubbornJob(FakeJob):
    """Cannot be ended."""

    def _kill(self) -> None:
        raise RuntimeError("the scheduler does not answer")


class ForeignJob(FakeJob):
    """Is not ours to end."""

    def _kill(self) -> None:
        raise NotImplementedError


class FailingJob(FakeJob):
    """Cannot be had."""

    def _create(self, client_script: str | None) -> None:
        raise RuntimeError("no hosts are free")


class LostJob(FakeJob):
    """Loses its hosts when it is to outlive its client."""

    def _keep(self) -> None:
        raise RuntimeError("a host is gone")


class HandleJob(FakeJob):
    """Holds something that JSON does not have."""

    def __init__(self) -> None:
        super().__init__("handle")
        self.handle = object()
