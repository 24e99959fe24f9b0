"""The adapter of Ray: an actor has a process of its own there."""

# pyright: reportAttributeAccessIssue=false
# It takes `import ray` for this file.

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import ray

from benchmarks.actors.by_value import load_into_main
from benchmarks.actors.ray import Probe
from benchmarks.systems.interface import Actors, System

__all__ = ["SYSTEM"]


class RayActors(Actors):
    """As many Ray actors as processes are wanted."""

    def __init__(self, count: int, probe: Any) -> None:
        self._probes: list[Any] = [probe.remote() for _ in range(count)]

    def call_one(self, value: Any) -> Any:
        """See `Actors`."""
        return ray.get(self._probes[0].echo.remote(value))

    def call_all(self, value: Any) -> None:
        """See `Actors`."""
        ray.get([probe.echo.remote(value) for probe in self._probes])

    def pipeline(self, count: int) -> None:
        """See `Actors`."""
        ray.get([self._probes[0].echo.remote(value) for value in range(count)])

    def broadcast(self, count: int) -> None:
        """See `Actors`. Ray has no call without a result; dropping the result comes nearest."""
        for value in range(count):
            self._probes[0].note.remote(value)

    def noted(self) -> int:
        """See `Actors`."""
        return ray.get(self._probes[0].noted.remote())

    def pids(self) -> list[int]:
        """See `Actors`."""
        return ray.get([probe.pid.remote() for probe in self._probes])

    def sample_all(self, payload: Any) -> list[int]:
        """See `Actors`. The payload is put into the object store once, as Ray recommends."""
        stored = ray.put(payload)
        return ray.get([probe.sample.remote(stored) for probe in self._probes])

    def block(self, path: str) -> Callable[[], object]:
        """See `Actors`."""
        return functools.partial(ray.get, self._probes[0].block.remote(path))

    def stop(self) -> None:
        """See `Actors`."""
        for probe in self._probes:
            ray.kill(probe)


class RaySystem(System):
    """A private Ray cluster of this one machine."""

    name = "ray"
    distribution = "ray"
    import_name = "ray"

    def __init__(self) -> None:
        self._folder = ""
        self._probe: Any = Probe

    def start(self) -> None:
        """See `System`."""
        self._folder = tempfile.mkdtemp(prefix="ray-")
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=self._folder,
        )

    def spawn(self, count: int) -> RayActors:
        """See `System`."""
        return RayActors(count, self._probe)

    def stop(self) -> None:
        """See `System`."""
        ray.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    def use_class_of_main(self) -> None:
        """See `System`."""
        self._probe = load_into_main("benchmarks.actors.ray")


SYSTEM = RaySystem()
