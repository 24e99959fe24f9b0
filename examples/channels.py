"""Channels: values that are no replies.

`Channel.open` makes a port and its receiver. The receiver stays; the port is a value that can be
sent anywhere, and whoever has it can send. So an endpoint can report while it runs, several ranks
can write to one reader, and an error can be sent like a value.

Run it: python examples/channels.py
"""

from __future__ import annotations

from danaus.actor import Actor, Channel, Port, current_rank, endpoint, this_host

STEPS = 4


class Trainer(Actor):
    """Reports each step to a port."""

    @endpoint
    def train(self, steps: int, progress: Port[float]) -> int:
        for step in range(steps):
            progress.send(1.0 / (1 + step))
        return steps

    @endpoint
    def vote(self, ballot: Port[str]) -> None:
        ballot.send("yes" if current_rank().rank % 2 == 0 else "no")

    @endpoint
    def give_up(self, port: Port[float]) -> None:
        port.exception(RuntimeError("the data is gone"))


def main() -> None:
    procs = this_host().spawn_procs(per_host={"gpus": 4})
    trainers = procs.spawn("trainers", Trainer)

    # Many writers, one reader. Each writer's values come in order; those of several interleave.
    progress, reports = Channel[float].open()
    done = trainers.train.call(STEPS, progress)
    losses = [reports.recv().get() for _ in range(4 * STEPS)]
    print(f"{len(losses)} reports, the last loss is {min(losses)}")
    print("steps done:", list(done.get().values()))

    # The same, and who sent it.
    ballot, votes = Channel[str].open_ranked()
    trainers.vote.broadcast(ballot)
    print("votes by rank:", dict(sorted(votes.recv().get() for _ in range(4))))

    # An exception is raised where it is received.
    port, receiver = Channel[float].open(once=True)  # for exactly one message
    trainers.slice(gpus=2).give_up.broadcast(port)
    try:
        receiver.recv().get()
    except RuntimeError as error:
        print("received an error:", str(error).rstrip().splitlines()[-1])


if __name__ == "__main__":
    main()
