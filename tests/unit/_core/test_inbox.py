from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._core.inbox import (
    CLOSED_LIMIT,
    Gap,
    Inbox,
    InboxStatistics,
    Sequencer,
    decode_runs,
    encode_runs,
)


def test_a_message_in_order_is_delivered_at_once():
    inbox: Inbox[str] = Inbox()

    assert inbox.accept("a", 0, "first") == ("first",)
    assert inbox.accept("a", 1, "second") == ("second",)


def test_an_early_message_is_held_until_the_gap_closes():
    inbox: Inbox[str] = Inbox()

    assert list(inbox.accept("a", 2, "third")) == []
    assert list(inbox.accept("a", 1, "second")) == []
    assert inbox.held == 2
    assert inbox.accept("a", 0, "first") == ["first", "second", "third"]
    assert inbox.held == 0


def test_a_gap_that_closes_in_part_keeps_the_rest():
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 3, "fourth")
    inbox.accept("a", 1, "second")

    assert inbox.accept("a", 0, "first") == ["first", "second"]
    assert inbox.gaps() == [Gap("a", 2, 1)]
    inbox.check()


def test_senders_do_not_wait_for_each_other():
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 1, "held")

    assert inbox.accept("b", 0, "free") == ("free",)
    assert inbox.gaps() == [Gap("a", 0, 1)]


@pytest.mark.parametrize("again", [0, 2])
def test_a_message_that_comes_twice_is_dropped(again: int):
    inbox: Inbox[int] = Inbox()
    inbox.accept("a", 0, 0)
    inbox.accept("a", 2, 2)

    assert list(inbox.accept("a", again, again)) == []
    assert inbox.statistics().duplicates == 1
    assert inbox.accept("a", 1, 1) == [1, 2]


def test_dropping_a_sender_returns_what_it_left_in_order():
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 3, "fourth")
    inbox.accept("a", 1, "second")

    assert inbox.drop_sender("a") == ["second", "fourth"]
    assert inbox.held == 0
    inbox.check()


def test_a_dropped_sender_is_not_heard_any_more():
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 0, "first")
    inbox.drop_sender("a")
    inbox.drop_sender("a")

    assert list(inbox.accept("a", 0, "first")) == []
    assert list(inbox.accept("a", 1, "second")) == []
    assert inbox.held == 0
    inbox.check()


def test_a_forgotten_sender_may_begin_anew():
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 0, "first")
    inbox.accept("a", 2, "third")

    assert inbox.forget_sender("a") == ["third"]
    assert inbox.accept("a", 0, "first again") == ("first again",)
    assert inbox.forget_sender("unknown") == []


def test_a_dropped_sender_that_is_forgotten_may_begin_anew():
    inbox: Inbox[str] = Inbox()
    inbox.drop_sender("a")

    assert inbox.forget_sender("a") == []
    assert inbox.accept("a", 0, "first") == ("first",)
    inbox.check()


def test_memory_of_dropped_senders_is_bounded():
    inbox: Inbox[str] = Inbox()

    for number in range(CLOSED_LIMIT + 10):
        inbox.drop_sender(number)

    inbox.check()
    assert list(inbox.accept(CLOSED_LIMIT + 9, 0, "late")) == []
    assert inbox.accept(0, 0, "forgotten") == ("forgotten",)


def test_statistics_count_senders_deliveries_held_and_duplicates():
    inbox: Inbox[int] = Inbox()
    for sender, seq in [("a", 0), ("a", 1), ("a", 1), ("b", 0), ("c", 5), ("gone", 0)]:
        inbox.accept(sender, seq, seq)
    inbox.drop_sender("gone")

    assert inbox.statistics() == InboxStatistics(senders=3, delivered=4, held=1, duplicates=1)


@pytest.mark.parametrize("damage", ["count", "empty", "ready", "closed", "open"])
def test_check_finds_a_damaged_inbox(damage: str):
    inbox: Inbox[str] = Inbox()
    inbox.accept("a", 1, "held")
    inbox.drop_sender("b")
    inbox.check()

    if damage == "count":
        inbox._held = 7
    elif damage == "empty":
        inbox._gaps["c"] = {}
    elif damage == "ready":
        inbox._expected["a"] = 1
    elif damage == "closed":
        inbox._closed.update(dict.fromkeys(range(2 * CLOSED_LIMIT)))
    else:
        inbox._expected["b"] = 0

    with pytest.raises(AssertionError):
        inbox.check()


@given(st.permutations(range(8)), st.lists(st.integers(0, 7)))
def test_any_order_with_any_repetitions_is_delivered_once_in_order(
    order: list[int], repeated: list[int]
):
    inbox: Inbox[int] = Inbox()
    delivered: list[int] = []

    for seq in [*order[:4], *repeated, *order[4:], *repeated]:
        delivered.extend(inbox.accept("a", seq, seq))
        inbox.check()

    assert delivered == list(range(8))


def test_a_sequencer_counts_per_receiver():
    numbers = Sequencer()

    assert [numbers.next("a"), numbers.next("b"), numbers.next("a")] == [0, 0, 1]


def test_a_sequencer_reserves_a_run():
    numbers = Sequencer()
    numbers.next("a")

    assert numbers.take("a", 3) == 1
    assert numbers.take("a", 0) == 4
    assert numbers.next("a") == 4


def test_a_sequencer_numbers_the_receivers_of_a_cast():
    numbers = Sequencer()
    numbers.next("b")

    assert numbers.next_each(["a", "b", "c"]) == [0, 1, 0]


def test_a_sequencer_forgets_a_receiver():
    numbers = Sequencer()
    numbers.next("a")

    numbers.forget("a")
    numbers.forget("unknown")

    assert numbers.next("a") == 0


def test_equal_numbers_are_encoded_as_one_run():
    assert encode_runs([7] * 1000) == [(7, 1000)]
    assert encode_runs([]) == []


@given(st.lists(st.integers(0, 3)))
def test_runs_decode_to_the_numbers_that_were_encoded(numbers: list[int]):
    runs = encode_runs(numbers)

    assert decode_runs(runs) == numbers
    assert all(one[0] != other[0] for one, other in pairwise(runs))
