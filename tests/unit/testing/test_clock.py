"""Virtual time: the clock, the asyncio loop on it, and their order of events."""

from __future__ import annotations

import asyncio
import doctest
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import danaus.testing.clock
from danaus.testing import Timer, VirtualClock, VirtualEventLoop, run_virtual, wait_all_blocked


def test_clock_stands_still_until_advanced(virtual_clock: VirtualClock):
    assert virtual_clock.now() == 0.0

    virtual_clock.advance(1.5)

    assert virtual_clock.now() == 1.5


def test_callbacks_run_in_order_of_time_then_of_request(virtual_clock: VirtualClock):
    seen: list[str] = []
    virtual_clock.call_at(2.0, seen.append, "late")
    virtual_clock.call_at(1.0, seen.append, "first")
    virtual_clock.call_at(1.0, seen.append, "second")

    virtual_clock.advance(2.0)

    assert seen == ["first", "second", "late"]


def test_callback_sees_its_own_time_and_not_the_end_of_the_advance(virtual_clock: VirtualClock):
    seen: list[float] = []
    virtual_clock.call_at(1.0, lambda: seen.append(virtual_clock.now()))

    virtual_clock.advance(10.0)

    assert seen == [1.0]
    assert virtual_clock.now() == 10.0


def test_timer_set_by_a_callback_runs_in_the_same_advance(virtual_clock: VirtualClock):
    seen: list[float] = []

    def again() -> None:
        seen.append(virtual_clock.now())
        virtual_clock.call_later(1.0, again)

    virtual_clock.call_later(1.0, again)
    virtual_clock.advance(3.0)

    assert seen == [1.0, 2.0, 3.0]


def test_cancelled_timer_does_not_run_and_is_no_deadline(virtual_clock: VirtualClock):
    seen: list[str] = []
    timer = virtual_clock.call_at(1.0, seen.append, "no")
    timer.cancel()

    assert virtual_clock.next_deadline() is None
    assert not virtual_clock.advance_to_next()
    assert seen == []


def test_callback_can_cancel_a_timer_of_the_same_time(virtual_clock: VirtualClock):
    seen: list[str] = []
    timers: list[Timer] = []

    def cancel_the_other() -> None:
        timers[0].cancel()

    virtual_clock.call_at(1.0, cancel_the_other)
    timers.append(virtual_clock.call_at(1.0, seen.append, "no"))

    virtual_clock.advance(1.0)

    assert seen == []


def test_time_that_has_passed_is_due_at_once_and_does_not_turn_the_clock_back():
    clock = VirtualClock(start=5.0)
    seen: list[float] = []
    clock.call_at(1.0, lambda: seen.append(clock.now()))

    clock.advance(0)

    assert seen == [5.0]
    assert clock.now() == 5.0


def test_exception_of_a_callback_leaves_the_clock_at_its_time(virtual_clock: VirtualClock):
    seen: list[str] = []
    virtual_clock.call_at(1.0, lambda: 1 / 0)
    virtual_clock.call_at(2.0, seen.append, "behind")

    with pytest.raises(ZeroDivisionError):
        virtual_clock.advance(5.0)

    assert virtual_clock.now() == 1.0
    virtual_clock.advance(1.0)
    assert seen == ["behind"]


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_advance_refuses_to_run_backwards(virtual_clock: VirtualClock, seconds: float):
    with pytest.raises(ValueError, match=r"cannot advance by .* Give 0 or more"):
        virtual_clock.advance(seconds)


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=30))
def test_advancing_from_deadline_to_deadline_meets_every_timer_at_its_time(times: list[float]):
    clock = VirtualClock()
    seen: list[float] = []
    for when in times:
        clock.call_at(when, lambda: seen.append(clock.now()))

    while clock.advance_to_next():
        pass

    assert seen == sorted(times)


def test_loop_sleeps_for_hours_in_no_time():
    begun = time.monotonic()

    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3600
    assert time.monotonic() - begun < 5


def test_timeout_fires_at_its_virtual_time():
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 30


def test_sleepers_wake_in_order_of_their_deadlines():
    seen: list[int] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    async def main() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (30, 10, 20)))

    run_virtual(main())

    assert seen == [10, 20, 30]


def test_timers_of_the_clock_and_of_the_loop_share_one_time_line():
    clock = VirtualClock()
    seen: list[str] = []

    async def main() -> None:
        woken = asyncio.Event()
        clock.call_at(2.0, woken.set)
        clock.call_at(1.0, seen.append, "clock at 1")
        await asyncio.sleep(1.5)
        seen.append("loop at 1.5")
        await woken.wait()
        seen.append(f"clock at {clock.now()}")

    run_virtual(main(), clock=clock)

    assert seen == ["clock at 1", "loop at 1.5", "clock at 2.0"]


def test_real_socket_traffic_comes_before_a_jump_within_the_grace():
    async def main() -> tuple[bytes, float]:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            right.setblocking(False)
            loop = asyncio.get_running_loop()
            answer = threading.Thread(target=right.send, args=(b"answer",))
            answer.start()
            async with asyncio.timeout(30):
                got = await loop.sock_recv(left, 100)
            answer.join()
            return got, loop.time()

    assert run_virtual(main(), grace=1.0) == (b"answer", 0)


def test_loop_without_timers_waits_for_a_thread_in_real_time():
    async def main() -> str:
        return await asyncio.to_thread(lambda: "from the thread")

    assert run_virtual(main()) == "from the thread"


def test_wait_all_blocked_returns_when_the_others_wait_and_time_has_not_passed():
    seen: list[str] = []

    async def worker() -> None:
        for step in range(3):
            await asyncio.sleep(0)
            seen.append(f"step {step}")
        await asyncio.sleep(10)
        seen.append("after the sleep")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker())
            await wait_all_blocked()
            seen.append(f"blocked at {asyncio.get_running_loop().time()}")

    run_virtual(main())

    assert seen == ["step 0", "step 1", "step 2", "blocked at 0.0", "after the sleep"]


def test_cancelled_wait_all_blocked_does_not_use_up_the_wake_of_another():
    async def main() -> str:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(wait_all_blocked())
            await asyncio.sleep(0)
            first.cancel()
            await wait_all_blocked()
        return "woken"

    assert run_virtual(main()) == "woken"


def test_wait_all_blocked_on_a_real_loop_says_what_to_use():
    with pytest.raises(TypeError, match="Use run_virtual"):
        asyncio.run(wait_all_blocked())


def test_loop_is_a_loop_factory_for_the_standard_runner():
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        assert runner.run(asyncio.sleep(7, "done")) == "done"


def test_examples_in_the_documentation_run():
    assert doctest.testmod(danaus.testing.clock).failed == 0
