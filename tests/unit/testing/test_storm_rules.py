"""The rules of the storm find what they are for, so that a storm can fail."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fault.storm import Ended, History, violations


def history() -> History:
    """Of three ranks, one of which died."""
    made = History(3, dead={2: ("node-1",)})
    made.sent = {"client": [(0, range(3)), (1, range(2)), (2, range(1, 2))]}
    made.heard = {0: {"client": [0, 1]}, 1: {"client": [0, 1, 2]}}
    made.calls = [
        Ended((0, 1), None, [7, 7], [7, 7]),
        Ended((0, 1, 2), "rank 2 on node-1 is dead"),
    ]
    return made


def test_nothing_is_wrong_with_a_storm_that_lost_nothing():
    assert violations(history()) == []


def lose(one: History) -> None:
    one.heard[0] = {"client": [0]}


def lose_all(one: History) -> None:
    one.heard[1] = {}


def double(one: History) -> None:
    one.heard[1] = {"client": [0, 1, 1, 2]}


def swap(one: History) -> None:
    one.heard[0] = {"client": [1, 0]}


def invent(one: History) -> None:
    one.heard[0] = {"client": [0, 1, 2]}


def hang(one: History) -> None:
    one.hung = 1


def answer_wrongly(one: History) -> None:
    one.calls[0] = replace(one.calls[0], value=[7, 8])


def fail_the_living(one: History) -> None:
    one.calls[0] = Ended((0, 1), "rank 2 on node-1 is dead")


def name_nobody(one: History) -> None:
    one.calls[1] = Ended((0, 1, 2), "something went wrong")


@pytest.mark.parametrize(
    "spoil",
    [lose, lose_all, double, swap, invent, hang, answer_wrongly, fail_the_living, name_nobody],
)
def test_what_went_wrong_is_found(spoil: Callable[[History], None]):
    spoiled = history()

    spoil(spoiled)

    assert violations(spoiled)
