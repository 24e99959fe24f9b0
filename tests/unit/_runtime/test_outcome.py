import time
from collections.abc import Callable
from typing import Any

import pytest

from danaus._runtime.outcome import (
    FAILED,
    RAISED,
    close_error,
    close_failure,
    format_remote,
    open_error,
)
from danaus.errors import ActorError, MeshFailure, SupervisionError
from tests.unit.odd_errors import CATCHABLE, MADE, boom

MESSAGE = "Actor call trainer.step failed."

LOST = {
    "keyword only",
    "five positional",
    "holds a lock",
    "no arguments",
    "raises in __init__",
    "raises in __reduce__",
    "raises in __setstate__",
    "becomes something else",
}
"""Kinds that cannot be pickled, or not be rebuilt."""


def travel(error: BaseException) -> BaseException:
    return open_error(RAISED, close_error(error, MESSAGE), "trainer.step")


@pytest.mark.parametrize("kind", MADE)
def test_every_exception_arrives_with_its_name_and_its_traceback(kind: str):
    original = boom(kind)
    start = time.monotonic()

    error = travel(original)

    assert isinstance(error, ActorError)
    assert str(error).startswith(f"{MESSAGE}\n")
    assert type(original).__name__ in str(error)
    assert "in boom" in str(error)
    assert time.monotonic() - start < 2.0


@pytest.mark.parametrize("kind", sorted(CATCHABLE - LOST - {"of a function"}))
def test_an_exception_that_can_be_rebuilt_is_caught_as_what_it_was(kind: str):
    original = boom(kind)

    error = travel(original)

    assert isinstance(error, type(original))


@pytest.mark.parametrize("kind", sorted(LOST))
def test_an_exception_that_cannot_be_rebuilt_arrives_with_its_text(kind: str):
    original = boom(kind)

    error: Any = travel(original)

    assert isinstance(error.exception, Exception)
    assert str(original) in str(error)


def raised_by(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # it is the result
        return error
    raise AssertionError


def look_up() -> object:
    return {}["the key"]


def test_the_text_of_the_cause_travels_with_the_exception():
    def work() -> None:
        try:
            look_up()
        except KeyError as cause:
            raise ValueError("the consequence") from cause

    text = str(travel(raised_by(work)))

    assert text.index("the key") < text.index("the consequence")
    assert "direct cause" in text


def test_the_text_of_the_context_travels_with_the_exception():
    def work() -> None:
        try:
            look_up()
        except KeyError:
            int("no number")

    text = str(travel(raised_by(work)))

    assert "the key" in text
    assert "During handling" in text


def test_the_parts_of_a_group_travel_with_it():
    text = str(travel(boom("a group")))

    assert "ValueError: one" in text
    assert "KeyError: 'two'" in text


def test_a_cause_that_leads_back_to_itself_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert "first" in str(travel(first))


def test_a_very_long_text_is_cut():
    assert len(str(travel(ValueError("x" * 1_000_000)))) < 20_000


def test_a_deep_traceback_is_cut():
    def recurse(depth: int) -> None:
        if depth == 0:
            raise ValueError("at the bottom")
        recurse(depth - 1)

    text = str(travel(raised_by(lambda: recurse(500))))

    assert "at the bottom" in text
    assert len(text) < 20_000


def test_an_exception_that_was_never_raised_has_a_text_too():
    assert "ValueError: wrong" in str(travel(ValueError("wrong")))


def test_a_text_that_cannot_be_made_costs_the_text_and_nothing_else():
    formatted = format_remote(boom("raises in __str__"))

    assert "RaisingText" in formatted


def test_an_error_passes_through_several_calls():
    inner = travel(boom("an OSError"))

    outer: Any = travel(inner)

    assert isinstance(outer, FileNotFoundError)
    assert isinstance(outer, ActorError)
    assert outer.errno == 2


def test_a_death_arrives_as_the_error_of_the_call():
    death = MeshFailure("trainer", [3], "it was killed", exit="SIGKILL", stderr="last words")

    error = open_error(FAILED, close_failure(death), "trainer.step")

    assert isinstance(error, SupervisionError)
    assert error.failure is not None
    assert error.failure.to_dict() == death.to_dict()
    assert str(error).startswith("Endpoint call trainer.step() failed")
