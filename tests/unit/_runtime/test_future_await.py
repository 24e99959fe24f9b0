import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from danaus._runtime.future import Future, new_future
from danaus.testing import wait_until
from tests.unit._runtime.threads import Threads, done, failed


def later(future: Future[Any], call: Callable[[], None]) -> None:
    """Settle from another thread, once somebody awaits the future."""

    def work() -> None:
        wait_until(lambda: bool(future._callbacks))
        call()

    threading.Thread(target=work).start()


async def test_a_settled_future_is_awaited_at_once():
    assert await done("value") == "value"


async def test_a_pending_future_is_awaited():
    future = new_future(None)
    later(future, lambda: future.set_value("value"))

    assert await future == "value"


async def test_awaiting_raises_the_same_exception_every_time():
    error = ValueError("wrong")
    future = new_future(None)
    later(future, lambda: future.set_error(error))

    for _ in range(2):
        with pytest.raises(ValueError, match="wrong") as caught:
            await future
        assert caught.value is error


async def test_several_tasks_await_one_future():
    future = new_future(None)

    async def wait() -> Any:
        return await future

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait()) for _ in range(5)]
        later(future, lambda: future.set_value("value"))

    assert [task.result() for task in tasks] == ["value"] * 5


def test_several_loops_and_threads_observe_one_future():
    future = new_future(None)
    threads = Threads()

    async def wait() -> Any:
        return await future

    threads.start(lambda: asyncio.run(wait()))
    threads.start(lambda: asyncio.run(wait()))
    threads.start(future.get)
    wait_until(lambda: len(future._callbacks or ()) == 2 and bool(future._waiters))
    future.set_value("value")

    assert threads.join() == ["value"] * 3


async def test_cancelling_one_who_awaits_cancels_nothing_else():
    future = new_future(None)

    async def wait() -> Any:
        return await future

    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(wait()), group.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        future.set_value("value")

    assert first.cancelled()
    assert second.result() == "value"


async def test_a_time_limit_of_the_loop_ends_the_wait_and_not_the_work():
    future = new_future(None)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await future
    future.set_value("late")

    assert await future == "late"


async def test_a_stop_iteration_does_not_end_the_awaiting_coroutine():
    future = new_future(None)
    future.set_error(StopIteration("stop"))

    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await future
    assert isinstance(caught.value.__cause__, StopIteration)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await future.as_asyncio()


def test_awaiting_without_a_loop_is_an_error():
    coroutine = new_future(None).__await__()

    with pytest.raises(ValueError, match="await needs a running event loop"):
        next(coroutine)


def test_a_loop_that_was_closed_before_the_result_came_does_no_harm():
    future = new_future(None)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await future

    asyncio.run(give_up())
    future.set_value("value")

    assert future.get() == "value"


async def test_getting_in_a_running_loop_warns_and_works():
    future = new_future(None)
    threading.Timer(0.01, lambda: future.set_value("value")).start()

    with pytest.warns(UserWarning, match="use `await` instead") as caught:
        assert future.get() == "value"
    assert caught[0].filename == __file__


async def test_asking_for_the_exception_in_a_running_loop_warns_and_works():
    future = new_future(None)

    with pytest.warns(UserWarning, match="use `await` instead") as caught:
        assert isinstance(future.exception(timeout=0), TimeoutError)
    assert caught[0].filename == __file__


async def test_getting_what_is_there_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert done("value").get() == "value"


async def test_as_asyncio_gives_a_future_of_the_running_loop():
    future = new_future(None)
    outer = future.as_asyncio()
    later(future, lambda: future.set_value("value"))

    assert isinstance(outer, asyncio.Future)
    assert await outer == "value"
    assert await future.as_asyncio() == "value"


async def test_as_asyncio_raises_the_same_exception():
    error = ValueError("wrong")

    with pytest.raises(ValueError, match="wrong") as caught:
        await failed(error).as_asyncio()
    assert caught.value is error


async def test_cancelling_an_asyncio_future_cancels_nothing_else():
    future = new_future(None)
    future.as_asyncio().cancel()

    future.set_value("value")
    await asyncio.sleep(0)

    assert await future == "value"


def test_as_asyncio_without_a_loop_is_an_error_that_consumes_nothing():
    future = done("value")

    with pytest.raises(RuntimeError, match="no running event loop"):
        future.as_asyncio()
    assert future.get() == "value"
