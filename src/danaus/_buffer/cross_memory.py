"""Memory of another process of this host, read and written by the kernel (Linux).

``process_vm_readv`` and ``process_vm_writev`` copy straight between two processes; the other one
may compute, hold the GIL, or be stopped.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from danaus._buffer.table import READ_ONLY, SLOT

__all__ = ["Refused", "Vanished", "is_possible", "read", "write"]

_MOST = 1 << 30
"""Bytes of one call; the kernel takes a little less than 2 GiB."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_Two = _Vector * 2
_One = _Vector * 1


class Vanished(Exception):  # not an error yet: the caller says of what
    """The region is not there: it was dropped, or its process has ended."""


class Refused(Exception):  # there are other ways
    """The kernel does not let this process touch that one's memory."""


def _load(name: str) -> Callable[..., int] | None:
    try:
        found = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        return None
    found.restype = ctypes.c_ssize_t
    found.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_ulong,
    )
    return found


_readv = _load("process_vm_readv")
_writev = _load("process_vm_writev")


def is_possible() -> bool:
    """Whether this system has it at all."""
    return _readv is not None and _writev is not None


def _check(pid: int, done: int) -> int:
    if done >= 0:
        return done
    code = ctypes.get_errno()
    if code in (errno.ESRCH, errno.EFAULT):
        raise Vanished(f"process {pid} has ended" if code == errno.ESRCH else "it was freed")
    if code in (errno.EPERM, errno.ENOSYS):
        raise Refused(os.strerror(code))
    raise OSError(code, f"process_vm_readv of {pid}: {os.strerror(code)}")


def _look(pid: int, slot: int, key: int) -> tuple[int, int, int]:
    """Address, length and flags of a region, as its process has them now."""
    buffer = ctypes.create_string_buffer(SLOT.size)
    local = _One(_Vector(ctypes.addressof(buffer), SLOT.size))
    remote = _One(_Vector(slot, SLOT.size))
    assert _readv is not None
    _check(pid, _readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    return _match(buffer.raw, key)


def _match(slot: bytes, key: int) -> tuple[int, int, int]:
    found, address, length, flags = SLOT.unpack(slot)
    if found != key:
        raise Vanished("it was dropped")
    return address, length, flags


def read(pid: int, slot: int, key: int, source: int, target: int, nbytes: int) -> None:
    """Copy ``nbytes`` of a region at ``source`` to ``target`` in this process.

    Args:
        pid: Process of the region.
        slot: Address of its slot there.
        key: Its key.
        source: Address there; the caller has checked it against the handle.
        target: Address here.
        nbytes: How many.

    Raises:
        Vanished: The region was dropped, or its process has ended; ``target`` may be written to.
        Refused: The kernel does not allow it.
    """
    assert _readv is not None
    buffer = ctypes.create_string_buffer(SLOT.size)
    done = 0
    while True:
        piece = min(_MOST, nbytes - done)
        local = _Two(_Vector(ctypes.addressof(buffer), SLOT.size), _Vector(target + done, piece))
        remote = _Two(_Vector(slot, SLOT.size), _Vector(source + done, piece))
        count = _check(pid, _readv(pid, ctypes.byref(local), 2, ctypes.byref(remote), 2, 0))
        address, length, _ = _match(buffer.raw, key)
        if not address <= source <= source + nbytes <= address + length:
            raise Vanished("it is not what the handle says")
        done += count - SLOT.size
        if done >= nbytes:
            break
        if count <= SLOT.size:
            raise Vanished("it was freed")
    if nbytes > _MOST:
        _look(pid, slot, key)  # it may have been dropped meanwhile


def write(pid: int, slot: int, key: int, target: int, source: int, nbytes: int) -> None:
    """Copy ``nbytes`` at ``source`` in this process to a region at ``target``.

    Raises:
        Vanished: The region was dropped, or its process has ended.
        Refused: The kernel does not allow it.
        PermissionError: The region may only be read.
    """
    assert _writev is not None
    done = 0
    while done < nbytes:
        address, length, flags = _look(pid, slot, key)
        if flags & READ_ONLY:
            raise PermissionError("the memory of this buffer is read-only")
        if not address <= target <= target + nbytes <= address + length:
            raise Vanished("it is not what the handle says")
        piece = min(_MOST, nbytes - done)
        local = _One(_Vector(source + done, piece))
        remote = _One(_Vector(target + done, piece))
        count = _check(pid, _writev(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
        if count <= 0:
            raise Vanished("it was freed")
        done += count
