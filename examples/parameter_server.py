"""Parameter server: workers pull weights from an actor and push gradients to it, as messages.

One process keeps the weights of a linear model. Four others hold a part of the data each, and
train: pull the weights, compute a gradient on the next batch, push it. They never wait for one
another. The server needs no lock, because an actor handles one message at a time.

The weights and gradients are numpy arrays (`pip install numpy`). Arrays are copied into no pickle:
from 256 KiB on they travel as shared memory.

Run it: python examples/parameter_server.py
"""

from __future__ import annotations

import operator

import numpy as np

from danaus.actor import Accumulator, Actor, current_rank, endpoint, this_host

FEATURES = 200
WORKERS = 4
STEPS = 100
BATCH = 64
RATE = 0.2


class Server(Actor):
    """Keeps the weights."""

    def __init__(self, features: int, rate: float) -> None:
        self.weights = np.zeros(features)
        self.rate = rate
        self.pushes = 0

    @endpoint
    def pull(self) -> np.ndarray:
        return self.weights

    @endpoint
    def push(self, gradient: np.ndarray) -> None:
        self.weights -= self.rate * gradient
        self.pushes += 1

    @endpoint
    def count(self) -> int:
        return self.pushes


class Worker(Actor):
    """Holds a part of the data."""

    def __init__(self, server: Server, truth: np.ndarray) -> None:
        self.server = server
        self.random = np.random.default_rng(current_rank().rank)
        self.truth = truth

    def next_batch(self) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.random.standard_normal((BATCH, len(self.truth))) / np.sqrt(FEATURES)
        return inputs, inputs @ self.truth

    @endpoint
    def train(self, steps: int) -> None:
        for _ in range(steps):
            inputs, targets = self.next_batch()
            weights = self.server.pull.call_one().get()
            self.server.push.broadcast(inputs.T @ (inputs @ weights - targets))

    @endpoint
    def loss(self, weights: np.ndarray) -> float:
        inputs, targets = self.next_batch()
        return float(np.square(inputs @ weights - targets).mean())


def main() -> None:
    truth = np.sin(np.arange(FEATURES))
    host = this_host()
    server = host.spawn_procs(name="server").spawn("server", Server, FEATURES, RATE)
    procs = host.spawn_procs(per_host={"workers": WORKERS}, name="workers")
    workers = procs.spawn("workers", Worker, server, truth)

    total_loss = Accumulator(workers.loss, 0.0, operator.add)

    before = total_loss.accumulate(np.zeros(FEATURES)).get() / WORKERS
    workers.train.call(STEPS).get()
    weights = server.pull.call_one().get()
    after = total_loss.accumulate(weights).get() / WORKERS

    print("gradients pushed:", server.count.call_one().get())
    print(f"the loss fell from {before:.3f} to {after:.3f}")
    print(f"largest error of a weight: {np.abs(weights - truth).max():.3f}")


if __name__ == "__main__":
    main()
