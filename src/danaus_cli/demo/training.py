"""The driver of the demo: it starts the job, leads the trainers step by step, and ends the job.

This is the part to read for how a program looks that uses Danaus. All distributed work is in
`_Cluster`: `spawn_procs`, `spawn`, `call`, `call_one`, `broadcast`, an `Accumulator`, `respawn`.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import danaus.actor
from danaus.actor import Accumulator, SupervisionError, shutdown_context, statistics
from danaus.job import ProcessJob
from danaus_cli.demo.actors import Loader, Place, Trainer, model_size
from danaus_cli.demo.model import Gradient
from danaus_cli.demo.outcome import Death, Member, Outcome, Traffic
from danaus_cli.demo.remains import find_remains, look_around, take_inventory

if TYPE_CHECKING:
    from collections.abc import Generator

    from danaus.actor import MeshFailure
    from danaus_cli.demo.plan import Plan
    from danaus_cli.demo.report import Narrator

__all__ = ["run"]

#: One thread for each trainer's matrix products: there are as many trainers as fit the machine.
#: The variables are read when numpy is first imported, hence given to the processes at birth.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
#: Carried by every process of the job, so that each can be found again; see `remains`.
MARK = "DANAUS_DEMO"
#: Longest wait for an answer of the cluster, in seconds.
TIMEOUT_S = 60.0


def run(plan: Plan, narrator: Narrator) -> Outcome:
    """Run the demo, from the start of its job to the proof that nothing is left of it.

    Args:
        plan: What to do.
        narrator: Is told how it goes.

    Raises:
        danaus.errors.SupervisionError: A process died that was not meant to.
    """
    began = time.monotonic()
    outcome = Outcome(plan)
    token = secrets.token_hex(8)
    known = look_around()
    job = ProcessJob(
        {"trainers": plan.trainers, "loaders": plan.loaders}, env={**ONE_THREAD, MARK: token}
    )
    with _deaths_left_to_calls():
        try:
            cluster = _Cluster(job, plan)
            _open(cluster, outcome, narrator)
            outcome.start_s = time.monotonic() - began
            inventory = take_inventory(f"{MARK}={token}", known)
            _train(cluster, outcome, narrator)
            _close(cluster, outcome, narrator)
            inventory |= take_inventory(f"{MARK}={token}", known)
        finally:
            ended = time.monotonic()
            job.kill()
            shutdown_context().get(TIMEOUT_S)
    outcome.stop_s = time.monotonic() - ended
    outcome.inventory = inventory
    outcome.remains = find_remains(inventory, f"{MARK}={token}", known)
    outcome.total_s = time.monotonic() - began
    return outcome


class _Cluster:
    """The actors of the run, and what the driver asks of them."""

    def __init__(self, job: ProcessJob, plan: Plan) -> None:
        self.plan = plan
        self.parameters = model_size(plan).parameters
        hosts = job.state(cached_path=None)
        self.trainer_procs = hosts.trainers.spawn_procs(per_host={"procs": 1}, name="trainers")
        loader_procs = hosts.loaders.spawn_procs(per_host={"procs": 1}, name="loaders")
        self.loaders = loader_procs.spawn("loader", Loader, plan)
        self.trainers = self.trainer_procs.spawn("trainer", Trainer, plan, self.loaders)

    @property
    def first_trainer(self) -> Trainer:
        return self.trainers.slice(hosts=0)

    def gradient(self, step: int, victim: Place | None) -> Gradient:
        """The sum of all trainers' gradients; ``victim`` is killed while they compute."""
        total = Accumulator(self.trainers.gradient, Gradient.zero(self.parameters), Gradient.plus)
        coming = total.accumulate(step)
        if victim is not None:
            os.kill(victim.pid, signal.SIGKILL)
        return coming.get(TIMEOUT_S)

    def places(self) -> tuple[list[Place], list[Place]]:
        """Where the trainers and where the loaders are."""
        trainers, loaders = self.trainers.place.call(), self.loaders.place.call()
        return [*trainers.get(TIMEOUT_S).values()], [*loaders.get(TIMEOUT_S).values()]

    def bring_back(self, rank: int) -> tuple[Place, int]:
        """Start a dead trainer again as a copy of another one; where it is, and of whom."""
        survivor = (rank + 1) % self.plan.trainers
        self.trainer_procs.respawn(rank).get(TIMEOUT_S)
        trainer = self.trainers.slice(hosts=rank)
        snapshot = self.trainers.slice(hosts=survivor).snapshot.call_one().get(TIMEOUT_S)
        trainer.restore.call_one(snapshot).get(TIMEOUT_S)
        return trainer.place.call_one().get(TIMEOUT_S), survivor


