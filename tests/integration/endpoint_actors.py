"""Actors for the tests of endpoints."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from typing import Any

from danaus.actor import (
    Actor,
    Port,
    concurrent_endpoint,
    context,
    endpoint,
    get_or_spawn_controller,
    this_host,
)


def _outlast_the_first_look() -> None:
    """Take longer than a wait lasts before it is looked into (0.1 s)."""
    threading.Event().wait(0.3)


class Counter(Actor):
    """Counts."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    @endpoint
    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value

    @endpoint
    async def add_async(self, n: int = 1) -> int:
        self.value += n
        return self.value

    @endpoint
    def echo(self, value: Any) -> Any:
        return value

    @endpoint
    def run(self, function: Any, *args: Any) -> Any:
        return function(*args)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    def plain(self, n: int) -> int:
        """No endpoint."""
        return self.value + n


class Ring(Actor):
    """Calls itself and its neighbour, and waits; all endpoints are sync."""

    me: Ring
    neighbour: Ring

    @endpoint
    def join(self, me: Ring, neighbour: Ring) -> None:
        self.me, self.neighbour = me, neighbour

    @endpoint
    def answer(self) -> str:
        return "here"

    @endpoint
    def ask_myself(self) -> str:
        return self.me.answer.call_one().get()

    @endpoint
    def ask_round(self) -> str:
        return self.neighbour.ask_back.call_one().get()

    @endpoint
    def ask_round_by_stream(self) -> list[str]:
        return [reply.get() for reply in self.neighbour.ask_back.stream()]

    @endpoint
    def ask_back(self) -> str:
        return self.neighbour.answer.call_one().get()

    @endpoint
    def ask_one_that_asks_and_does_not_wait(self) -> str:
        return self.neighbour.ask_and_go_on.call_one().get()

    @endpoint
    def ask_and_go_on(self) -> str:
        self.neighbour.answer.call_one()
        _outlast_the_first_look()
        return "went on"

    @endpoint
    def ask_slow(self) -> str:
        return self.neighbour.answer_slowly.call_one().get()

    @endpoint
    def answer_slowly(self) -> str:
        _outlast_the_first_look()
        return "slowly"


class AsyncRing(Ring):
    """The same with endpoints that await."""

    neighbour: Any

    @endpoint
    async def await_myself(self) -> str:
        return await self.me.answer.call_one()

    @endpoint
    async def await_round(self) -> str:
        return await self.neighbour.await_back.call_one()

    @endpoint
    async def await_back(self) -> str:
        return await self.neighbour.answer.call_one()

    @concurrent_endpoint
    async def await_beside(self) -> str:
        return await self.neighbour.await_back.call_one()


class Store(Actor):
    """A controller; counts how often its class was constructed."""

    constructions = 0

    def __init__(self, start: int = 0, *, fail: str = "") -> None:
        type(self).constructions += 1
        if fail:
            raise OSError(fail)
        self.value = start

    @endpoint
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    @endpoint
    def facts(self) -> tuple[int, int, int]:
        return os.getpid(), id(self), type(self).constructions

    @endpoint
    def die(self) -> None:
        raise SystemExit("told to")


class Delegating(Actor):
    """Makes and uses controllers from a process of its own."""

    @endpoint
    def add(self, name: str, n: int) -> int:
        return get_or_spawn_controller(name, Store).get().add.call_one(n).get()

    @endpoint
    async def facts(self, name: str) -> tuple[int, int, int]:
        store = await get_or_spawn_controller(name, Store)
        return await store.facts.call_one()

    @endpoint
    def fail(self, name: str) -> None:
        get_or_spawn_controller(name, Store, fail="no disk").get()

    @endpoint
    def spawn_and_add(self, procs: Any, name: str, n: int) -> int:
        return procs.spawn("child", Delegating).add.call_one(name, n).get()


class Chained(Actor):
    """A controller whose constructor needs another controller."""

    def __init__(self) -> None:
        self.store = get_or_spawn_controller("below", Store, 10).get()

    @endpoint
    def add(self, n: int) -> int:
        return self.store.add.call_one(n).get()


class Answering(Actor):
    """Answers by ports."""

    def __init__(self) -> None:
        self.later: list[Port[int]] = []

    @endpoint(explicit_response_port=True)
    def double(self, port: Port[int], n: int) -> str:
        port.send(2 * n)
        return "ignored"

    @endpoint(explicit_response_port=True)
    def hold(self, port: Port[int], tag: Any = None) -> None:
        self.later.append(port)

    @endpoint
    def release(self, n: int) -> int:
        for port in self.later:
            port.send(n)
        return len(self.later)

    @endpoint(explicit_response_port=True)
    def refuse(self, port: Port[int], why: str) -> None:
        port.exception(ValueError(why))

    @endpoint(explicit_response_port=True)
    def fall(self, port: Port[int]) -> None:
        raise ValueError("before it answered")

    @endpoint
    def send_many(self, port: Port[int], count: int) -> None:
        for i in range(count):
            port.send(i)

    @endpoint
    def send_rank(self, port: Port[int]) -> None:
        port.send(context().actor_instance.rank.rank)

    def plain_with_port(self, port: Port[int], n: int) -> None:
        """No endpoint."""
        port.send(n + 1)


class Loader(Actor):
    """What a program spawns, and a test replaces."""

    @endpoint
    def load(self) -> str:
        return "real"


class FakeLoader(Actor):
    """In the place of a loader."""

    @endpoint
    def load(self) -> str:
        return "fake"


class OtherFakeLoader(Actor):
    """Another one."""

    @endpoint
    def load(self) -> str:
        return "other fake"


class Program(Actor):
    """Spawns a loader, here or in processes of its own."""

    @endpoint
    def load_here(self) -> str:
        return context().actor_instance.proc.spawn("loader", Loader).load.call_one().get()

    @endpoint
    def load_below(self) -> str:
        procs = this_host().spawn_procs()
        return procs.spawn("program", Program).load_here.call_one().get()


class Mixed(Actor):
    """Has async endpoints; its sync code waits for others all the same."""

    def __init__(self, other: Counter) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other.add.call_one(1).get()
        self.other = other
        self.loop = asyncio.get_running_loop()

    @endpoint
    def sync(self) -> tuple[bool, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = self.other.add.call_one(1).get()
        return asyncio._get_running_loop() is None, value + asyncio.run(self._nested())

    async def _nested(self) -> int:
        return await self.other.add.call_one(1)

    @endpoint
    async def asynchronous(self) -> tuple[bool, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.other.add.call_one(1).get()
        return asyncio.get_running_loop() is self.loop, [str(w.message) for w in caught]

    @endpoint
    async def background(self) -> None:
        self.task = self.loop.create_task(self._nested())

    @endpoint
    async def result(self) -> int:
        return await self.task
