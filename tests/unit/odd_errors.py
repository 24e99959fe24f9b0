"""Exceptions whose classes make it hard to rebuild them elsewhere (CASES E7)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Self

__all__ = ["CATCHABLE", "MADE", "boom"]


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("made without arguments")


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class FivePositional(Exception):
    def __init__(self, a: int, b: int, c: int, d: int, e: int) -> None:
        super().__init__(f"{a}{b}{c}{d}{e}")
        self.sum = a + b + c + d + e


class HoldsLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class ReadOnlyArgs(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        return ("fixed",)


class ReadOnlyField(ValueError):
    @property
    def code(self) -> int:
        return 7


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class RaisingText(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("in __str__")


class RaisingConstructor(Exception):
    made = False

    def __init__(self) -> None:
        if RaisingConstructor.made:
            raise ZeroDivisionError("in __init__")
        RaisingConstructor.made = True
        super().__init__("made once")


class RaisingReduce(Exception):
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("in __reduce__")


class RaisingState(Exception):
    def __setstate__(self, state: Any) -> None:
        raise ZeroDivisionError("in __setstate__")

    def __reduce__(self) -> Any:
        return (RaisingState, self.args, {"some": "state"})


class AnotherAfterwards(Exception):
    """Is rebuilt as something else."""

    def __reduce__(self) -> Any:
        return (int, ("7",))


class NoChildren(Exception):
    """Refuses to be derived from."""

    def __init_subclass__(cls, **_options: Any) -> None:
        raise TypeError("no children")


class OddNew(Exception):
    def __new__(cls, *args: Any, **options: Any) -> Self:
        if not args and not options:
            raise TypeError("needs arguments")
        return super().__new__(cls, *args, **options)


class NamedLikeOurs(Exception):
    """Has the attributes that ActorError has, with other meanings."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.message = "theirs"
        self.exception = "theirs"
        self.traceback_text = "theirs"


def _group() -> Exception:
    return ExceptionGroup("several", [ValueError("one"), KeyError("two")])


def _undecodable() -> Exception:
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def _local() -> Exception:
    class Local(ArithmeticError):
        pass

    return Local("of a function")


MADE: dict[str, Callable[[], BaseException]] = {
    "no arguments": NoArguments,
    "keyword only": lambda: KeywordOnly(code=5),
    "five positional": lambda: FivePositional(1, 2, 3, 4, 5),
    "holds a lock": lambda: HoldsLock("locked"),
    "read-only args": ReadOnlyArgs,
    "read-only field": lambda: ReadOnlyField("value"),
    "slots": lambda: Slotted(5),
    "raises in __str__": RaisingText,
    "raises in __init__": RaisingConstructor,
    "raises in __reduce__": lambda: RaisingReduce("reduce"),
    "raises in __setstate__": lambda: RaisingState("state"),
    "becomes something else": lambda: AnotherAfterwards("else"),
    "cannot be derived from": lambda: NoChildren("alone"),
    "odd __new__": lambda: OddNew("new"),
    "our names": lambda: NamedLikeOurs("names"),
    "a group": _group,
    "an OSError": lambda: FileNotFoundError(2, "No such file", "path"),
    "a decoding error": _undecodable,
    "of a function": _local,
    "StopIteration": lambda: StopIteration(5),
    "StopAsyncIteration": lambda: StopAsyncIteration(5),
    "KeyError": lambda: KeyError("missing"),
    "of two arguments": lambda: ValueError("one", "two"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": lambda: asyncio.CancelledError("cancelled"),
    "GeneratorExit": GeneratorExit,
}
"""What makes an exception of each odd kind."""

CATCHABLE = {
    kind
    for kind in MADE
    if kind
    not in {
        "cannot be derived from",
        "StopIteration",
        "StopAsyncIteration",
        "SystemExit",
        "KeyboardInterrupt",
        "CancelledError",
        "GeneratorExit",
    }
}
"""Kinds that an `ActorError` is an instance of, too. One that ends loops is to end none here."""


def boom(kind: str) -> BaseException:
    """An exception of that kind, as it is once it was raised and caught."""
    RaisingConstructor.made = False
    error = MADE[kind]()
    try:
        _raise(error)
    except BaseException as caught:  # noqa: BLE001  # any kind of exception
        return caught
    raise AssertionError


def _raise(error: BaseException) -> None:
    raise error
