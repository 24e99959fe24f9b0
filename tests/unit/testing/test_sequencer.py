"""Order across threads: numbered blocks, gates, and waiting for a condition."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from danaus.testing import Gate, Sequencer, SequencerBroken, wait_until


def run_together(*bodies: Callable[[], object]) -> list[BaseException | None]:
    """Run each body in a thread of its own and return how each ended."""
    outcomes: list[BaseException | None] = [None] * len(bodies)

    def run(index: int, body: Callable[[], object]) -> None:
        try:
            body()
        except Exception as error:  # noqa: BLE001  # handed to the test
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_blocks_of_two_threads_run_in_the_order_of_their_numbers():
    step = Sequencer()
    seen: list[int] = []

    def blocks(*numbers: int) -> None:
        for number in numbers:
            with step(number):
                seen.append(number)

    outcomes = run_together(lambda: blocks(1, 3, 4), lambda: blocks(0, 2, 5))

    assert outcomes == [None, None]
    assert seen == [0, 1, 2, 3, 4, 5]


def test_exception_in_a_block_comes_out_and_breaks_those_who_wait():
    step = Sequencer()

    def fail() -> None:
        with step(0):
            raise KeyError("lost")

    def wait() -> None:
        with step(1):
            pytest.fail("block 1 ran")

    failed, broken = run_together(fail, wait)

    assert isinstance(failed, KeyError)
    assert isinstance(broken, SequencerBroken)
    assert str(broken) == "sequencer: block 0 raised KeyError('lost'); block 1 cannot run."


def test_block_whose_turn_never_comes_says_which_one_is_missing():
    step = Sequencer(patience=0.01)

    with pytest.raises(SequencerBroken, match=r"block 2 waited 0.01 s for block 0"), step(2):
        pytest.fail("block 2 ran")


@pytest.mark.parametrize("number", [0, -1])
def test_number_is_refused_twice_or_below_zero(number: int):
    step = Sequencer()
    with step(0):
        pass

    with pytest.raises(ValueError, match="Number each block once, from 0"), step(number):
        pass


def test_gate_holds_the_thread_until_it_is_opened():
    seen: list[str] = []

    def component(before_write: Gate) -> None:
        before_write("an argument of the hook")
        seen.append("written")

    with Gate("before the write") as gate:
        thread = threading.Thread(target=component, args=(gate,))
        thread.start()
        gate.wait_entered()
        held = list(seen)
    thread.join()

    assert held == []
    assert seen == ["written"]


def test_open_gate_lets_later_comers_pass():
    gate = Gate()
    gate.open()

    gate.wait()

    assert gate.entered


def test_gate_that_nobody_comes_to_or_opens_says_so():
    gate = Gate("the handshake", patience=0.01)

    with pytest.raises(TimeoutError, match=r"gate 'the handshake': nobody came within 0.01 s"):
        gate.wait_entered()
    with pytest.raises(TimeoutError, match=r"gate 'the handshake': not opened within 0.01 s"):
        gate.wait()


def test_wait_until_returns_once_the_condition_holds():
    looks = iter([False, False, True])

    wait_until(lambda: next(looks))

    assert next(looks, "used up") == "used up"


def test_wait_until_names_what_it_waited_for():
    with pytest.raises(TimeoutError, match=r"waited 0.01 s in vain for the proc's end"):
        wait_until(lambda: False, timeout=0.01, what="the proc's end")


def test_wait_until_with_timeout_zero_looks_once():
    looks: list[int] = []

    with pytest.raises(TimeoutError):
        wait_until(lambda: looks.append(1), timeout=0)

    assert looks == [1]
