"""The adapter of xoscar, used from within an event loop (uvloop, as in its own processes)."""

# pyright: reportAttributeAccessIssue=false
# It takes `import xoscar` for this file.

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop
import xoscar

from benchmarks.actors.by_value import load_into_main
from benchmarks.actors.xoscar import Probe
from benchmarks.systems.interface import Actors, System

__all__ = ["SYSTEM"]


class XoscarActors(Actors):
    """A pool of processes with one actor each."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int, probe: Any) -> None:
        self._loop = loop
        self._probe = probe
        self._pool: Any = None
        self._probes: list[Any] = []
        self._run(self._create(count))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    async def _create(self, count: int) -> None:
        self._pool = await xoscar.create_actor_pool("127.0.0.1", n_process=count)
        self._probes = await asyncio.gather(
            *(
                xoscar.create_actor(
                    self._probe,
                    uid=f"probe-{index}",
                    address=self._pool.external_address,
                    # Index 0 is the process of the caller.
                    allocate_strategy=xoscar.allocate_strategy.ProcessIndex(index + 1),
                )
                for index in range(count)
            )
        )

    async def _gather(self, method: str, *args: Any) -> list[Any]:
        return await asyncio.gather(*(getattr(probe, method)(*args) for probe in self._probes))

    def call_one(self, value: Any) -> Any:
        """See `Actors`."""
        return self._run(self._probes[0].echo(value))

    def round_trips(self, repeat: int, value: Any) -> list[float]:
        """See `Actors`. All in one run of the loop, so that entering it does not count."""
        return self._run(self._round_trips(repeat, value))

    async def _round_trips(self, repeat: int, value: Any) -> list[float]:
        echo, clock = self._probes[0].echo, time.perf_counter
        samples: list[float] = []
        for _ in range(repeat):
            began = clock()
            await echo(value)
            samples.append(clock() - began)
        return samples

    def call_all(self, value: Any) -> None:
        """See `Actors`."""
        self._run(self._gather("echo", value))

    def pipeline(self, count: int) -> None:
        """See `Actors`."""
        self._run(self._pipeline(count))

    async def _pipeline(self, count: int) -> None:
        await asyncio.gather(*(self._probes[0].echo(value) for value in range(count)))

    def broadcast(self, count: int) -> None:
        """See `Actors`."""
        self._run(self._broadcast(count))

    async def _broadcast(self, count: int) -> None:
        for value in range(count):
            await self._probes[0].note.tell(value)

    def noted(self) -> int:
        """See `Actors`."""
        return self._run(self._probes[0].noted())

    def pids(self) -> list[int]:
        """See `Actors`."""
        return self._run(self._gather("pid"))

    def sample_all(self, payload: Any) -> list[int]:
        """See `Actors`."""
        return self._run(self._gather("sample", payload))

    def block(self, path: str) -> Callable[[], object]:
        """See `Actors`."""
        call = self._loop.create_task(_awaited(self._probes[0].block(path)))
        self._run(asyncio.sleep(0.1))
        return functools.partial(self._loop.run_until_complete, call)

    def stop(self) -> None:
        """See `Actors`."""
        self._run(self._pool.stop())


async def _awaited(call: Any) -> Any:
    return await call


class XoscarSystem(System):
    """An event loop; the processes belong to the pools."""

    name = "xoscar"
    distribution = "xoscar"
    import_name = "xoscar"

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probe: Any = Probe

    def start(self) -> None:
        """See `System`."""
        self._loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def spawn(self, count: int) -> XoscarActors:
        """See `System`."""
        if self._loop is None:
            raise RuntimeError("system 'xoscar' is not started. Call start() first.")
        return XoscarActors(self._loop, count, self._probe)

    def stop(self) -> None:
        """See `System`."""
        if self._loop is not None:
            self._loop.close()

    def use_class_of_main(self) -> None:
        """See `System`."""
        self._probe = load_into_main("benchmarks.actors.xoscar")


SYSTEM = XoscarSystem()
