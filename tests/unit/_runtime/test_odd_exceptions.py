"""Exceptions on their way to the caller, whatever their constructors are like."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from danaus._runtime.outcome import RAISED, close_error, open_error
from danaus.errors import ActorError


class NoArgument(Exception):
    def __init__(self) -> None:
        super().__init__("nothing to say")


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class FiveArguments(ValueError):
    def __init__(self, a: int, b: int, c: int, d: int, e: int) -> None:
        super().__init__(a)
        self.rest = (b, c, d, e)


class HoldsALock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())
        self.lock = threading.Lock()
        self.text = text


class ReadOnlyArguments(Exception):
    @property
    def args(self) -> tuple[str]:  # type: ignore[override]
        return ("read-only",)


class ReduceRaises(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


def at_the_caller(error: BaseException) -> BaseException:
    return open_error(RAISED, close_error(error, "Actor call a.f failed."), "a.f")


@pytest.mark.parametrize(
    "error",
    [
        NoArgument(),
        KeywordOnly(code=3),
        FiveArguments(1, 2, 3, 4, 5),
        HoldsALock("x"),
        ReadOnlyArguments("x"),
        ReduceRaises("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_type_is_that_of_the_original(error: Exception) -> None:
    """E7."""
    arrived = at_the_caller(error)

    assert isinstance(arrived, type(error))
    assert isinstance(arrived, ActorError)
    assert isinstance(arrived.exception, type(error))
    assert type(error).__name__ in str(arrived)


def test_what_can_travel_of_an_exception_arrives() -> None:
    """E7."""
    arrived = at_the_caller(HoldsALock("some text"))

    assert isinstance(arrived, HoldsALock)
    assert arrived.text == "some text"
    assert not hasattr(arrived, "lock")


def test_an_error_that_passes_through_an_endpoint_keeps_the_first_type() -> None:
    """E7."""
    arrived = at_the_caller(at_the_caller(NoArgument()))

    assert isinstance(arrived, NoArgument)
    assert "nothing to say" in str(arrived)


def test_an_exception_of_a_class_that_cannot_travel_is_its_name_and_text() -> None:
    class Local(Exception):
        lock = threading.Lock()

    arrived = at_the_caller(Local("some text"))

    assert isinstance(arrived, RuntimeError)
    assert "Local" in str(arrived)
    assert "some text" in str(arrived)
