"""Endpoints and their adverbs (CASES E10 to E12, E14), and input that is bad."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import pytest

from danaus.actor import (
    Accumulator,
    Actor,
    MeshFailure,
    SerializationError,
    SupervisionError,
    as_endpoint,
    endpoint,
    this_host,
)
from danaus.testing import wait_until
from tests.integration.endpoint_actors import Answering, Counter, Mixed

T = TypeVar("T")


def one(value: int = 0) -> Counter:
    """A counter in a process of its own."""
    return this_host().spawn_procs().spawn("counter", Counter, value)


def many(size: int, value: int = 0) -> Counter:
    """Counters in so many processes."""
    return this_host().spawn_procs(per_host={"gpus": size}).spawn("counters", Counter, value)


# adverbs


def test_call_gives_the_values_in_the_shape_of_the_mesh():
    values = many(3).add.call(2).get(10)

    assert values.sizes == {"gpus": 3}
    assert list(values.values()) == [2, 2, 2]


def test_call_one_needs_exactly_one():
    counters = many(2)

    with pytest.raises(ValueError, match="call_one requires exactly 1 actor, but mesh has 2"):
        counters.add.call_one()
    assert counters.slice(gpus=1).add.call_one().get(10) == 1


def test_stream_gives_a_future_for_each():
    stream = many(3, 5).add.stream()

    assert len(stream) == 3
    assert [reply.get(10) for reply in stream] == [6, 6, 6]


def test_broadcast_and_calls_of_one_sender_are_in_order():
    counter = one()
    for _ in range(100):
        counter.add.broadcast()
        counter.add_async.broadcast()

    assert counter.add.call_one(0).get(10) == 200


def test_the_message_is_sent_when_the_call_is_made():
    counter = one()

    first = counter.add.call_one(1)
    second = counter.add.call_one(10)

    assert second.get(10) == 11
    assert first.get(10) == 1
    assert first.get(10) == 1  # again


def test_an_accumulator_folds_and_has_an_identity():
    assert Accumulator(many(3, 1).add, 100, operator.add).accumulate(1).get(10) == 106


def test_choose_balances_over_unanswered_calls():
    holding = this_host().spawn_procs(per_host={"gpus": 4}).spawn("a", Answering)

    futures = [holding.hold.choose() for _ in range(40)]

    assert list(holding.release.call(7).get(10).values()) == [10] * 4
    assert {future.get(10) for future in futures} == {7}


def test_choose_leaves_out_what_has_failed(failures: list[MeshFailure]):
    counters = many(2)
    pids = dict(enumerate(counters.pid.call().get(10).values()))
    with pytest.raises(SupervisionError):
        counters.slice(gpus=0).run.call_one(os._exit, 3).get(10)

    assert {counters.pid.choose().get(10) for _ in range(6)} == {pids[1]}


def test_a_choice_that_cannot_be_sent_does_not_count():
    holding = this_host().spawn_procs(per_host={"gpus": 2}).spawn("a", Answering)
    for _ in range(5):
        with pytest.raises(SerializationError):
            holding.hold.choose(threading.Lock())

    for _ in range(10):
        holding.hold.choose()

    assert list(holding.release.call(7).get(10).values()) == [5, 5]


# E10


def test_get_in_a_running_loop_warns_and_works():
    """E10: the loop stands still meanwhile, but nothing hangs."""
    counter = one()

    async def main() -> int:
        future = counter.add.call_one(3)
        with pytest.warns(UserWarning, match="use `await` instead"):
            return future.get(10)

    assert asyncio.run(main()) == 3


def test_get_without_a_loop_does_not_warn():
    counter = one()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert counter.add.call_one(3).get(10) == 3


async def test_await_works_for_many_at_once_and_for_loops_of_other_threads():
    """E10: a future can be observed by several loops."""
    counter = one()
    future = counter.add.call_one(3)

    there = asyncio.to_thread(lambda: asyncio.run(_observe(future)))

    assert await asyncio.gather(future.as_asyncio(), _observe(future), there) == [3, 3, 3]
    assert await asyncio.gather(*(counter.add_async.call_one() for _ in range(50))) == [
        *range(4, 54)
    ]


async def _observe(future: Any) -> Any:
    return await future


async def test_cancelling_one_observer_cancels_no_work():
    counter = one()
    task = asyncio.get_running_loop().create_task(_observe(counter.add.call_one(3)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await counter.add.call_one(1) == 4


@pytest.mark.parametrize("waiting", ["future.get()", "asyncio.run(wait(future))"])
def test_ctrl_c_ends_a_wait(waiting: str, tmp_path: Path):
    """E10: in `get` and in `await`; the system can be used afterwards."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import asyncio, sys, threading
            from danaus.actor import Actor, endpoint, this_host

            class Slow(Actor):
                @endpoint
                def sleep(self):
                    threading.Event().wait(100)

            class Quick(Actor):
                @endpoint
                def ping(self):
                    return "pong"

            async def wait(future):
                await future

            if __name__ == "__main__":
                quick = this_host().spawn_procs().spawn("q", Quick)
                quick.ping.call_one().get()
                future = this_host().spawn_procs().spawn("s", Slow).sleep.call_one()
                print("ready", flush=True)
                try:
                    {waiting}
                except KeyboardInterrupt:
                    print(quick.ping.call_one().get(5), flush=True)
            """
        )
    )
    program = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    threading.Event().wait(0.2)  # until it waits; a signal before that would end it, too

    program.send_signal(signal.SIGINT)

    output, errors = program.communicate(timeout=20)
    assert output == "pong\n", errors
    assert program.returncode == 0


# E11


def test_spawn_and_call_in_one_expression():
    """E11: nothing hangs on Python references."""
    procs = this_host().spawn_procs(per_host={"gpus": 2})

    assert list(procs.spawn("x", Counter).add.call(1).get(10).values()) == [1, 1]
    assert this_host().spawn_procs().spawn("x", Counter).add.call_one(1).get(10) == 1


def test_references_may_be_dropped_with_calls_in_flight():
    """E11: the calls are answered."""
    futures = [one(i).add.call_one(1) for i in range(5)]

    assert [future.get(20) for future in futures] == [1, 2, 3, 4, 5]


# E12


def test_a_name_can_be_used_again_after_a_stop():
    """E12: 100 times."""
    procs = this_host().spawn_procs()

    for i in range(100):
        counter: Any = procs.spawn("again", Counter, i)
        assert counter.add.call_one(1).get(10) == i + 1
        counter.stop().get(10)


def test_two_of_one_name_are_two():
    """E12: names are for people."""
    procs = this_host().spawn_procs()
    first, second = procs.spawn("same", Counter, 1), procs.spawn("same", Counter, 2)

    assert (first.add.call_one(0).get(10), second.add.call_one(0).get(10)) == (1, 2)


@pytest.mark.parametrize("name", ["für Ärzte 🦋", "a/b", "x[0]", "..", "%s{}", "a" * 255, " "])
def test_any_printable_name_works(name: str):
    """E12: unicode, slashes, brackets, 255 characters; for processes, too."""
    procs = this_host().spawn_procs(name=name)
    counter = procs.spawn(name, Counter)

    assert counter.add.call_one(1).get(10) == 1
    with pytest.raises(TypeError):
        counter.add.call_one(1, 2)
    assert name in repr(counter)


@pytest.mark.parametrize("name", ["", "a" * 300, "a\nb", "nul\0", "\ud800"])
def test_other_names_are_refused_by_spawn(name: str):
    """E12: empty, 300 characters, what cannot be shown."""
    procs = this_host().spawn_procs()

    with pytest.raises(ValueError, match="needs a name of 1 to 255 printable characters"):
        procs.spawn(name, Counter)


# E14


@pytest.mark.timeout(60)
async def test_ten_thousand_calls_in_flight_to_one_async_actor_are_all_answered():
    """E14: no RecursionError."""
    counter = one()

    futures = [counter.add_async.call_one() for _ in range(10_000)]

    assert [await future for future in futures] == [*range(1, 10_001)]


# bad input


class NotAnActor:
    """A class like any other."""


class Colliding(Actor):
    """Its endpoint has the name of a mesh operation."""

    @endpoint
    def slice(self) -> None: ...


@pytest.mark.parametrize("cls", [NotAnActor, Counter(1), "Counter", None])
def test_what_is_no_actor_class_is_not_spawned(cls: Any):
    with pytest.raises(ValueError, match="is not an Actor class; derive it from"):
        this_host().spawn_procs().spawn("x", cls)


def test_an_endpoint_that_a_mesh_operation_would_hide_is_refused():
    with pytest.raises(ValueError, match="collides with an endpoint name: 'slice' of Colliding"):
        this_host().spawn_procs().spawn("x", Colliding)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((1, 2), {}), ((), {"wrong": 1}), ((1,), {"value": 1})]
)
def test_wrong_constructor_arguments_are_refused_by_spawn(
    args: tuple[Any, ...], kwargs: dict[str, Any]
):
    with pytest.raises(TypeError, match=r"constructor Counter\.__init__\(value.*\): "):
        this_host().spawn_procs().spawn("x", Counter, *args, **kwargs)


@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"m": 1}), ((1,), {"n": 1})])
@pytest.mark.parametrize("adverb", ["call", "call_one", "choose", "stream", "broadcast"])
def test_wrong_arguments_are_refused_at_once(
    adverb: str, args: tuple[Any, ...], kwargs: dict[str, Any]
):
    counter = one()

    with pytest.raises(TypeError, match=r"endpoint Counter\.add\(n"):
        getattr(counter.add, adverb)(*args, **kwargs)
    assert counter.add.call_one(1).get(10) == 1


def test_a_method_that_is_no_endpoint_says_what_to_do():
    counter = one(4)

    with pytest.raises(RuntimeError, match=r"Counter\.plain is not annotated as an endpoint"):
        counter.plain(1)
    plain: Any = counter.plain
    assert as_endpoint(plain).call_one(3).get(10) == 7
    with pytest.raises(ValueError, match="expected an method of a spawned actor"):
        as_endpoint(len)


def test_an_endpoint_is_not_called_like_a_function():
    add: Any = one().add

    with pytest.raises(TypeError, match=r"mesh\.add\.call\(\.\.\.\)"):
        add(1)


def test_an_unknown_attribute_names_the_nearest():
    counter: Any = one()

    with pytest.raises(AttributeError, match="did you mean 'add_async'"):
        _ = counter.add_asink


def test_calls_on_a_stopped_mesh_say_so():
    counter: Any = one()
    counter.add.call_one(1).get(10)
    counter.stop().get(10)

    with pytest.raises(SupervisionError, match="stopped"):
        counter.add.call_one(1).get(10)
    with pytest.raises(SupervisionError, match="stopped"):
        counter.add.broadcast(1)
    counter.stop().get(10)  # twice is the same as once


class WithNew(Actor):
    """Its arguments go to ``__new__``, too."""

    given: tuple[int, ...]

    def __new__(cls, *args: int) -> Self:
        made = super().__new__(cls)
        made.given = args
        return made

    def __init__(self, *args: int) -> None:
        self.again = args

    @endpoint
    def arguments(self) -> tuple[Any, ...]:
        return self.given, self.again

    @endpoint
    def _hidden(self) -> str:
        return "hidden"


def test_arguments_go_to_new_and_init():
    actor = this_host().spawn_procs().spawn("new", WithNew, 1, 2)

    assert actor.arguments.call_one().get(10) == ((1, 2), (1, 2))


def test_an_endpoint_may_have_a_name_with_an_underscore():
    actor: Any = this_host().spawn_procs().spawn("new", WithNew)

    assert actor._hidden.call_one().get(10) == "hidden"
    assert {"arguments", "_hidden", "stop"} <= set(dir(actor))


class Typed(Actor, Generic[T]):
    """A generic actor."""

    @endpoint
    def ping(self) -> str:
        return "pong"


def test_a_parametrized_class_can_be_spawned():
    actor: Any = this_host().spawn_procs().spawn("typed", Typed[int])

    assert actor.ping.call_one().get(10) == "pong"


class Finalized(Actor):
    """Leaves a file when it is finalized."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __del__(self) -> None:
        self.path.touch()

    @endpoint
    def ping(self) -> str:
        return "pong"


def test_a_stopped_actor_is_finalized_at_once(tmp_path: Path):
    actor: Any = this_host().spawn_procs().spawn("finalized", Finalized, tmp_path / "gone")
    actor.ping.call_one().get(10)

    actor.stop().get(10)

    wait_until((tmp_path / "gone").exists)


def test_sync_code_of_an_async_actor_waits_without_a_warning():
    actor = this_host().spawn_procs().spawn("mixed", Mixed, one())

    assert actor.sync.call_one().get(10) == (True, 2 + 3)
    on_its_loop, caught = actor.asynchronous.call_one().get(10)
    assert on_its_loop
    assert len(caught) == 1
    assert "use `await` instead" in caught[0]


def test_a_task_of_an_actor_goes_on_between_its_messages():
    actor = this_host().spawn_procs().spawn("mixed", Mixed, one())

    actor.background.call_one().get(10)

    assert actor.result.call_one().get(10) == 2
