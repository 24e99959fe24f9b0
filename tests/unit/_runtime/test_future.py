import asyncio
import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from danaus._runtime.future import Future, new_future
from danaus.testing import Gate, wait_until
from tests.unit._runtime.threads import PATIENCE, Threads, done, failed


def test_a_future_cannot_be_constructed():
    with pytest.raises(TypeError, match=r"^Future objects are returned by Danaus operations"):
        Future()


def test_a_value_comes_every_time():
    future = done("value")

    assert [future.get(), future.result(), future.get(timeout=0)] == ["value"] * 3
    assert future.exception() is None
    assert future.done


def test_the_same_exception_is_raised_every_time():
    error = ValueError("wrong")
    future = failed(error)

    for _ in range(2):
        with pytest.raises(ValueError, match="wrong") as caught:
            future.get()
        assert caught.value is error
    assert future.exception() is error


def test_raising_the_same_exception_again_does_not_lengthen_its_traceback():
    future = failed(ValueError("wrong"))
    lengths: list[int] = []

    for _ in range(3):
        with pytest.raises(ValueError, match="wrong") as caught:
            future.get()
        lengths.append(len(caught.traceback))

    assert lengths[0] == lengths[2]


def test_a_wait_that_is_too_short_raises_and_a_later_one_succeeds():
    future = new_future(None)

    with pytest.raises(TimeoutError, match=r"no result within 0\.01 s; the operation goes on"):
        future.get(timeout=0.01)
    with pytest.raises(TimeoutError):
        future.get(timeout=0)
    future.set_value("late")

    assert future.get() == "late"


def test_the_exception_of_a_wait_that_is_too_short_is_returned_too():
    future = new_future(None)

    assert isinstance(future.exception(timeout=0), TimeoutError)
    future.set_value(1)
    assert future.exception(timeout=0) is None


@pytest.mark.parametrize("timeout", [math.nan, -1, -0.001, math.inf, "5", [1]])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("method", ["get", "result", "exception"])
def test_a_timeout_that_is_none_is_refused(timeout: Any, settled: bool, method: str):
    future = done(1) if settled else new_future(None)

    with pytest.raises(ValueError, match="expected a non-negative, finite number of seconds"):
        getattr(future, method)(timeout=timeout)


@pytest.mark.parametrize("timeout", [0, 1, 0.5, None])
def test_a_timeout_may_be_whole_zero_or_none(timeout: float | None):
    assert done(1).get(timeout=timeout) == 1


def test_several_threads_get_the_value():
    future = new_future(None)
    threads = Threads()
    for _ in range(5):
        threads.start(future.get)
    wait_until(lambda: len(future._waiters or ()) == 5)

    future.set_value("value")

    assert threads.join() == ["value"] * 5


def test_a_thread_that_gave_up_does_not_hide_the_others():
    future = new_future(None)
    threads = Threads()
    threads.start(future.get)
    threads.start(lambda: future.get(timeout=0.01))
    threads.start(future.get)

    wait_until(lambda: len(threads.results) == 1)
    future.set_value("value")

    assert [type(result) for result in threads.join()] == [TimeoutError, str, str]


def test_only_the_first_settling_counts():
    future = new_future(None)

    future.set_value("first")
    future.set_value("second")
    future.set_error(ValueError())
    future.set_thunk(lambda: "third")

    assert future.get() == "first"


def test_of_many_that_settle_at_once_one_wins_for_good():
    for _ in range(100):
        future = new_future(None)
        barrier = threading.Barrier(3)

        def settle(call: Callable[[], Any], barrier: threading.Barrier = barrier) -> None:
            barrier.wait(PATIENCE)
            call()

        threads = Threads()
        threads.start(lambda f=future: settle(lambda: f.set_value("value")))
        threads.start(lambda f=future: settle(lambda: f.set_error(ValueError())))
        threads.start(lambda f=future: settle(lambda: f.set_thunk(lambda: "thunk")))
        threads.join()

        seen = {repr(future.exception() or future.get()) for _ in range(3)}
        assert len(seen) == 1


def test_a_thunk_is_computed_once_by_the_first_who_looks():
    computed: list[int] = []
    future = new_future(None)

    future.set_thunk(lambda: computed.append(threading.get_ident()))
    assert computed == []
    future.get()
    future.get()

    assert computed == [threading.get_ident()]


def test_an_exception_of_the_thunk_is_the_result():
    error = KeyError("missing")
    future = new_future(None)

    def fail() -> None:
        raise error

    future.set_thunk(fail)

    assert future.exception() is error
    assert future.exception() is error


