"""Values and actors for the tests of what travels in messages."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from danaus.actor import Actor, endpoint, this_host


class Broken:
    """Cannot be unpickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {"some": "state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise LookupError("this state is broken")


class BrokenAtHome(Broken):
    """Cannot be unpickled by the one process that did not make it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise LookupError("this result is broken")


@dataclass
class Box:
    """Holds other values."""

    name: str
    content: Any
    more: list[Any] = field(default_factory=list)


class Keeper(Actor):
    """Takes and returns values."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept

    @endpoint
    def take(self, value: Any) -> str:
        self.kept = value
        return type(value).__name__

    @endpoint
    def give(self) -> Any:
        return self.kept

    @endpoint
    async def take_async(self, value: Any) -> str:
        self.kept = value
        return type(value).__name__

    @endpoint
    def ask_kept(self) -> list[int]:
        """Call the actors that were kept, wherever they are in the value."""
        box = self.kept
        meshes = [box.content["mesh"], *box.more]
        return [n for mesh in meshes for n in mesh.add.call(1).get(20).values()]

    @endpoint
    def generator(self) -> Any:
        return (i for i in range(3))

    @endpoint
    def lock_inside(self) -> Any:
        return {"parts": [1, Box("b", threading.Lock())]}

    @endpoint
    def open_file(self) -> Any:
        with open("/dev/null") as file:  # noqa: PTH123  # as users do
            return [file]

    @endpoint
    async def generator_async(self) -> Any:
        return (i for i in range(3))

    @endpoint
    def broken_result(self) -> Any:
        return BrokenAtHome()


class Spawner(Actor):
    """Spawns actors and returns them at once."""

    @endpoint
    def spawn_here(self, i: int) -> Any:
        return this_host_procs(self).spawn(f"child-{i}", Keeper, i)


def this_host_procs(actor: Any) -> Any:
    """Processes of the actor's own, made once."""
    if not hasattr(actor, "procs"):
        actor.procs = this_host().spawn_procs()
    return actor.procs
