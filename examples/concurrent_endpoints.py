"""Concurrent endpoints: calls of one actor that interleave.

An actor handles one message at a time; an `await` in an ordinary endpoint does not let the next
message in. A `@concurrent_endpoint` does: its calls start in order, and while one awaits, others
go on. A board where readers wait for what writers post cannot be written without it.

Both the client and the actor are async here: a future can be awaited in any event loop.

Run it: python examples/concurrent_endpoints.py
"""

from __future__ import annotations

import asyncio

from danaus.actor import Actor, concurrent_endpoint, endpoint, this_host


class Board(Actor):
    """Values by topic; who reads before there is one, waits."""

    def __init__(self) -> None:
        self.topics: dict[str, asyncio.Future[str]] = {}
        self.waiting = 0

    def topic(self, name: str) -> asyncio.Future[str]:
        if name not in self.topics:
            self.topics[name] = asyncio.get_running_loop().create_future()
        return self.topics[name]

    @concurrent_endpoint
    async def read(self, name: str) -> str:
        self.waiting += 1
        try:
            return await self.topic(name)
        finally:
            self.waiting -= 1

    @endpoint
    async def post(self, name: str, value: str) -> None:
        self.topic(name).set_result(value)

    @endpoint
    async def readers(self) -> int:
        return self.waiting

    async def __cleanup__(self, exc: Exception | None) -> None:
        # Calls that still wait were cancelled, and have ended, when this runs.
        print(f"the board closes with {self.waiting} readers")


async def main() -> None:
    procs = this_host().spawn_procs()
    board = procs.spawn("board", Board)

    news = [board.read.call_one("news") for _ in range(100)]
    weather = board.read.call_one("weather")
    print("readers that wait:", await board.readers.call_one())

    await board.post.call_one("news", "all ranks are up")
    print("everybody read:", {await reading for reading in news})
    print("readers that wait:", await board.readers.call_one())

    # Stopping the actor ends what still waits.
    await board.stop()
    print("the last reader got", type(weather.exception()).__name__)
    await procs.stop()


if __name__ == "__main__":
    asyncio.run(main())
