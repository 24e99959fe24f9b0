"""Concurrent endpoints: they begin in order, interleave, and end before the clean-up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from danaus.actor import (
    Actor,
    ActorError,
    MeshFailure,
    SupervisionError,
    concurrent_endpoint,
    endpoint,
    this_host,
)
from tests.integration.port_actors import MoreTasks, Tasks


def tasks(*args: Any) -> Tasks:
    """An actor with concurrent endpoints."""
    return this_host().spawn_procs().spawn("tasks", Tasks, *args)


async def test_calls_interleave_and_begin_in_order():
    actor = tasks()
    names = [str(i) for i in range(100)]

    waiting = [actor.wait.call_one(name) for name in names]

    assert await actor.open_gate.call_one() == [*names, "open"]
    assert [await future for future in waiting] == [f"done {name}" for name in names]


async def test_plain_endpoints_are_still_one_at_a_time():
    actor = tasks()

    results = [actor.hold.call_one(), actor.wait.call_one("w"), actor.began.call_one()]

    assert await results[2] == ["hold", "held", "w"]
    await actor.open_gate.call_one()


async def test_inherited_ones_run_beside_own_ones():
    actor = this_host().spawn_procs().spawn("more", MoreTasks)
    waiting = actor.wait.call_one("first")

    assert await actor.second.call_one() == "second"
    await actor.open_gate.call_one()
    assert await waiting == "done first"


def test_an_exception_is_the_callers(failures: list[MeshFailure]):
    actor = tasks()

    with pytest.raises(SupervisionError, match="explicit boom"):
        actor.fall.call_one().get(10)


async def test_stopping_cancels_what_runs_before_the_clean_up(tmp_path: Path):
    path = tmp_path / "order"
    procs = this_host().spawn_procs()
    actor = procs.spawn("tasks", Tasks, path)
    assert await actor.run.call_one() == "started"

    await asyncio.wait_for(procs.stop(), 10)

    assert path.read_text() == "task_cancelled\ncleanup\n"


async def test_dying_cancels_what_runs_before_the_clean_up(
    tmp_path: Path, failures: list[MeshFailure]
):
    path = tmp_path / "order"
    procs = this_host().spawn_procs()
    actor = procs.spawn("tasks", Tasks, path)
    assert await actor.run.call_one() == "started"
    waiting = actor.wait.call_one()

    with pytest.raises(SupervisionError, match="told to"):
        await actor.suicide.call_one()
    with pytest.raises(SupervisionError):
        await waiting

    await procs.stop()
    assert path.read_text() == "task_cancelled\ncleanup\n"


def test_only_async_methods_can_be_concurrent():
    with pytest.raises(ValueError, match="concurrent_endpoint can only wrap async endpoints"):

        class _Sync(Actor):
            @concurrent_endpoint
            def method(self) -> None: ...

    with pytest.raises(ValueError, match="concurrent_endpoint does not wrap @endpoint"):

        class _Stacked(Actor):
            @concurrent_endpoint
            @endpoint
            async def method(self) -> None: ...


async def test_a_concurrent_call_that_raises_is_an_actor_error():
    actor = this_host().spawn_procs().spawn("failing", Failing)

    with pytest.raises(ActorError, match=r"Actor call failing\.fail failed\."):
        await actor.fail.call_one()
    assert await actor.ping.call_one() == "pong"


class Failing(Actor):
    """Has a concurrent endpoint that raises."""

    @concurrent_endpoint
    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise ValueError("boom")

    @endpoint
    async def ping(self) -> str:
        return "pong"
