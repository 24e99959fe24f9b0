"""Which memory of this process others may touch: a table that they read for themselves.

Each region has a slot of four numbers (key, address, length, flags) in memory that stays where it
is. Whoever wants to read a region reads its slot with it, in the same call, and looks whether the
key is the one in its handle. So the owner's Python takes no part, and yet a region that was
dropped, and a process that has got the pid of a dead one, are noticed by every reader.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from dataclasses import dataclass

from danaus._buffer.local_memory import LocalMemory

__all__ = ["READ_ONLY", "SLOT", "Region", "Table"]

SLOT = struct.Struct("<QQQQ")
"""Key, address, length, flags."""

READ_ONLY = 1

_PAGE = 64 * 1024
"""Bytes of slots that are made at a time."""


@dataclass(frozen=True, slots=True)
class Region:
    """A registered region."""

    slot: int
    """Address of its slot."""
    key: int
    """Not zero, and known to holders of a handle only."""
    address: int
    nbytes: int


class Table:
    """The regions of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: list[mmap.mmap] = []
        self._free: list[int] = []
        self._held: dict[int, tuple[int, LocalMemory]] = {}
        """Slot and memory by key."""
        self._regions: dict[tuple[int, int, bool], Region] = {}
        """By address, length, and whether it is read-only: the same memory is registered once."""
        self.pid = os.getpid()

    def register(self, memory: LocalMemory) -> Region:
        """Let others touch ``memory``, and keep it until `drop`. Twice gives the same region."""
        place = (memory.address, memory.nbytes, memory.readonly)
        key = int.from_bytes(os.urandom(8), "little") | 1
        flags = READ_ONLY if memory.readonly else 0
        with self._lock:
            known = self._regions.get(place)
            if known is not None:
                return known
            if not self._free:
                self._grow()
            slot = self._free.pop()
            self._held[key] = (slot, memory)
            _write(slot, SLOT.pack(key, memory.address, memory.nbytes, flags))
            region = self._regions[place] = Region(slot, key, memory.address, memory.nbytes)
        return region

    def drop(self, key: int) -> bool:
        """Let nobody touch a region any more. False: it was dropped before."""
        with self._lock:
            held = self._held.pop(key, None)
            if held is None:
                return False
            memory = held[1]
            self._regions.pop((memory.address, memory.nbytes, memory.readonly), None)
            _write(held[0], SLOT.pack(0, 0, 0, 0))
            self._free.append(held[0])
        return True

    def find(self, key: int) -> LocalMemory | None:
        """The memory of a region of this process; None if it was dropped."""
        held = self._held.get(key)
        return held[1] if held is not None else None

    def _grow(self) -> None:
        page = mmap.mmap(-1, _PAGE)
        self._pages.append(page)
        start = LocalMemory(page).address
        self._free += range(start + _PAGE - SLOT.size, start - 1, -SLOT.size)

    def __len__(self) -> int:
        return len(self._held)


def _write(address: int, data: bytes) -> None:
    import ctypes

    ctypes.memmove(address, data, len(data))
