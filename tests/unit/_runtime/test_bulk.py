import threading
from collections.abc import Generator

import pytest

from danaus._config.overrides import configured
from danaus._runtime import bulk
from danaus._runtime.bulk import BulkBudget
from danaus.testing import wait_until
from tests.unit._runtime.threads import Threads


@pytest.fixture
def budget() -> Generator[BulkBudget]:
    """Room for 100 bytes."""
    with configured(bulk_inflight_bytes=100):
        yield BulkBudget()


def waiting(budget: BulkBudget) -> bool:
    """Whether somebody waits for room."""
    return bool(budget._room._waiters)  # type: ignore[attr-defined]


def test_what_has_room_goes_at_once(budget: BulkBudget):
    budget.take("a", 60)
    budget.take("b", 40)


def test_what_has_no_room_waits_until_there_is(budget: BulkBudget):
    budget.take("a", 60)
    threads = Threads()
    threads.start(lambda: budget.take("b", 60))
    wait_until(lambda: waiting(budget))

    budget.give_back("a", 60)

    threads.join()


def test_what_is_larger_than_all_room_goes_alone(budget: BulkBudget):
    budget.take("a", 1000)
    threads = Threads()
    threads.start(lambda: budget.take("b", 1))
    wait_until(lambda: waiting(budget))

    budget.give_back("a", 1000)

    threads.join()


def test_the_death_of_a_process_gives_back_what_was_on_its_way_to_it(budget: BulkBudget):
    budget.take("a", 50)
    budget.take("a", 50)
    threads = Threads()
    threads.start(lambda: budget.take("b", 100))
    wait_until(lambda: waiting(budget))

    budget.forget("a")
    budget.forget("a")

    threads.join()


@pytest.mark.parametrize(("proc", "nbytes"), [("a", 1000), ("stranger", 10)])
def test_no_more_is_given_back_than_was_taken(budget: BulkBudget, proc: str, nbytes: int):
    budget.take("a", 10)
    budget.take("b", 90)

    budget.give_back(proc, nbytes)
    budget.give_back("a", 10)

    threads = Threads()
    threads.start(lambda: budget.take("c", 20))
    wait_until(lambda: waiting(budget))
    budget.forget("b")
    threads.join()


def test_a_sender_does_not_wait_for_ever_for_one_that_waits_for_it(
    budget: BulkBudget, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "_PATIENCE", 0.0)
    budget.take("a", 100)
    threads = Threads()

    threads.start(lambda: budget.take("b", 100))

    threads.join()


def test_many_senders_take_no_more_than_there_is(budget: BulkBudget):
    most = 0
    lock = threading.Lock()
    under_way = 0

    def work(proc: str) -> None:
        nonlocal most, under_way
        for _ in range(50):
            budget.take(proc, 40)
            with lock:
                under_way += 40
                most = max(most, under_way)
            with lock:
                under_way -= 40
            budget.give_back(proc, 40)

    threads = Threads()
    for proc in "abcd":
        threads.start(lambda proc=proc: work(proc))
    threads.join()

    assert most <= 100


def test_the_room_is_a_quarter_of_the_memory_by_default():
    memory = bulk._memory()

    assert BulkBudget()._limit == memory // 4
    assert memory > 100 << 20