def test_those_who_look_while_the_thunk_computes_wait_for_it():
    threads = Threads()
    future = new_future(None)
    with Gate("computing") as gate:

        def compute() -> str:
            gate.wait()
            return "value"

        future.set_thunk(compute)
        threads.start(future.get)
        gate.wait_entered()
        threads.start(future.get)
        threads.start(future.get)

    assert threads.join() == ["value"] * 3


def test_a_thunk_that_computes_keeps_no_other_future_waiting():
    threads = Threads()
    slow, quick = new_future(None), new_future(None)
    with Gate("computing") as gate:
        slow.set_thunk(gate)
        threads.start(slow.get)
        gate.wait_entered()

        quick.set_thunk(lambda: "quick")
        assert quick.get() == "quick"

    threads.join()


def test_a_thunk_may_look_at_other_futures():
    inner, outer = new_future(None), new_future(None)
    inner.set_thunk(lambda: 20)
    outer.set_thunk(lambda: inner.get() + 1)

    assert outer.get() == 21


def test_an_interrupt_of_the_thunk_passes_and_later_looks_say_so():
    future = new_future(None)

    def interrupted() -> None:
        raise KeyboardInterrupt

    future.set_thunk(interrupted)

    with pytest.raises(KeyboardInterrupt):
        future.get()
    with pytest.raises(RuntimeError, match="the result was lost"):
        future.get()


def test_callbacks_run_once_it_is_settled_in_order():
    future = new_future(None)
    called: list[int] = []
    for i in range(3):
        future.add_callback(lambda i=i: called.append(i))
    assert called == []

    future.set_value(1)
    assert called == [0, 1, 2]
    future.add_callback(lambda: called.append(3))

    assert called == [0, 1, 2, 3]


def test_no_callback_is_lost_that_is_added_while_others_are():
    for _ in range(100):
        future = new_future(None)
        called: list[int] = []
        barrier = threading.Barrier(4)
        threads = Threads()

        def add(
            i: int,
            barrier: threading.Barrier = barrier,
            future: Future[Any] = future,
            called: list[int] = called,
        ) -> None:
            barrier.wait(PATIENCE)
            future.add_callback(lambda: called.append(i))

        for i in range(3):
            threads.start(lambda i=i, add=add: add(i))
        barrier.wait(PATIENCE)
        future.set_value(1)
        threads.join()

        assert sorted(called) == [0, 1, 2]


async def answer(value: object) -> object:
    await asyncio.sleep(0)
    return value


def test_a_coroutine_runs_when_it_is_first_observed():
    started: list[int] = []

    async def work() -> str:
        started.append(1)
        return "value"

    future = Future._from_coro(work())
    assert started == []

    assert [future.get(), future.get()] == ["value", "value"]
    assert started == [1]


def test_a_coroutine_that_several_threads_observe_runs_once():
    started: list[int] = []

    async def work() -> str:
        started.append(1)
        await asyncio.sleep(0)
        return "value"

    for _ in range(20):
        started.clear()
        future = Future._from_coro(work())
        threads = Threads()
        for _ in range(3):
            threads.start(future.get)
        assert threads.join() == ["value"] * 3
        assert started == [1]


def test_the_exception_of_a_coroutine_is_the_result():
    async def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Future._from_coro(fail()).get()


async def test_a_coroutine_can_be_awaited():
    assert await Future._from_coro(answer("value")) == "value"
    assert await Future._from_coro(answer("value")).as_asyncio() == "value"


def test_a_future_that_was_consumed_is_of_no_more_use():
    coroutine = answer("value")
    future = Future._from_coro(coroutine)

    assert future._take_inner() is coroutine
    coroutine.close()

    for use in (future.get, future._take_inner, lambda: next(future.__await__())):
        with pytest.raises(ValueError, match=r"Future was consumed\."):
            use()
    assert isinstance(future.exception(), ValueError)


def test_who_waits_for_a_future_that_is_consumed_is_told():
    future = new_future(None)
    threads = Threads()
    threads.start(future.get)
    wait_until(lambda: bool(future._waiters))

    future._take_inner()

    assert [str(result) for result in threads.join()] == ["Future was consumed."]


@pytest.mark.parametrize(
    ("future", "text"),
    [
        (new_future(None), "<Future pending>"),
        (done(1), "<Future done>"),
        (failed(ValueError()), "<Future failed>"),
    ],
)
def test_a_future_shows_its_state_and_not_its_value(future: Future[Any], text: str):
    assert repr(future) == text


def test_a_future_can_be_subscripted():
    assert Future[int] is not None


def test_a_settled_future_holds_on_to_nobody_who_waited():
    class Marked:
        def call(self) -> None:
            pass

    marked = Marked()
    watch = weakref.ref(marked)
    future = new_future(None)
    future.add_callback(marked.call)
    del marked
    future.set_value(1)

    gc.collect()

    assert watch() is None
