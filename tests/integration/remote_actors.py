"""Actors of the tests of several hosts."""

import os
import signal

from danaus.actor import Actor, Port, endpoint


class Counter(Actor):
    """Notes what it is sent, in order."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    @endpoint
    def add(self, number: int) -> int:
        self.seen.append(number)
        return number

    @endpoint
    def all(self) -> list[int]:
        return self.seen

    @endpoint
    def length(self, data: bytes) -> int:
        return len(data)

    @endpoint
    def give(self, size: int) -> bytes:
        return bytes(size)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def ask(self, other: "Counter", number: int) -> int:
        return other.add.call_one(number).get(20)

    @endpoint
    def tell(self, port: Port[int]) -> None:
        port.send(os.getpid())

    @endpoint
    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @endpoint
    def variables(self) -> dict[str, str]:
        return dict(os.environ)
