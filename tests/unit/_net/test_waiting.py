import signal
import threading
import time
from collections.abc import Generator

import pytest

from danaus._net.reactor import Reactor, Waiter
from danaus.testing import Gate, Sequencer, wait_until
from tests.unit._net.threads import PATIENCE, Make, Pair, Worker, drive, in_thread


def test_a_waiter_that_was_woken_does_not_wait(reactor: Reactor):
    waiter = Waiter(reactor)

    waiter.wake()
    waiter.wake()

    assert waiter.wait(0)
    assert waiter.wait(None)


def test_a_wait_ends_when_its_time_is_up(reactor: Reactor):
    def work() -> bool:
        return Waiter(reactor).wait(0.02)

    start = time.monotonic()
    assert in_thread(work) is False
    assert time.monotonic() - start >= 0.02


def test_a_waiter_can_be_used_again_after_a_reset(reactor: Reactor):
    def work() -> list[bool]:
        waiter = Waiter(reactor)
        waiter.wake()
        first = waiter.wait(0)
        waiter.reset()
        return [first, waiter.wait(0)]

    assert in_thread(work) == [True, False]


def test_a_waiter_without_a_reactor_waits_too():
    waiter = Waiter(None)
    worker = Worker(lambda: waiter.wait(PATIENCE))

    waiter.wake()

    assert worker.join()
    assert Waiter(None).wait(0) is False


def test_a_thread_that_waits_again_and_again_comes_to_drive(reactor: Reactor, pair: Make):
    me, drivers = in_thread(lambda: drive(reactor, pair))

    assert drivers[-1] == me


def test_the_io_thread_takes_over_when_the_driver_does_not_come_back(reactor: Reactor, pair: Make):
    in_thread(lambda: drive(reactor, pair))
    handled_by: list[str] = []
    other = pair(lambda _data: handled_by.append(threading.current_thread().name))

    other.theirs.send(b"x")

    wait_until(lambda: handled_by == ["io"])


def test_the_io_thread_that_fell_asleep_takes_over_when_the_driver_leaves(
    reactor: Reactor, pair: Make
):
    handled_by: list[str] = []
    other = pair(lambda _data: handled_by.append(threading.current_thread().name))
    waiters: list[Waiter] = []

    def driver() -> bool:
        drive(reactor, pair)
        waiters.append(Waiter(reactor))
        return waiters[0].wait(PATIENCE)

    worker = Worker(driver)
    wait_until(lambda: reactor._parked)
    waiters[0].wake()
    worker.join()
    other.theirs.send(b"x")

    wait_until(lambda: handled_by == ["io"])


def test_a_waiting_thread_is_served_while_another_drives(reactor: Reactor, pair: Make):
    """One thread drives and gets nothing; the other's message comes all the same."""
    step = Sequencer()
    idle = threading.Event()

    def driver() -> bool:
        drive(reactor, pair)
        waiter = Waiter(reactor)
        end = pair(lambda _data: waiter.wake())
        with step(0):
            idle.set()
            ends.append(end)
        return waiter.wait(PATIENCE)

    def other() -> bool:
        waiter = Waiter(reactor)
        link = pair(lambda _data: waiter.wake())
        with step(1):
            link.theirs.send(b"x")
        return waiter.wait(PATIENCE)

    ends: list[Pair] = []
    first, second = Worker(driver), Worker(other)

    assert second.join()
    ends[0].theirs.send(b"x")
    assert first.join()


def test_a_waiting_thread_is_served_when_the_driver_leaves(reactor: Reactor, pair: Make):
    """The driver stands in a handler while the other begins to wait; then it leaves."""
    with Gate("in the handler") as gate:
        waiter = Waiter(reactor)
        link = pair(lambda _data: waiter.wake())

        def driver() -> None:
            drive(reactor, pair)
            mine = Waiter(reactor)

            def on_message(_data: bytes) -> None:
                gate.wait()
                mine.wake()

            pair(on_message).theirs.send(b"x")
            assert mine.wait(PATIENCE)

        first = Worker(driver)
        gate.wait_entered()
        second = Worker(lambda: waiter.wait(PATIENCE))
        link.theirs.send(b"x")

    first.join()
    assert second.join()


