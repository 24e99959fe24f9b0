"""Actors that send to ports whose process is gone, and actors that look at themselves."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from danaus.actor import (
    Actor,
    Port,
    UndeliverableMessageEnvelope,
    concurrent_endpoint,
    context,
    current_actor_name,
    current_rank,
    current_size,
    endpoint,
    this_host,
    this_proc,
)


class Sending(Actor):
    """Sends to ports, and does nothing about what does not arrive."""

    @endpoint
    def send(self, port: Port[int], value: int) -> None:
        port.send(value)

    @endpoint
    def send_silently(self, port: Port[int], value: int) -> None:
        port.return_undeliverable = False
        port.send(value)

    @endpoint
    def ping(self) -> str:
        return "pong"


class Forgiving(Sending):
    """Takes note of what does not arrive, on its own thread."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bool]] = []
        self.thread = threading.get_ident()

    def _handle_undeliverable_message(self, message: UndeliverableMessageEnvelope) -> bool:
        mine = threading.get_ident() == self.thread
        self.seen.append((message.sender(), message.dest(), message.error_msg(), mine))
        return True

    @endpoint
    def noted(self) -> tuple[str, list[tuple[str, str, str, bool]]]:
        return context().actor_instance.actor_id, self.seen


class SlowlyForgiving(Sending):
    """The same with a hook that awaits; other messages are handled meanwhile."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = asyncio.Event()
        self.done = asyncio.Event()
        self.seen = 0

    async def _handle_undeliverable_message(self, message: UndeliverableMessageEnvelope) -> bool:
        self.asked.set()
        await self.released.wait()
        self.seen += 1
        self.done.set()
        return True

    @endpoint
    async def until_asked(self) -> int:
        await self.asked.wait()
        return self.seen

    @endpoint
    async def release(self) -> None:
        self.released.set()

    @concurrent_endpoint
    async def until_seen(self) -> int:
        await self.done.wait()
        return self.seen


class OpensPort(Actor):
    """Opens a channel and gives its port away."""

    @endpoint
    def open(self) -> Port[int]:
        from danaus.actor import Channel

        port, self.receiver = Channel[int].open()
        return port

    @endpoint
    def receive(self) -> int:
        return self.receiver.recv().get(10)


class Selfaware(Actor):
    """Says who and where it is."""

    def __init__(self) -> None:
        self.at_birth = self.facts()

    def facts(self) -> dict[str, Any]:
        me = context().actor_instance
        return {
            "name": me.name,
            "class": me.class_name,
            "rank": dict(me.rank),
            "proc_id": me.proc_id,
            "actor_id": me.actor_id,
            "path": repr(me),
            "creator": me.creator,
            "proc_mesh": me.proc_mesh,
            "proc": me.proc,
            "sent_to": (dict(current_rank()), current_size()),
            "actor_name": current_actor_name(),
        }

    @endpoint
    def tell(self) -> dict[str, Any]:
        return self.facts()

    @endpoint
    async def tell_async(self) -> dict[str, Any]:
        return self.facts()

    @concurrent_endpoint
    async def tell_concurrent(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        return self.facts()

    @endpoint
    def birth(self) -> dict[str, Any]:
        return self.at_birth

    @endpoint
    def spawn_beside(self) -> dict[str, Any]:
        return this_proc().spawn("beside", Selfaware).tell.call_one().get(10)

    @endpoint
    def spawn_below(self) -> dict[str, Any]:
        return this_host().spawn_procs().spawn("below", Selfaware).tell.call_one().get(10)

    @endpoint
    def abort(self, reason: str | None) -> str:
        context().actor_instance.abort(reason)
        return "aborted"

    @endpoint
    def kill_later(self) -> None:
        me = context().actor_instance
        threading.Timer(0.05, me.kill, ["from another thread"]).start()

    @endpoint
    def stop_myself(self) -> str:
        context().actor_instance.stop("enough")
        return "stopping"

    @endpoint
    def mesh_members(self) -> list[str]:
        errors: list[str] = []
        for use in (
            lambda: self.slice(x=0),
            lambda: self.initialized,
            self.stop,
            lambda: len(self),
        ):
            try:
                use()
            except NotImplementedError as error:
                errors.append(str(error))
        return errors

    @endpoint
    def logger_name(self) -> tuple[str, int]:
        return self.logger.name, self.logger.level


class Tasks(Actor):
    """Has concurrent endpoints."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.order: list[str] = []

    def note(self, line: str) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(line + "\n")

    @concurrent_endpoint
    async def wait(self, name: str = "") -> str:
        self.order.append(name)
        self.begun.set()
        await self.gate.wait()
        return f"done {name}"

    @concurrent_endpoint(explicit_response_port=True)
    async def run(self, port: Port[str]) -> None:
        port.send("started")
        try:
            await self.gate.wait()
        finally:
            self.note("task_cancelled")

    @concurrent_endpoint(explicit_response_port=True)
    async def fall(self, port: Port[str]) -> None:
        await asyncio.sleep(0)
        raise ValueError("explicit boom")

    @endpoint
    async def open_gate(self) -> list[str]:
        self.order.append("open")
        self.gate.set()
        return self.order

    @endpoint
    def began(self) -> list[str]:
        return self.order

    @endpoint
    async def hold(self) -> str:
        self.order.append("hold")
        await asyncio.sleep(0.05)
        self.order.append("held")
        return "held"

    @endpoint
    def suicide(self) -> None:
        raise SystemExit("told to")

    async def __cleanup__(self, exc: Exception | None) -> None:
        self.note("cleanup")


class MoreTasks(Tasks):
    """Inherits them and has its own."""

    @concurrent_endpoint
    async def second(self) -> str:
        await self.begun.wait()
        return "second"
