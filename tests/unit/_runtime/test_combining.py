import operator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danaus._runtime.combining import combine
from danaus._runtime.outcome import COVERED, FAILED, RAISED, VALUE
from danaus._wire.codec import dumps, loads
from danaus._wire.tree_frames import Batch

ADD = bytes(dumps(operator.add)[0])


def batch(entries: list[Any]) -> Batch:
    return Batch("cast", 1, 1, complete=True, entries=entries, lost=[])


def value(rank: int, what: object) -> Any:
    return (rank, (VALUE, dumps(what)))


@given(st.permutations([(rank, chr(97 + rank)) for rank in range(6)]))
def test_values_are_combined_by_ascending_ranks_and_the_lowest_answers(
    entries: list[tuple[int, str]],
):
    combined = combine(batch([value(rank, letter) for rank, letter in entries]), ADD)

    answers = dict(combined.entries)
    assert answers[0][0] == VALUE
    assert loads(answers[0][1]) == "abcdef"
    assert [answers[rank][0] for rank in range(1, 6)] == [COVERED] * 5


def test_errors_are_left_as_they_are():
    died = (1, (FAILED, (b"death",)))
    raised = (3, (RAISED, (b"error",)))

    combined = combine(batch([value(0, 1), died, value(2, 5), raised]), ADD)

    answers = dict(combined.entries)
    assert (answers[1], answers[3]) == (died[1], raised[1])
    assert (loads(answers[0][1]), answers[2][0]) == (6, COVERED)


def test_a_value_alone_stays_what_it_is():
    alone = batch([value(4, "x"), (5, (FAILED, (b"death",)))])

    assert combine(alone, ADD) == alone


def test_what_the_function_raises_is_the_answer():
    combined = combine(batch([value(0, 1), value(1, "x")]), ADD)

    assert dict(combined.entries)[0][0] == RAISED


def test_a_function_that_cannot_be_rebuilt_is_an_error_too():
    combined = combine(batch([value(0, 1), value(1, 2)]), b"no pickle")

    assert dict(combined.entries)[0][0] == RAISED
