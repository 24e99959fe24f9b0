"""Owners and readers of buffers."""

import ctypes
import hashlib
import mmap
import os
import threading

import numpy as np

from danaus.actor import Actor, endpoint
from danaus.rdma import RDMABuffer


def pattern(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)


def checksum(data: np.ndarray) -> str:
    return hashlib.sha256(data.tobytes()).hexdigest()


class Owner(Actor):
    """Has memory, and lends it."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.buffers: list[RDMABuffer] = []

    @endpoint
    def lend(self, size: int, number: int = 0) -> RDMABuffer:
        self.kept.append(pattern(number, size))
        self.buffers.append(RDMABuffer(self.kept[-1]))
        return self.buffers[-1]

    @endpoint
    def lend_many(self, count: int, size: int) -> list[RDMABuffer]:
        return [RDMABuffer(self.keep(pattern(i, size))) for i in range(count)]

    def keep(self, data: np.ndarray) -> np.ndarray:
        self.kept.append(data)
        return data

    @endpoint
    def lend_read_only(self) -> RDMABuffer:
        return RDMABuffer(b"constant" * 100)

    @endpoint
    def lend_mapping(self, size: int) -> RDMABuffer:
        self.mapping = mmap.mmap(-1, size)
        self.mapping[:5] = b"hello"
        return RDMABuffer(memoryview(self.mapping)[1:])

    @endpoint
    def checksum(self, position: int = -1) -> str:
        return checksum(self.kept[position])

    @endpoint
    def drop(self) -> None:
        self.buffers[-1].drop().get()

    @endpoint
    def hold_the_gil(self, milliseconds: int) -> None:
        """In C, without letting it go."""
        ctypes.PyDLL(None).usleep(milliseconds * 1000)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    async def read_async(self, buffer: RDMABuffer) -> str:
        data = np.zeros(buffer.size(), np.uint8)
        await buffer.read_into(data)
        return checksum(data)


class Reader(Actor):
    """Reads what others lend, from a sync endpoint and from threads."""

    @endpoint
    def read(self, buffer: RDMABuffer) -> str:
        data = np.zeros(buffer.size(), np.uint8)
        buffer.read_into(data).get()
        return checksum(data)

    @endpoint
    def write(self, buffer: RDMABuffer, number: int) -> str:
        data = pattern(number, buffer.size())
        buffer.write_from(data).get()
        return checksum(data)

    @endpoint
    def backend(self, buffer: RDMABuffer) -> str:
        return buffer.backend

    @endpoint
    def read_in_threads(self, buffer: RDMABuffer, threads: int) -> list[str]:
        found: list[str] = []

        def once() -> None:
            data = np.zeros(buffer.size(), np.uint8)
            for _ in range(5):
                buffer.read_into(data).get()
            found.append(checksum(data))

        running = [threading.Thread(target=once) for _ in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()
        return found
