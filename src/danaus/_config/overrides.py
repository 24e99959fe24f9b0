"""How does a program or a test change the configuration for a while?"""

from __future__ import annotations

import functools
import inspect
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from danaus._config.keys import find_key
from danaus._config.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

__all__ = [
    "clear_runtime_config",
    "configure",
    "configured",
    "get_global_config",
    "get_runtime_config",
    "parametrize_config",
    "parametrize_config_pointwise",
]

T_Test = TypeVar("T_Test", bound="Callable[..., Any]")


def configure(**overrides: object) -> None:
    """Set configuration keys for this process and for what it spawns from now on.

    Args:
        overrides: Keys and their values. Durations are text with units (``"30s"``, ``"1h 30m"``).

    Raises:
        TypeError: A value has another type than its key, or is no duration.
        ValueError: There is no such key, or the value is not allowed. After any error all keys
            are as they were.

    Example:
        >>> configure(stop_actor_timeout="1m", tail_log_lines=20)

    Thread-safe.
    """
    LAYERS.set(overrides)


@contextmanager
def configured(**overrides: object) -> Generator[dict[str, Any]]:
    """Set configuration keys while a block runs, or while a decorated plain function does.

    At the end each of these keys gets back what it had in the runtime layer; other keys that the
    block set keep their values. The setting is for the whole process, not for one thread.

    Args:
        overrides: As for `configure`.

    Yields:
        The values of all keys, as `get_global_config` returns them.

    Raises:
        TypeError, ValueError: As `configure`; the block has not run then.

    Example:
        >>> with configured(message_delivery_timeout="90s") as config:
        ...     config["message_delivery_timeout"]
        '1m 30s'
    """
    before = LAYERS.set(overrides)
    try:
        yield LAYERS.get_all()
    finally:
        LAYERS.restore(overrides, before)


def get_global_config() -> dict[str, Any]:
    """Return the value of every key, in a new dictionary.

    The later of these sets it: the default, the file that ``DANAUS_CONFIG`` names (else
    ``~/.config/danaus/config.toml``), the environment (``DANAUS_<KEY>``), and `configure`.

    Returns:
        Keys to values; durations in canonical text: ``"5m"`` for ``"300s"``.

    Raises:
        TypeError, ValueError: The file or a variable is wrong; the text names it.
    """
    return LAYERS.get_all()


def get_runtime_config() -> dict[str, Any]:
    """Return the values that were set with `configure` or `configured`, in a new dictionary."""
    return LAYERS.get_runtime()


def clear_runtime_config() -> None:
    """Forget all that was set with `configure` and `configured`."""
    LAYERS.clear()


def parametrize_config(**values: Iterable[object]) -> Callable[[T_Test], T_Test]:
    """Run a pytest test once for every combination of configuration values.

    Args:
        values: Keys, and for each the values to try: a set, or any iterable to fix the order.

    Returns:
        A decorator for test functions, plain or async. The test needs no argument for it.

    Raises:
        TypeError, ValueError: As `configure`, at the time of decoration; or a key has no values.

    Example:
        >>> @parametrize_config(prefix_with_rank={True, False}, tail_log_lines=[0, 100])
        ... def test_report(): ...  # runs four times
    """
    columns = {name: _listed(name, several) for name, several in values.items()}
    rows = itertools.product(*columns.values())
    return _parametrize([dict(zip(columns, row, strict=True)) for row in rows])


def parametrize_config_pointwise(**values: Sequence[object]) -> Callable[[T_Test], T_Test]:
    """Run a pytest test once for the first values of all keys, once for the second, and so on.

    Args:
        values: Keys, and for each its values, equally many.

    Returns:
        A decorator, as of `parametrize_config`.

    Raises:
        TypeError, ValueError: As `parametrize_config`; or the lengths differ.

    Example:
        >>> @parametrize_config_pointwise(cleanup_timeout=["1s", "3s"], tail_log_lines=[0, 100])
        ... def test_report(): ...  # runs twice
    """
    columns = {name: _listed(name, several) for name, several in values.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(
            f"parametrize_config_pointwise: keys have different numbers of values ({counts}). "
            "Give each key one value per run, or use parametrize_config for all combinations."
        )
    rows = zip(*columns.values(), strict=True)
    return _parametrize([dict(zip(columns, row, strict=True)) for row in rows])


def _listed(name: str, values: Iterable[object]) -> list[object]:
    """The values of a key, each checked, in an order that every process agrees on."""
    kind = find_key(name).kind
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"config key {name!r}: expected several values to try, got {type(values).__name__}. "
            f"Pass a list: {name}=[...]."
        )
    # Sets of text are ordered by a hash that differs between the workers of a parallel run.
    ordered = sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)
    if not ordered:
        raise ValueError(f"config key {name!r}: there are no values to try. Pass at least one.")
    for value in ordered:
        try:
            kind.accept(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"config key {name!r}: {error}") from error
    return ordered


def _parametrize(rows: Sequence[Mapping[str, object]]) -> Callable[[T_Test], T_Test]:
    """A decorator that runs a test under each of the settings."""
    if not rows or not rows[0]:
        raise ValueError("no configuration keys were given. Pass at least one: key=[values].")
    # In the name of the argument the keys keep stacked decorators apart.
    argument = "config_" + "_".join(rows[0])
    names = ["-".join(f"{name}={value}" for name, value in row.items()) for row in rows]

    def decorate(test: T_Test) -> T_Test:
        import pytest

        if not inspect.isfunction(test):
            raise TypeError(
                f"only test functions can be run under several configurations, got {test!r}. "
                "Decorate each function."
            )
        wrapper = _under_configuration(test, argument)
        return cast("T_Test", pytest.mark.parametrize(argument, rows, ids=names)(wrapper))

    return decorate


def _under_configuration(test: Callable[..., Any], argument: str) -> Callable[..., Any]:
    """Wrap a test so that it takes its settings as one more argument and applies them."""

    @functools.wraps(test)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with configured(**kwargs.pop(argument)):
            return test(*args, **kwargs)

    @functools.wraps(test)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with configured(**kwargs.pop(argument)):
            return await test(*args, **kwargs)

    wrapper = awaited if inspect.iscoroutinefunction(test) else plain
    signature = inspect.signature(test)
    extra = inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY)
    # Sorted, because **kwargs must stay last.
    parameters = sorted([*signature.parameters.values(), extra], key=lambda each: each.kind)
    # pytest passes what the signature names; the test itself does not know the extra argument.
    wrapper.__signature__ = signature.replace(  # pyright: ignore[reportAttributeAccessIssue]
        parameters=parameters
    )
    return wrapper
