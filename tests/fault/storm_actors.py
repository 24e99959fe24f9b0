"""What runs on every rank of a storm: it hears, and it tells."""

import os
import random

from danaus.actor import Actor, SupervisionError, current_rank, endpoint

Sent = list[tuple[int, int, int]]
"""(number, first rank, rank after the last) of what was sent, in order."""


class Gossip(Actor):
    """Notes whatever it hears by sender, and tells others what it has noted it will."""

    def __init__(self) -> None:
        self.rank = current_rank().rank
        self.heard: dict[str, list[int]] = {}
        self.sent: Sent = []

    @endpoint
    def hear(self, sender: str, number: int) -> None:
        self.heard.setdefault(sender, []).append(number)

    @endpoint
    def ping(self, value: int) -> int:
        return value

    @endpoint
    def tell(self, others: "Gossip", ranks: int, count: int, seed: int) -> int:
        """Send so many messages to ranks at random, some to all."""
        chance = random.Random(seed)
        for _ in range(count):
            number = len(self.sent)
            first, end = 0, ranks
            if chance.random() < 0.7:
                first = chance.randrange(ranks)
                end = first + 1
            try:
                others.slice(ranks=slice(first, end)).hear.broadcast(f"rank {self.rank}", number)
            except SupervisionError:
                continue  # it was not sent to anybody: one of them is known to be dead
            self.sent.append((number, first, end))
        return len(self.sent)

    @endpoint
    def settle(self, others: "Gossip", alive: list[int]) -> None:
        """Wait until those who are alive have what was sent to them: a call comes after it."""
        for rank in (one for one in alive if one != self.rank):
            others.slice(ranks=slice(rank, rank + 1)).ping.call_one(rank).get(60)

    @endpoint
    def report(self) -> tuple[dict[str, list[int]], Sent]:
        return self.heard, self.sent

    @endpoint
    def pid(self) -> int:
        return os.getpid()
