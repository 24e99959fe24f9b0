"""Classes and functions that travel by value: those of ``__main__``, and what has no module.

A class is pickled once and kept as bytes with a digest; messages that need it carry these bytes,
and a receiver that knows the digest skips them. Pickling it anew for each message would cost
25 µs here and more there. So a class travels as it was when it was first sent.

Code keeps the name of its file, so that remote tracebacks show the line and its source.
"""

from __future__ import annotations

import hashlib
import io
import types
from collections import ChainMap
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import cloudpickle
import cloudpickle.cloudpickle as _cloudpickle

__all__ = ["dump_by_value"]

_PLACEHOLDER = "<dynamic-code>"
"""What cloudpickle writes instead of the file's name."""

_sent: WeakKeyDictionary[type, tuple[bytes, bytes]] = WeakKeyDictionary()
"""Digest and pickle of each class that was sent."""

_received: dict[bytes, type] = {}
"""Classes that came, by digest."""

_open: ContextVar[frozenset[type]] = ContextVar("open", default=frozenset())
"""Classes that are being pickled in this thread or task."""


def dump_by_value(
    value: Any,
    keep: Callable[[Any], bool] | None,
    reducers: dict[type, Callable[[Any], Any]],
) -> bytes:
    """Pickle ``value`` with what it needs of classes and functions.

    Args:
        value: Anything that cloudpickle can pickle.
        keep: Buffer callback of the pickler.
        reducers: How instances of further types are pickled.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=5, buffer_callback=keep)
    if reducers:
        pickler.dispatch_table = ChainMap(reducers, pickler.dispatch_table)
    pickler.dump(value)
    return stream.getvalue()


#: Whether a class is found in the module that it names, by a receiver too.
_by_reference = _cloudpickle._should_pickle_by_reference  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _reduce_code(code: types.CodeType) -> Any:
    make, arguments = _cloudpickle._code_reduce(code)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # to keep the name
    named = tuple(code.co_filename if a == _PLACEHOLDER else a for a in arguments)
    return make, named


class _Pickler(cloudpickle.Pickler):
    dispatch_table = ChainMap[type, Any](  # noqa: RUF012  # as in the base class
        {types.CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table
    )

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and not _by_reference(obj):
            parcel = _parcel_of(obj)
            if parcel is not None:
                return _unpack, parcel
        return super().reducer_override(obj)


def _parcel_of(cls: type) -> tuple[bytes, bytes] | None:
    """Digest and pickle of a class; None while it is being pickled, inside its own pickle."""
    known = _sent.get(cls)
    if known is not None:
        return known
    open_classes = _open.get()
    if cls in open_classes:
        return None
    token = _open.set(open_classes | {cls})
    try:
        stream = io.BytesIO()
        _Pickler(stream, protocol=5).dump(cls)
        data = stream.getvalue()
    finally:
        _open.reset(token)
    parcel = _sent[cls] = (hashlib.blake2b(data, digest_size=16).digest(), data)
    return parcel


def _unpack(digest: bytes, data: bytes) -> type:
    cls = _received.get(digest)
    if cls is None:
        import pickle  # part of the codec

        cls = _received[digest] = pickle.loads(data)  # noqa: S301
    return cls
