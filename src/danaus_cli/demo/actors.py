"""The actors of the demo: a `Loader` reads text, a `Trainer` learns from it.

Loaders and trainers stand on hosts of their own. The driver asks all trainers for the gradient of
a step, adds the answers up, and sends the sum to all; each trainer asks its loader for its next
batch while the driver adds. A step changes nothing before the sum arrives, so it can be asked
for again when a trainer has died.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danaus.actor import Actor, Future, context, endpoint, statistics
from danaus_cli.demo.corpus import (
    SYMBOLS,
    Corpus,
    TextFile,
    decode,
    encode,
    find_text,
    load_corpus,
)
from danaus_cli.demo.model import Adam, Gradient, Model, ModelSize, learning_rate

if TYPE_CHECKING:
    from danaus_cli.demo.model import FloatArray, SymbolArray
    from danaus_cli.demo.plan import Plan

__all__ = ["Batch", "Loader", "Place", "Snapshot", "TextSummary", "Trainer", "model_size"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Places of a text: what comes before, and what comes."""

    contexts: SymbolArray
    """Shape ``(batch, context)``."""
    targets: SymbolArray
    """Shape ``(batch,)``."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an actor runs and what its process has sent and received so far."""

    rank: int
    host: str
    pid: int
    cpu_s: float
    """Seconds of processor time that the process has used."""
    traffic: dict[str, int]
    """The figures of `danaus.actor.statistics` for its process."""


@dataclass(frozen=True, slots=True)
class TextSummary:
    """What a loader read."""

    files: dict[str, int]
    """Number of files by who wrote them."""
    characters: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a trainer knows: enough to turn a new one into the same."""

    weights: FloatArray
    first: FloatArray
    second: FloatArray
    step: int


def model_size(plan: Plan) -> ModelSize:
    """The dimensions of a run's model."""
    return ModelSize(SYMBOLS, plan.context, plan.embedding, plan.hidden)


class Loader(Actor):
    """Reads its share of the files and cuts batches out of them.

    A batch depends on the seed, the trainer and the step only: whoever asks again, also after a
    crash, gets the same.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rank = context().actor_instance.rank.rank
        self.files: list[TextFile] = find_text(plan.text)[self.rank :: plan.loaders]
        self.corpus: Corpus = load_corpus(self.files)

    def _handle_undeliverable_message(self, message: object) -> bool:  # noqa: ARG002
        # A batch was on its way to a trainer that has died. Its successor asks again.
        return True

    @endpoint
    def batch(self, trainer: int, step: int) -> Batch:
        """The batch of a trainer for a step."""
        key = (self.plan.seed, trainer, step)
        return Batch(*self.corpus.batch(key, self.plan.batch, self.plan.context))

    @endpoint
    def examination(self) -> Batch:
        """Held-out text to measure the model on."""
        return Batch(*self.corpus.examination(self.plan.examination, self.plan.context))

    @endpoint
    def text(self) -> TextSummary:
        """What was read."""
        origins = [file.origin for file in self.files]
        return TextSummary(
            {origin: origins.count(origin) for origin in sorted(set(origins))},
            len(self.corpus.training) + len(self.corpus.held_out),
        )

    @endpoint
    def place(self) -> Place:
        """Where this loader runs."""
        return _place(self.rank)


class Trainer(Actor):
    """Holds one copy of the model and computes gradients on its own batches."""

    def __init__(self, plan: Plan, loaders: Loader) -> None:
        self.plan = plan
        self.rank = context().actor_instance.rank.rank
        self.loader = loaders.slice(hosts=self.rank % plan.loaders)
        self.model = Model(model_size(plan), plan.seed)
        self.optimizer = Adam(self.model.size.parameters)
        self.coming: tuple[int, Future[Batch]] | None = None
        """The step whose batch has been asked for ahead, and the batch to be."""

    @endpoint
    def gradient(self, step: int) -> Gradient:
        """The gradient on this trainer's batch for ``step``. Changes no weight."""
        batch = self._ask(step).get()
        loss, gradient = self.model.loss_and_gradient(batch.contexts, batch.targets)
        if step + 1 < self.plan.steps:
            self._ask(step + 1)
        return Gradient.of(gradient, loss)

    @endpoint
    def apply(self, total: Gradient) -> None:
        """Make one step of the optimizer with the gradients of all trainers."""
        rate = learning_rate(self.optimizer.step, self.plan.steps)
        self.optimizer.update(self.model.flat, total.mean(), rate)

    @endpoint
    def examine(self, examination: Batch) -> float:
        """The loss on a text that was held out, in nats a character."""
        return self.model.loss(examination.contexts, examination.targets)

    @endpoint
    def write(self) -> str:
        """A sample of what the model writes."""
        plan = self.plan
        prompt = encode(plan.prompt)
        written = self.model.generate(
            prompt, plan.sample, temperature=plan.temperature, seed=plan.seed
        )
        return plan.prompt + decode(written)

    @endpoint
    def digest(self) -> str:
        """A checksum of the weights: equal on all trainers, always."""
        return f"{zlib.crc32(self.model.flat.tobytes()):08x}"

    @endpoint
    def snapshot(self) -> Snapshot:
        """All that this trainer knows."""
        optimizer = self.optimizer
        return Snapshot(self.model.flat, optimizer.first, optimizer.second, optimizer.step)

    @endpoint
    def restore(self, snapshot: Snapshot) -> None:
        """Become a copy of the trainer that the snapshot was taken of."""
        self.model.flat[:] = snapshot.weights
        self.optimizer.first[:] = snapshot.first
        self.optimizer.second[:] = snapshot.second
        self.optimizer.step = snapshot.step
        self.coming = None

    @endpoint
    def place(self) -> Place:
        """Where this trainer runs."""
        return _place(self.rank)

    def _ask(self, step: int) -> Future[Batch]:
        """Ask the loader for a step's batch, unless that was done before."""
        if self.coming is None or self.coming[0] != step:
            self.coming = (step, self.loader.batch.call_one(self.rank, step))
        return self.coming[1]


def _place(rank: int) -> Place:
    times = os.times()
    host = os.environ.get("DANAUS_PROCESS_NAME", "")  # of every host of a ProcessJob
    return Place(rank, host, os.getpid(), times.user + times.system, dict(statistics()))
