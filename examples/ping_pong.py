"""Ping-pong: two actors that hold references to each other.

A reference to a mesh of actors is a value: it can be an argument, a result, a part of either. Here
each player is given the other one, and from then on the client takes no part in the game: a ball
goes back and forth between two processes until it has lost its energy. The player who has it then
reports to a port that travelled with it.

The players use `broadcast`. Were they to wait for each other's replies, nobody could answer: both
threads would wait. Danaus finds such a cycle and raises `CycleError` instead; the end shows it.

Run it: python examples/ping_pong.py
"""

from __future__ import annotations

import time

from danaus.actor import Actor, Channel, CycleError, Port, endpoint, this_host

VOLLEYS = 2000


class Player(Actor):
    """Hits the ball back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hits = 0
        self.other: Player

    @endpoint
    def meet(self, other: Player) -> None:
        self.other = other

    @endpoint
    def hit(self, energy: int, umpire: Port[str]) -> None:
        self.hits += 1
        if energy > 1:
            self.other.hit.broadcast(energy - 1, umpire)
        else:
            umpire.send(f"{self.name} has the ball")

    @endpoint
    def count(self) -> int:
        return self.hits

    @endpoint
    def ask(self, question: str) -> str:
        return self.other.ask.call_one(question).get()  # waits for one who waits for us


def main() -> None:
    procs = this_host().spawn_procs(per_host={"players": 2})
    ping = procs.slice(players=0).spawn("ping", Player, "ping")
    pong = procs.slice(players=1).spawn("pong", Player, "pong")
    ping.meet.broadcast(pong)
    pong.meet.broadcast(ping)

    umpire, calls = Channel[str].open()
    started = time.perf_counter()
    ping.hit.broadcast(VOLLEYS, umpire)
    print(calls.recv().get())
    each = (time.perf_counter() - started) / VOLLEYS

    print("ping hit", ping.count.call_one().get(), "times, pong", pong.count.call_one().get())
    print(f"{each * 1e6:.0f} microseconds a volley")

    try:
        ping.ask.call_one("who starts?").get()
    except CycleError as error:
        print("nobody could answer:", str(error).rstrip().splitlines()[-1])


if __name__ == "__main__":
    main()
