"""Logging and output: what ranks print, the client prints.

Every line that a process writes to its standard output or error is shown by the client as it
happens, with the rank that wrote it. What all ranks print alike is shown once, with a count.
`logging_option` changes this for a mesh; and whatever is shown, the whole output of each process
is in a file of its own.

Run it: python examples/logging_output.py
"""

from __future__ import annotations

import logging
import os

from danaus.actor import Actor, current_rank, endpoint, this_host

RANKS = 4


class Trainer(Actor):
    """Talks about what it does."""

    @endpoint
    def start(self) -> None:
        print("the data is loaded", flush=True)

    @endpoint
    def step(self, number: int) -> None:
        print(f"step {number}: loss {1 / (1 + number + current_rank().rank):.3f}", flush=True)

    @endpoint
    def complain(self) -> None:
        self.logger.debug("a detail")
        self.logger.warning("the learning rate is high")

    @endpoint
    def write_to_fd(self) -> None:
        os.write(2, b"a C library writes straight to descriptor 2\n")


def headline(text: str) -> None:
    # In one piece: a thread of the client prints what ranks write, at any moment.
    print(f"- {text}\n", end="")


def main() -> None:
    procs = this_host().spawn_procs(per_host={"gpus": RANKS}, name="trainers")
    trainers = procs.spawn("trainers", Trainer)

    headline("by default: lines as they come, one for what all ranks print alike")
    trainers.start.call().get()
    trainers.slice(gpus=2).write_to_fd.call_one().get()

    # Setting options shows what was collected before, so each part ends with the next one.
    procs.logging_option(stream_to_client=True, aggregate_window_sec=None).get()
    headline("every line by itself")
    trainers.start.call().get()

    procs.logging_option(stream_to_client=True, aggregate_window_sec=5).get()
    headline("lines of five seconds that resemble each other, as one with a count")
    for number in range(3):
        trainers.step.call(number).get()

    procs.logging_option(stream_to_client=True, level=logging.WARNING).get()
    headline("Python's logging from level WARNING on")
    trainers.complain.call().get()

    procs.logging_option(stream_to_client=False).get()
    headline("nothing, while the files still hold everything")
    trainers.start.call().get()
    procs.stop().get()


if __name__ == "__main__":
    main()
