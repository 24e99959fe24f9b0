"""The adapter of Danaus and of Monarch, whose public API is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.actors.by_value import load_into_main
from benchmarks.systems.interface import Actors, System

__all__ = ["MeshActors", "MeshSystem"]


class MeshActors(Actors):
    """A proc mesh with one actor mesh on it."""

    def __init__(self, procs: Any, probe: type[Any]) -> None:
        self._procs = procs
        self._probes = procs.spawn("probe", probe)

    def call_one(self, value: Any) -> Any:
        """See `Actors`."""
        return self._probes.echo.call_one(value).get()

    def call_all(self, value: Any) -> None:
        """See `Actors`."""
        self._probes.echo.call(value).get()

    def pipeline(self, count: int) -> None:
        """See `Actors`."""
        replies = [self._probes.echo.call_one(value) for value in range(count)]
        for reply in replies:
            reply.get()

    def broadcast(self, count: int) -> None:
        """See `Actors`."""
        for value in range(count):
            self._probes.note.broadcast(value)

    def noted(self) -> int:
        """See `Actors`."""
        return self._probes.noted.call_one().get()

    def pids(self) -> list[int]:
        """See `Actors`."""
        return list(self._probes.pid.call().get().values())

    def sample_all(self, payload: Any) -> list[int]:
        """See `Actors`."""
        return list(self._probes.sample.call(payload).get().values())

    def block(self, path: str) -> Callable[[], object]:
        """See `Actors`."""
        return self._probes.block.call_one(path).get

    def stop(self) -> None:
        """See `Actors`."""
        self._procs.stop().get()


class MeshSystem(System):
    """A system whose ``<name>.actor`` module offers ``this_host`` and ``shutdown_context``."""

    def __init__(self, name: str, distribution: str, actor_module: Any, probe: type[Any]) -> None:
        self.name = name
        self.distribution = distribution
        self.import_name = f"{name}.actor"
        self._actor_module = actor_module
        self._probe = probe

    def start(self) -> None:
        """See `System`. A proc's death is expected here, hence must not end the client."""
        self._actor_module.unhandled_fault_hook = lambda _failure: None
        self._actor_module.context()

    def spawn(self, count: int) -> MeshActors:
        """See `System`."""
        procs = self._actor_module.this_host().spawn_procs(per_host={"gpus": count})
        return MeshActors(procs, self._probe)

    def stop(self) -> None:
        """See `System`."""
        self._actor_module.shutdown_context().get()

    def use_class_of_main(self) -> None:
        """See `System`."""
        self._probe = load_into_main(self._probe.__module__)