def test_a_driver_that_another_thread_wakes_leaves(reactor: Reactor, pair: Make):
    """Nothing comes by a socket: only the wake-up itself can bring the driver out of the kernel."""
    waiters: list[Waiter] = []

    def driver() -> bool:
        drive(reactor, pair)
        waiters.append(Waiter(reactor))
        return waiters[0].wait(PATIENCE)

    worker = Worker(driver)
    wait_until(lambda: bool(waiters) and waiters[0].driver != 0)

    waiters[0].wake()

    assert worker.join()


def test_a_handler_on_a_waiting_thread_may_not_wait_by_driving(reactor: Reactor, pair: Make):
    seen: list[bool] = []

    def work() -> None:
        waiter = Waiter(reactor)

        def on_message(_data: bytes) -> None:
            seen.append(reactor.may_drive())
            waiter.wake()

        link = pair(on_message)
        seen.append(reactor.may_drive())
        link.theirs.send(b"x")
        waiter.wait(PATIENCE)

    in_thread(work)

    assert seen == [True, False]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_message_is_lost_between_threads_that_take_turns(
    reactor: Reactor, pair: Make, threads: int
):
    rounds = 300

    def work() -> int:
        waiter = Waiter(reactor)
        link = pair(lambda _data: waiter.wake())
        done = 0
        for _ in range(rounds):
            link.theirs.send(b"x")
            if not waiter.wait(PATIENCE):
                break
            waiter.reset()
            done += 1
        return done

    workers = [Worker(work) for _ in range(threads)]

    assert [worker.join() for worker in workers] == [rounds] * threads


def test_no_wake_up_is_lost_between_threads_that_wake_each_other(reactor: Reactor):
    """Two threads pass a token; whoever waits may drive, and only the other one wakes it."""
    rounds = 500
    ready = threading.Barrier(2)
    waiters: dict[int, Waiter] = {}
    token = [0]

    def work(me: int) -> int:
        mine = waiters[me] = Waiter(reactor)
        ready.wait(PATIENCE)
        other = waiters[1 - me]
        done = 0
        while done < rounds:
            if token[0] % 2 == me:
                done += 1
                token[0] += 1
                other.wake()
            else:
                if not mine.wait(PATIENCE):
                    break
                mine.reset()
        other.wake()
        return done

    workers = [Worker(lambda me=me: work(me)) for me in (0, 1)]

    assert [worker.join() for worker in workers] == [rounds, rounds]


def test_a_wake_up_that_meets_a_reset_is_not_lost(reactor: Reactor, pair: Make):
    """The waiting thread sees `ready` and resets it before the waker has released the lock."""
    waiters: list[Waiter] = []

    def driver() -> bool:
        drive(reactor, pair)
        waiter = Waiter(reactor)
        waiter.ready = True  # as far as a first waker has come
        waiter.reset()
        waiter._lock.release()  # the rest of what it does
        waiters.append(waiter)
        return waiter.wait(PATIENCE)

    worker = Worker(driver)
    wait_until(lambda: bool(waiters) and waiters[0].driver != 0)
    start = time.monotonic()
    waiters[0].wake()

    assert worker.join()
    assert time.monotonic() - start < PATIENCE / 2  # it was told, not timed out


@pytest.fixture
def plain_signals() -> Generator[None]:
    """The handlers of a plain program, not of a test runner: the main thread may drive."""
    numbers = [signal.SIGALRM, signal.SIGINT]
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("plain_signals")
def test_an_interrupt_while_the_main_thread_drives_waits_for_the_handler(
    reactor: Reactor, pair: Make
):
    me, _ = drive(reactor, pair)
    whole: list[int] = []

    def on_message(_data: bytes) -> None:
        if threading.get_ident() == me:
            signal.raise_signal(signal.SIGINT)
            whole.append(1)
        else:
            link.theirs.send(b"again")  # the I/O thread was quicker

    link = pair(on_message)
    link.theirs.send(b"x")

    with pytest.raises(KeyboardInterrupt):
        Waiter(reactor).wait(PATIENCE)

    assert whole == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("plain_signals")
def test_after_an_interrupt_waiting_goes_on_as_before(reactor: Reactor, pair: Make):
    drive(reactor, pair)
    waiter = Waiter(reactor)
    reactor.call_later(0.01, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        waiter.wait(PATIENCE)

    reactor.call_later(0.01, waiter.wake)

    assert waiter.wait(PATIENCE)


@pytest.mark.usefixtures("plain_signals")
def test_the_main_thread_does_not_drive_where_the_program_handles_signals(reactor: Reactor):
    assert Waiter(reactor).may_drive
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)

    assert not Waiter(reactor).may_drive
