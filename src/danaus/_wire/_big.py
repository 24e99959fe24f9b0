"""Large ``bytes`` and ``bytearray`` objects, kept out of the pickle.

The pickler copies these two types into its output, always. `lift` looks at the top levels of a
value and puts a wrapper around the large ones, which pickles as an out-of-band buffer. On arrival
they are copied out of the received memory piece by piece, and each piece of that memory is given
back before the next is copied, so that a 1 GiB argument never needs 2 GiB.
"""

from __future__ import annotations

import pickle
from typing import Any

__all__ = ["lift", "set_threshold", "threshold"]

_PIECE = 32 << 20
"""Bytes copied before the pages behind them are given back: 3 % of 1 GiB."""

_DEPTH = 3
"""Containers nested deeper than this are not searched for large objects."""

_WIDTH = 64
"""Containers with more elements than this are not searched."""

_MADV_DONTNEED = 4
_MADV_HUGEPAGE = 14


_threshold = 256 * 1024


def threshold() -> int:
    """Least size in bytes of a buffer that stays out of the pickle."""
    return _threshold


def set_threshold(nbytes: int) -> None:
    """Set `threshold`, for this process."""
    global _threshold  # noqa: PLW0603  # read for each message: a module variable is cheapest
    _threshold = nbytes


class _Big:
    """A large ``bytes`` or ``bytearray`` on its way."""

    __slots__ = ("value",)

    def __init__(self, value: bytes | bytearray) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        rebuild = _to_bytes if type(self.value) is bytes else _to_bytearray
        return (rebuild, (pickle.PickleBuffer(self.value),))


def lift(value: Any) -> Any:
    """``value`` with its large ``bytes`` and ``bytearray`` objects wrapped.

    Returns ``value`` itself when there are none. Containers are rebuilt only where needed; what
    occurs in several places of them is one object in the result, too.
    """
    return _lift(value, _DEPTH, {}) if _has_large(value, _DEPTH) else value


def _has_large(value: Any, depth: int) -> bool:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind is bytes or kind is bytearray:
        return len(value) >= _threshold
    if kind is not tuple and kind is not list and kind is not dict:
        return False
    if depth == 0 or not value or len(value) > _WIDTH:
        return False
    for item in value.values() if kind is dict else value:  # noqa: SIM110  # half of any()'s cost
        if _has_large(item, depth - 1):
            return True
    return False


def _lift(value: Any, depth: int, done: dict[int, Any]) -> Any:
    """Rebuild ``value``; ``done`` has the results by id, so that references stay shared."""
    known = done.get(id(value))
    if known is not None:
        return known
    if not _has_large(value, depth):
        return value
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is tuple:
        lifted = done[id(value)] = tuple([_lift(item, depth - 1, done) for item in value])
    elif kind is list or kind is dict:
        lifted = done[id(value)] = value.copy()  # known before its items, which may refer to it
        for key, item in value.items() if kind is dict else enumerate(value):
            lifted[key] = _lift(item, depth - 1, done)
    else:
        lifted = done[id(value)] = _Big(value)
    return lifted


def _to_bytes(source: Any) -> bytes:
    if isinstance(source, bytes):
        return source
    view = memoryview(source)
    if view.nbytes < _PIECE:
        return bytes(view)
    import ctypes

    make = ctypes.pythonapi.PyBytes_FromStringAndSize
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t]
    # An uninitialised bytes object, filled before anybody else can see it.
    result = make(None, view.nbytes)
    _drain(view, _address_of(result))
    return result


def _to_bytearray(source: Any) -> bytearray:
    if isinstance(source, bytearray):
        return source
    view = memoryview(source)
    if view.nbytes < _PIECE:
        return bytearray(view)
    result = bytearray(view.nbytes)
    _drain(view, _address_of(result))
    return result


def _address_of(buffer: Any) -> int:
    """Where the memory of a buffer object begins, read-only or not."""
    import ctypes

    # Py_buffer of the C API; only its first field is read, the rest is room.
    record = (ctypes.c_void_p * 16)()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get(buffer, ctypes.byref(record), 0)
    address = record[0]
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(record))
    return address or 0


def _drain(view: memoryview, target: int) -> None:
    """Copy ``view`` to the address ``target``, giving its pages back on the way."""
    import ctypes
    import mmap

    source = _address_of(view)
    libc = ctypes.CDLL(None)
    shared = isinstance(view.obj, mmap.mmap)
    size = view.nbytes
    # Huge pages: a fault for 2 MiB instead of 512, each of which would zero a page first.
    _advise(libc, target, size, _MADV_HUGEPAGE)
    done = 0
    while done < size:
        count = min(_PIECE, size - done)
        ctypes.memmove(target + done, source + done, count)
        if shared:
            _advise(libc, source + done, count, _MADV_DONTNEED)
        done += count


def _advise(libc: Any, start: int, size: int, advice: int) -> None:
    """Tell the kernel about the whole pages of a range. It may refuse; that costs only speed."""
    import ctypes
    import mmap

    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), advice)
