"""Other classes in the place of actor classes, for tests of programs.

Where a program spawns ``Trainer``, a test may want a ``FakeTrainer``, also where some actor spawns
it in a process far away. The replacements that are in force when processes are spawned are in force
there, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from danaus._mesh.actor import Actor
from danaus._runtime.process import existing_runtime
from danaus._wire.codec import dumps, loads

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "get_actor_class",
    "get_actor_mock_registry_state",
    "patch_actor",
    "pickled_mocks",
    "set_actor_mock_registry_state",
]

F = TypeVar("F", bound=Callable[..., Any])

_mocks: dict[type[Any], type[Any]] = {}
"""What is spawned instead of each class."""

_inherited_from = ""
"""The process whose inherited replacements are in `_mocks`; empty before they are."""


class patch_actor:  # noqa: N801  # it is used like a function
    """Let ``mock`` be spawned wherever ``original`` is, as long as it is in force.

    A context manager and a decorator, for sync and async code alike. It can be nested and used
    again; leaving it brings back what was before. It concerns this process, and those that are
    spawned meanwhile, with all that they spawn.

    Args:
        original: The actor class that the program spawns.
        mock: What is spawned in its place. It must have the endpoints that are called.

    Raises:
        ValueError: One of them is no actor class.

    Example:
        >>> with patch_actor(Trainer, FakeTrainer):
        ...     run_my_program()
    """

    def __init__(self, original: type[Actor], mock: type[Actor]) -> None:
        classes: tuple[Any, ...] = (original, mock)
        for cls in classes:
            if not (inspect.isclass(cls) and issubclass(cls, Actor)):
                raise ValueError(f"patch_actor replaces an Actor class by another; got {cls!r}")
        self._original = original
        self._mock = mock
        self._before: list[type[Any] | None] = []

    def __enter__(self) -> Self:
        _inherit()
        self._before.append(_mocks.get(self._original))
        _mocks[self._original] = self._mock
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        before = self._before.pop()
        if before is None:
            _mocks.pop(self._original, None)
        else:
            _mocks[self._original] = before

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """The same function, which runs with the replacement in force."""

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with patch_actor(self._original, self._mock):
                return await function(*args, **kwargs)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with patch_actor(self._original, self._mock):
                return function(*args, **kwargs)

        return cast("F", run_async if inspect.iscoroutinefunction(function) else run)


def get_actor_class(cls: type[Any]) -> type[Any]:
    """What is spawned in the place of ``cls`` now: a replacement, or ``cls`` itself."""
    _inherit()
    return _mocks.get(cls, cls)


def get_actor_mock_registry_state() -> dict[type[Any], type[Any]]:
    """The replacements that are in force in this process."""
    _inherit()
    return dict(_mocks)


def set_actor_mock_registry_state(state: Mapping[type[Any], type[Any]]) -> None:
    """Put other replacements in force, instead of those that are."""
    _inherit()
    _mocks.clear()
    _mocks.update(state)


def pickled_mocks() -> bytes | None:
    """The replacements as a new process gets them; None where there are none."""
    _inherit()
    return bytes(dumps(_mocks)[0]) if _mocks else None


def _inherit() -> None:
    """Take over, once, what was in force where this process was spawned."""
    global _inherited_from  # noqa: PLW0603  # once a process
    me = existing_runtime()
    if me is None or _inherited_from == me.id:
        return
    _inherited_from = me.id
    pickled = me.spec.get("mocks")
    if pickled:
        _mocks.update(loads([pickled]))
