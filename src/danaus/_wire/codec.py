"""Values to bytes and back.

`dumps` gives a list of parts: the pickle, then the buffers that were left out of it because they
are large. It tries the plain C pickler first (0.3 µs for a small call) and goes to cloudpickle
(25 µs for a class by value) only where it must: when the plain one fails, when the result mentions
``__main__`` (which means another module in the receiver), or when a module was registered to
travel by value.

`loads` is its inverse. Arrays come to lie in the received memory; nothing is copied for them.
This is the one module that may unpickle, and it does so only for peers that are authenticated.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from danaus._wire._big import lift, set_threshold, threshold
from danaus.errors import SerializationError

__all__ = [
    "Parts",
    "copy_parts",
    "dumps",
    "dumps_call",
    "loads",
    "parts_size",
    "set_threshold",
    "threshold",
]

Part = bytes | bytearray | memoryview
Parts = Sequence[Part]

_EMPTY_CALL_PARTS: list[Part] = [pickle.dumps(((), {}), 5)]
_SCALARS = frozenset((int, float, bool, type(None)))
"""Types that need none of the care below."""

_NONE_PARTS: list[Part] = [pickle.dumps(None, 5)]

Reducer = Callable[[Any], Any]
_torch_table: dict[type, Reducer] | None = None


def dumps(value: Any) -> list[Part]:
    """Pickle ``value``: part 0 is the pickle, the others its buffers, still the caller's memory.

    Raises:
        SerializationError: Some part of the value cannot be pickled; the text says which.
    """
    if value is None:
        return _NONE_PARTS
    if type(value) in _SCALARS:
        return [pickle.dumps(value, 5)]
    try:
        return _dumps(lift(value))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise _failure([("", value)], error) from error


def dumps_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Part]:
    """`dumps` of the pair of positional and named arguments of a call.

    Raises:
        SerializationError: Some part of an argument cannot be pickled; the text says which.
    """
    if not kwargs:
        if not args:
            return _EMPTY_CALL_PARTS
        for value in args:
            if type(value) not in _SCALARS:
                break
        else:
            return [pickle.dumps((args, kwargs), 5)]
    try:
        return _dumps(lift((args, kwargs)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        roots = [(f"argument {i}", value) for i, value in enumerate(args, 1)]
        roots += [(f"argument {name!r}", value) for name, value in kwargs.items()]
        raise _failure(roots, error) from error


def _failure(roots: list[tuple[str, Any]], error: BaseException) -> SerializationError:
    from danaus._wire._culprit import describe_failure  # only on this path

    return SerializationError(describe_failure(roots, error, _attempt))


def _attempt(value: Any) -> BaseException | None:
    """What pickling ``value`` raises."""
    try:
        _dumps(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # a foreign class may raise anything
        return error
    return None


def _dumps(value: Any) -> list[Part]:
    buffers: list[Part] = []
    cloud = sys.modules.get("cloudpickle.cloudpickle")
    by_value = cloud is not None and bool(cloud.list_registry_pickle_by_value())
    if not by_value:
        try:
            if "torch" in sys.modules:
                pickled = _plain_with_torch(value, buffers)
            else:
                pickled = pickle.dumps(value, 5, buffer_callback=_keeper(buffers))
            if b"__main__" not in pickled:
                return [pickled, *buffers]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001, S110  # cloudpickle may know how; it raises if not
            pass
    buffers.clear()
    return [_cloud(value, buffers), *buffers]


def _keeper(buffers: list[Part]) -> Callable[[pickle.PickleBuffer], bool]:
    """A buffer callback that keeps large buffers out of the pickle."""
    least = threshold()

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < least:
            return True
        buffers.append(raw)
        return False

    return keep


def _cloud(value: Any, buffers: list[Part]) -> bytes:
    # cloudpickle is loaded where it is needed
    from danaus._wire._byvalue import dump_by_value, dump_with_imports

    reducers = _torch_reducers() if "torch" in sys.modules else {}
    try:
        return dump_by_value(value, _keeper(buffers), reducers)
    except Exception:  # noqa: BLE001  # the second attempt raises the same if it does not help
        buffers.clear()
        return dump_with_imports(value, _keeper(buffers), reducers)


def _plain_with_torch(value: Any, buffers: list[Part]) -> bytes:
    import copyreg
    import io
    from collections import ChainMap

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5, buffer_callback=_keeper(buffers))
    pickler.dispatch_table = ChainMap(_torch_reducers(), copyreg.dispatch_table)
    pickler.dump(value)
    return stream.getvalue()


def _torch_reducers() -> dict[type, Reducer]:
    global _torch_table  # noqa: PLW0603  # filled once, when torch is there
    if _torch_table is None:
        from danaus._wire._torch import reducers

        _torch_table = reducers()
    return _torch_table


def loads(parts: Parts) -> Any:
    """Rebuild the value whose `dumps` gave ``parts``. Raises whatever its classes raise."""
    if len(parts) == 1:
        if parts[0] is _NONE_PARTS[0]:
            return None
        return pickle.loads(parts[0])  # noqa: S301  # peers are authenticated before this
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301


def parts_size(parts: Parts) -> int:
    """Bytes in all parts together."""
    return sum(map(len, map(_flat, parts)))


def _flat(part: Part) -> Part:
    return part.cast("B") if isinstance(part, memoryview) and part.nbytes != len(part) else part


def copy_parts(parts: Parts) -> list[Part]:
    """The same parts in memory of their own, for a receiver in the same process."""
    return [parts[0], *(bytearray(part) for part in parts[1:])]
