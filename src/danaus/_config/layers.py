"""What is the value of a key now?

Four layers, each over the one before: defaults, the file, the environment, and what the program
set at run time. The first three are read once, when a value is first asked for. Readers take no
lock: they look into dictionaries that are never changed, only replaced by writers.
"""

from __future__ import annotations

# threading.Lock by its other name: that module costs an import of 2 ms, and nothing else of it
# is needed here.
from _thread import allocate_lock

from danaus._config.keys import KEYS, find_key
from danaus._config.sources import read_below_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from danaus._config.kinds import Plain

__all__ = ["LAYERS", "Layers"]


class Layers:
    """The layers and what they come to. Thread-safe.

    Args:
        read_below: Reads the plain value of every key from the layers below the runtime's.
    """

    __slots__ = ("_below", "_effective", "_lock", "_merged", "_read_below", "_runtime")

    def __init__(self, read_below: Callable[[], dict[str, Plain]] = read_below_runtime) -> None:
        self._read_below = read_below
        self._lock = allocate_lock()
        self._runtime: Mapping[str, Plain] = {}
        # None: not read yet. `_merged` and `_effective` are all layers in two forms.
        self._below: Mapping[str, Plain] | None = None
        self._merged: Mapping[str, Plain] | None = None
        self._effective: Mapping[str, Any] | None = None

    def get(self, name: str) -> Any:
        """Return the value that the runtime works with: durations in seconds, choices as text.

        Raises:
            ValueError, TypeError: There is no such key; or the file or the environment, which the
                first call reads, is wrong.

        Cost: two dictionary look-ups.
        """
        effective = self._effective
        if effective is None:
            effective = self._load()[1]
        try:
            return effective[name]
        except KeyError:
            find_key(name)
            raise

    def get_all(self) -> dict[str, Any]:
        """Return the public value of every key, in a dictionary of the caller's own.

        Raises:
            ValueError, TypeError: The file or the environment is wrong.
        """
        merged = self._merged
        if merged is None:
            merged = self._load()[0]
        return _public(merged)

    def get_runtime(self) -> dict[str, Any]:
        """Return the public values of the runtime layer alone."""
        return _public(self._runtime)

    def set(self, values: Mapping[str, object]) -> Mapping[str, Plain]:
        """Set keys in the runtime layer: all of them, or in case of an error none.

        Returns:
            The runtime layer as it was before, for `restore`.

        Raises:
            TypeError: A value has another type than its key.
            ValueError: There is no such key, or the value is not allowed.
        """
        accepted: dict[str, Plain] = {}
        for name, value in values.items():
            key = find_key(name)
            try:
                accepted[name] = key.kind.accept(value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"config key {name!r}: {error}") from error
        with self._lock:
            before = self._runtime
            self._use({**before, **accepted})
        return before

    def restore(self, names: Iterable[str], before: Mapping[str, Plain]) -> None:
        """Put back what ``before`` has for these keys; other keys stay as they are now."""
        with self._lock:
            runtime = dict(self._runtime)
            for name in names:
                runtime.pop(name, None)
                if name in before:
                    runtime[name] = before[name]
            self._use(runtime)

    def clear(self) -> None:
        """Empty the runtime layer."""
        with self._lock:
            self._use({})

    def snapshot(self) -> dict[str, Plain]:
        """Return the runtime layer in plain form (None, bool, int, float, str), to be sent away."""
        return dict(self._runtime)

    def install(self, snapshot: Mapping[str, object]) -> None:
        """Make a snapshot from another process the runtime layer of this one.

        The layers below are read afresh: a forked process has the parent's, and an environment of
        its own.

        Raises:
            TypeError, ValueError: A key or a value is not known here; nothing has changed then.
        """
        runtime: dict[str, Plain] = {}
        for name, value in snapshot.items():
            key = find_key(name)
            try:
                runtime[name] = key.kind.accept_plain(value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"config key {name!r} from the client: {error}") from error
        with self._lock:
            self._use(runtime, below=self._read_below())

    def reload(self) -> None:
        """Read the file and the environment again.

        Raises:
            TypeError, ValueError: One of them is wrong; the values stay as they were.
        """
        with self._lock:
            self._use(self._runtime, below=self._read_below())

    def _load(self) -> tuple[Mapping[str, Plain], Mapping[str, Any]]:
        """Read the layers below, if no other thread just did, and return all layers merged."""
        with self._lock:
            if self._merged is None or self._effective is None:
                return self._use(self._runtime)
            return self._merged, self._effective

    def _use(
        self, runtime: Mapping[str, Plain], below: Mapping[str, Plain] | None = None
    ) -> tuple[Mapping[str, Plain], Mapping[str, Any]]:
        """Replace the runtime layer, and the ones below if given; the lock is held."""
        below = below or self._below or self._read_below()
        merged = {**below, **runtime}
        effective = {name: KEYS[name].kind.effective(plain) for name, plain in merged.items()}
        self._below, self._runtime = below, runtime
        self._merged, self._effective = merged, effective
        return merged, effective


def _public(values: Mapping[str, Plain]) -> dict[str, Any]:
    """The public form of plain values."""
    return {name: KEYS[name].kind.public(plain) for name, plain in values.items()}


LAYERS = Layers()
"""The configuration of this process."""
