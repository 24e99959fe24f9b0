"""Counters: state in processes, and the ways to call it.

Four processes hold one counter each. The program calls all of them, a part, a single one and any
one; sends without waiting; and takes replies as they arrive. No process needs to be ended by hand:
all that a script started ends with it.

Run it: python examples/counters.py
"""

from danaus.actor import Actor, current_rank, endpoint, this_host


class Counter(Actor):
    """A number in a process of its own."""

    def __init__(self, start: int = 0) -> None:
        self.value = start

    @endpoint
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    @endpoint
    def read(self) -> int:
        return self.value

    @endpoint
    def where(self) -> str:
        rank = current_rank()  # its place in the mesh that was called
        return f"row {rank['rows']}, column {rank['columns']}"


def main() -> None:
    procs = this_host().spawn_procs(per_host={"rows": 2, "columns": 2})
    counters = procs.spawn(
        "counters", Counter, start=10
    )  # returns at once, and so does what follows

    # All of them: one value for each rank, with its place.
    for point, value in counters.add.call(1).get():
        print(f"rank {point.rank} at {dict(point)} has {value}")

    # A part: an int picks one, a slice keeps some. The actors are the same ones.
    top = counters.slice(rows=0)
    print("the top row has", list(top.add.call(100).get().values()))

    # Exactly one, and any one.
    corner = counters.slice(rows=1, columns=1)
    print("the corner has", corner.add.call_one(1000).get())
    print("somebody stands at", counters.where.choose().get())

    # Without waiting. What one sender sends to one actor arrives in the order of sending, so the
    # call afterwards sees all three.
    for _ in range(3):
        counters.add.broadcast(1)
    print("in the end they have", list(counters.read.call().get().values()))

    # In order of arrival, one future for each reply.
    print("their sum is", sum(reply.get() for reply in counters.read.stream()))


if __name__ == "__main__":
    main()
