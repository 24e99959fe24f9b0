"""Accumulate: fold the replies of many actors into one value, as they arrive.

Each rank throws darts at a square and counts those within the circle. `Accumulator` calls all
ranks, and folds their replies at the caller from an identity on; `stream` gives the replies one by
one, in order of arrival, for a program that wants to look at each.

Run it: python examples/accumulate.py
"""

from __future__ import annotations

import math
import random

from danaus.actor import Accumulator, Actor, current_rank, endpoint, this_host

DARTS = 50_000


class Thrower(Actor):
    """Throws darts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(1000 * seed + current_rank().rank)

    @endpoint
    def throw(self, darts: int) -> tuple[int, int]:
        """How many darts hit the circle, and how many were thrown."""
        draw = self.random.random
        return sum(draw() ** 2 + draw() ** 2 <= 1 for _ in range(darts)), darts


def add(total: tuple[int, int], reply: tuple[int, int]) -> tuple[int, int]:
    return total[0] + reply[0], total[1] + reply[1]


def main() -> None:
    procs = this_host().spawn_procs(per_host={"hands": 4})
    throwers = procs.spawn("throwers", Thrower, seed=7)

    throws = Accumulator(throwers.throw, (0, 0), add)
    hits, darts = throws.accumulate(DARTS).get()
    pi = 4 * hits / darts
    print(f"{darts} darts: pi is about {pi:.2f}")

    # The same by hand, until it is good enough: each reply can be used the moment it is there.
    for number, reply in enumerate(throwers.throw.stream(DARTS), 1):
        hits, darts = add((hits, darts), reply.get())
        print(f"after reply {number}: off by less than {_bound(hits, darts):.3f}")


def _bound(hits: int, darts: int) -> float:
    """Three standard deviations of the estimate."""
    share = hits / darts
    return 3 * 4 * math.sqrt(share * (1 - share) / darts)


if __name__ == "__main__":
    main()
