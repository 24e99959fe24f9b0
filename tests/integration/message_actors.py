"""Actors for the tests of messages."""

from __future__ import annotations

import time
from pathlib import Path

from danaus.actor import Actor, endpoint


def status_kib(field: str) -> int:
    """A field of this process's /proc/self/status, in KiB."""
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))


class Receiver(Actor):
    """Takes large values, and says what it took them for."""

    def __init__(self) -> None:
        self.total = 0

    @endpoint
    def measure(self, data: bytes | bytearray) -> tuple[str, int, int, int]:
        return type(data).__name__, len(data), data[0], data[-1]

    @endpoint
    def peak_mib(self) -> int:
        return status_kib("VmHWM") // 1024

    @endpoint
    def make(self, nbytes: int) -> bytes:
        return bytes(nbytes)

    @endpoint
    def add(self, n: int) -> int:
        self.total += n
        return self.total

    @endpoint
    def echo(self, data: bytes) -> bytes:
        return data

    @endpoint
    def wait_and_return(self, seconds: float, value: int) -> int:
        time.sleep(seconds)  # noqa: TID251  # the endpoint's work, not the test's synchronisation
        return value
