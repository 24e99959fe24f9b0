import threading
from typing import Any

import cloudpickle
import pytest

from danaus._wire._culprit import describe_failure

ERROR = TypeError("cannot pickle it")


def attempt(value: object) -> BaseException | None:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001  # whatever it is
        return ERROR
    return None


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value

    def bound(self) -> None: ...


class Slotted:
    __slots__ = ("unset", "value")

    def __init__(self, value: object) -> None:
        self.value = value


def lock() -> object:
    return threading.Lock()


LOCK = threading.Lock()


def user_of_global() -> Any:
    def inner() -> object:
        return LOCK

    return inner


def closure() -> object:
    mine = threading.Lock()

    def inner() -> object:
        return mine

    return inner


def using() -> type[Any]:
    class Using:
        def method(self) -> object:
            return LOCK

    return Using


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (lock(), "cannot send a lock: "),
        ([1, lock()], "cannot send a lock at [1]: "),
        ((1, [2, lock()]), "cannot send a lock at [1][1]: "),
        ({"a": 1, "b": lock()}, "cannot send a lock at ['b']: "),
        (Holder(lock()), "cannot send a lock at value: "),
        (Holder([lock()]), "cannot send a lock at value[0]: "),
        ([Slotted(lock())], "cannot send a lock at [0].value: "),
        ({"gen": (i for i in ())}, "cannot send a generator at ['gen']: "),
        ([user_of_global()], "cannot send a lock at [0], where inner uses the global 'LOCK': "),
        (closure(), "cannot send a lock, where inner uses the variable 'mine': "),
        ([using()], "cannot send a lock at [0].method, where method uses the global 'LOCK': "),
        (Holder(lock()).bound, "cannot send a lock at __self__.value: "),
    ],
)
def test_the_innermost_value_that_cannot_be_pickled_is_named(value: object, place: str):
    text = describe_failure([("", value)], ERROR, attempt)

    assert text.startswith(place)
    assert "TypeError: cannot pickle it" in text


def test_the_first_root_that_fails_is_named():
    roots = [("argument 1", [1]), ("argument 2", [lock()]), ("argument 3", lock())]

    assert describe_failure(roots, ERROR, attempt).startswith(
        "cannot send a lock at [0] of argument 2: "
    )


def test_a_value_that_holds_itself_is_searched_once():
    value: list[Any] = [lock()]
    value.insert(0, value)

    assert describe_failure([("", value)], ERROR, attempt).startswith("cannot send a lock at [1]: ")


def test_a_wide_value_ends_the_search():
    value = [*range(10_000), lock()]

    assert describe_failure([("", value)], ERROR, attempt).startswith("cannot send a list: ")


def test_a_value_that_can_be_pickled_now_is_named_itself():
    # Its pickling may fail now and then; there is no better culprit than the whole.
    assert describe_failure([("argument 1", [1])], ERROR, attempt).startswith(
        "cannot send a list as argument 1: "
    )
