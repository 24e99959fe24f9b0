"""What the tests of casts over a tree of hosts call."""

import os
import threading

import numpy as np

from danaus.actor import Actor, Port, current_rank, endpoint


class Diary(Actor):
    """Notes what it is sent, and answers with what it is asked for."""

    def __init__(self) -> None:
        self.notes: list[object] = []

    @endpoint
    def note(self, what: object) -> int:
        self.notes.append(what)
        return current_rank().rank

    @endpoint
    def read(self) -> list[object]:
        return self.notes

    @endpoint
    def nothing(self) -> None:
        """Answers with what everybody does."""

    @endpoint
    def echo(self, value: object) -> object:
        return value

    @endpoint
    def give(self, size: int) -> bytes:
        return bytes(current_rank().rank for _ in range(size))

    @endpoint
    def array(self, size: int) -> np.ndarray:
        return np.full(size, float(current_rank().rank))

    @endpoint
    def fail(self, rank: int) -> int:
        if current_rank().rank == rank:
            raise ValueError(f"rank {rank} fails")
        return current_rank().rank

    @endpoint
    def wait(self, seconds: float, rank: int) -> int:
        if current_rank().rank == rank:
            threading.Event().wait(seconds)
        return current_rank().rank

    @endpoint
    def pid(self) -> tuple[int, int]:
        """Of the process, and of the agent above its zygote."""
        return os.getpid(), os.getppid()

    @endpoint
    def write(self, port: Port[int]) -> None:
        port.send(current_rank().rank)

    @endpoint
    def tell(self, others: "Diary", what: object) -> list[int]:
        """Cast from here."""
        return list(others.note.call(what).get(20).values())
