"""Actors and exceptions for the tests of what endpoints raise."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

from danaus.actor import Actor, concurrent_endpoint, endpoint


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("made without arguments")


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"with code {code}")
        self.code = code


class FivePositional(Exception):
    def __init__(self, a: int, b: int, c: int, d: int, e: int) -> None:
        super().__init__(f"five of them: {a}{b}{c}{d}{e}")


class HoldsLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class ReadOnlyArguments(Exception):
    @property
    def args(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # as odd as it gets
        return ("read only",)


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


ODD = {
    "NoArguments": NoArguments,
    "KeywordOnly": lambda: KeywordOnly(code=7),
    "FivePositional": lambda: FivePositional(1, 2, 3, 4, 5),
    "HoldsLock": lambda: HoldsLock("holds a lock"),
    "ReadOnlyArguments": lambda: ReadOnlyArguments("x"),
    "NoText": NoText,
}


class Raising(Actor):
    """Raises what it is told to."""

    @endpoint
    def overflow(self) -> None:
        try:
            {}["missing"]
        except KeyError as error:
            raise OverflowError("too big") from error

    @endpoint
    def in_handler(self) -> None:
        try:
            _ = 1 // 0
        except ZeroDivisionError:
            raise OverflowError("while handling")  # noqa: B904  # the context is what is tested

    @endpoint
    def odd(self, name: str) -> None:
        make = ODD[name]
        raise make()

    @endpoint
    def any_of(self, kind: str) -> None:
        raise_any(kind)

    @endpoint
    async def any_of_async(self, kind: str) -> None:
        await asyncio.sleep(0)
        raise_any(kind)

    @concurrent_endpoint
    async def any_of_concurrent(self, kind: str) -> None:
        await asyncio.sleep(0)
        raise_any(kind)

    @endpoint
    async def cancel_itself(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            task.cancel()
        await asyncio.sleep(10)

    @endpoint
    def ping(self) -> str:
        return "pong"


class RaisingSync(Raising):
    """Has no async endpoint, so it runs without an event loop."""

    any_of_async = any_of_concurrent = cancel_itself = None


def raise_any(kind: str) -> None:
    """Raise an exception that is more than an error."""
    if kind == "SystemExit":
        sys.exit(3)
    if kind == "KeyboardInterrupt":
        raise KeyboardInterrupt
    if kind == "CancelledError":
        raise asyncio.CancelledError
    if kind == "StopIteration":
        raise StopIteration(5)
    if kind == "ExceptionGroup":
        raise ExceptionGroup("several", [ValueError("one"), OSError("two")])


class FailsToStart(Actor):
    """Its constructor raises."""

    def __init__(self, why: str) -> None:
        raise LookupError(why)

    @endpoint
    def ping(self) -> str:
        return "pong"


class NeverStarts(Actor):
    """Its constructor does not return."""

    def __init__(self) -> None:
        self.forever = threading.Event()
        self.forever.wait()

    @endpoint
    def ping(self) -> str:
        return "pong"


class Outer(Actor):
    """Calls another actor and lets its errors through."""

    def __init__(self, inner: Raising) -> None:
        self.inner = inner

    @endpoint
    def overflow(self) -> None:
        self.inner.overflow.call_one().get()

    @endpoint
    async def overflow_async(self) -> None:
        await self.inner.overflow.call_one()

    @endpoint
    def pid(self) -> int:
        return os.getpid()