def _open(cluster: _Cluster, outcome: Outcome, narrator: Narrator) -> None:
    """Wait until all actors are there, and see what the model knows before it learns."""
    cluster.places()
    outcome.parameters = cluster.parameters
    for summary in cluster.loaders.text.call().get(TIMEOUT_S).values():
        outcome.characters += summary.characters
        for origin, count in summary.files.items():
            outcome.files[origin] = outcome.files.get(origin, 0) + count
    outcome.held_out_before, outcome.sample_before = _examine(cluster)
    narrator.opened(outcome)


def _train(cluster: _Cluster, outcome: Outcome, narrator: Narrator) -> None:
    plan = cluster.plan
    began = time.monotonic()
    narrator.training_began(outcome)
    for step in range(plan.steps):
        victim = None
        if plan.kill_one and step == plan.fatal_step:
            victim = cluster.trainers.slice(hosts=plan.victim).place.call_one().get(TIMEOUT_S)
        total = _step(cluster, outcome, narrator, step, victim)
        cluster.trainers.apply.broadcast(total)
        outcome.losses.append(total.mean_loss())
        narrator.stepped(outcome)
    outcome.training_s = time.monotonic() - began
    narrator.training_ended()


def _step(
    cluster: _Cluster, outcome: Outcome, narrator: Narrator, step: int, victim: Place | None
) -> Gradient:
    """The gradient of a step; if the victim dies meanwhile, once more after it is back."""
    began = time.monotonic()
    try:
        return cluster.gradient(step, victim)
    except SupervisionError as error:
        failure = error.failure
        if victim is None or failure is None:
            raise
        noticed_s = time.monotonic() - began
    place, survivor = cluster.bring_back(victim.rank)
    death = Death(
        rank=victim.rank,
        host=failure.host or victim.host,
        pid=failure.pid or victim.pid,
        exit=failure.exit or "",
        step=step,
        reason=failure.reason,
        noticed_s=noticed_s,
        recovered_s=time.monotonic() - began - noticed_s,
        new_pid=place.pid,
        survivor=survivor,
    )
    outcome.deaths.append(death)
    outcome.traffic += Traffic.of(victim.traffic)
    narrator.came_back(death)
    return cluster.gradient(step, None)


def _close(cluster: _Cluster, outcome: Outcome, narrator: Narrator) -> None:
    """See what the model knows now, and what it took."""
    outcome.held_out_after, outcome.sample_after = _examine(cluster)
    outcome.digests = [*cluster.trainers.digest.call().get(TIMEOUT_S).values()]
    trainers, loaders = cluster.places()
    outcome.members = [
        *(_member("trainer", place) for place in trainers),
        *(_member("loader", place) for place in loaders),
    ]
    times = os.times()
    outcome.members.append(
        Member("driver", 0, "this process", os.getpid(), times.user + times.system)
    )
    for figures in (*(place.traffic for place in (*trainers, *loaders)), dict(statistics())):
        outcome.traffic += Traffic.of(figures)
    narrator.closed(outcome)


def _examine(cluster: _Cluster) -> tuple[float, str]:
    examination = cluster.loaders.slice(hosts=0).examination.call_one().get(TIMEOUT_S)
    loss = cluster.first_trainer.examine.call_one(examination)
    sample = cluster.first_trainer.write.call_one()
    return loss.get(TIMEOUT_S), sample.get(TIMEOUT_S)


def _member(role: str, place: Place) -> Member:
    return Member(role, place.rank, place.host, place.pid, place.cpu_s)


@contextmanager
def _deaths_left_to_calls() -> Generator[None]:
    """Let a death be the error of the call that it breaks, and not also end the program."""
    before = danaus.actor.unhandled_fault_hook
    danaus.actor.unhandled_fault_hook = _leave_it
    try:
        yield
    finally:
        danaus.actor.unhandled_fault_hook = before


def _leave_it(failure: MeshFailure) -> None:
    del failure
