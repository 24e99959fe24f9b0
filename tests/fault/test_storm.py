"""Everything is killed at random, and whoever survives has lost nothing."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from danaus.actor import HostMesh, SupervisionError, attach_to_workers, shutdown_context
from danaus.config import configured
from danaus.job import JobKey
from tests.cluster.namespaces import NetworkHost, can_be_made, network
from tests.fault.storm import Ended, History, violations
from tests.fault.storm_actors import Gossip
from tests.remote_workers import Worker

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(not can_be_made(), reason="no network namespaces here"),
]

HOSTS = 12
PROCS = 2
RANKS = HOSTS * PROCS
ROUND = 8.0
"""Seconds of one set of actors; then those that are left are asked, and new ones are made."""
PATIENCE = 60.0
SILENCE = "30s"
"""After which a host counts as dead: on a busy machine a storm of new connections takes its time.
Those that are killed are noticed at once."""


class Cluster:
    """A worker on each host of a network; those that die are replaced between rounds."""

    def __init__(self, hosts: list[NetworkHost], folder: Path, stack: ExitStack) -> None:
        self.hosts = hosts
        self.key = folder / "job.key"
        JobKey.make().save(self.key)
        self._stack = stack
        self.workers = [self._start(i) for i in range(len(hosts))]

    def _start(self, i: int) -> Worker:
        host = self.hosts[i]
        worker = Worker(self.key, f"tcp://{host.ipv4}:0", f"node-{i}", host.inside)
        self._stack.callback(worker.end)
        return worker

    def mend(self) -> None:
        """Start a worker wherever there is none."""
        for i, worker in enumerate(self.workers):
            if worker.process.poll() is not None:
                self.workers[i] = self._start(i)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    for name in ("HOST_DEAD_AFTER", "LINK_RESUME_WITHIN"):  # of the workers
        monkeypatch.setenv(f"DANAUS_{name}", SILENCE)
    with network(HOSTS) as hosts, ExitStack() as stack:
        yield Cluster(hosts, tmp_path, stack)


class Round:
    """One set of actors, those who talk to them, and those who kill them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.history = History(RANKS)
        addresses = [worker.address for worker in cluster.workers]
        self.hosts: HostMesh = attach_to_workers(workers=addresses, key=cluster.key)
        procs = self.hosts.spawn_procs(per_host={"procs": PROCS}).flatten("ranks")
        self.actors = procs.spawn("gossip", Gossip)
        self.pids = list(self.actors.pid.call().get(PATIENCE).values())
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._kills = 0

    # who kills

    def host_of(self, rank: int) -> int:
        return rank // PROCS

    def _died(self, rank: int, *names: str) -> None:
        known = self.history.dead.get(rank, ())
        self.history.dead[rank] = (*known, *names)

    def kill_proc(self) -> None:
        rank = self.chance.choice([r for r in range(RANKS) if r not in self.history.dead])
        self._died(rank, str(self.pids[rank]))
        os.kill(self.pids[rank], signal.SIGKILL)

    def kill_agent(self, host: int) -> None:
        worker = self.cluster.workers[host]
        for rank in range(host * PROCS, (host + 1) * PROCS):
            self._died(rank, worker.address, f"node-{host}", str(self.pids[rank]))
        worker.process.kill()
        worker.process.wait()

    def kill_some_agent(self) -> None:
        alive = {self.host_of(rank) for rank in range(RANKS) if rank not in self.history.dead}
        self.kill_agent(self.chance.choice(sorted(alive)))

    def kill_relay(self) -> None:
        """The first host leads others in the tree of whoever casts to all."""
        if self.cluster.workers[0].process.poll() is None:
            self.kill_agent(0)

    def break_links(self) -> None:
        """Break the connections of a host."""
        self.chance.choice(self.cluster.hosts).reset()

    def cut_off(self) -> None:
        """Cut a host off, for less long than it takes to give it up."""
        host = self.chance.choice(self.cluster.hosts)
        host.cut()
        self.over.wait(self.chance.uniform(0.2, 1.0))
        host.heal()

    def rage(self) -> None:
        """Kill until the round is over, as long as most are alive."""
        deeds: list[Callable[[], None]] = [
            *[self.break_links] * 3,
            self.cut_off,
            self.kill_proc,
            self.kill_some_agent,
            self.kill_relay,
        ]
        self.chance.shuffle(deeds)
        while not self.over.wait(self.chance.uniform(0.3, 1.2)):
            if deeds and len(self.history.dead) < RANKS // 2:
                deeds.pop()()
                self._kills += 1

    # who talks

    def alive(self) -> tuple[int, int]:
        """The longest run of ranks that are not known to be dead."""
        best = (0, 0)
        first = 0
        for rank in range(RANKS + 1):
            if rank == RANKS or rank in self.history.dead:
                best = max(best, (first, rank), key=lambda run: run[1] - run[0])
                first = rank + 1
        return best

    def cast(self) -> None:
        """Cast to all, and later to those that are left."""
        sent: list[tuple[int, range]] = []
        first, end = 0, RANKS
        number = 0
        while not self.over.is_set():
            ranks = range(first, end)
            actors = self.actors.slice(ranks=slice(first, end))
            try:
                actors.hear.broadcast("client", number)
                sent.append((number, ranks))
            except SupervisionError as error:
                self._ended(ranks, str(error))
            number += 1
            if number % 5 == 0:
                self._call(actors, ranks, number)
            if any(rank in self.history.dead for rank in ranks):
                first, end = self.alive()
        self.history.sent["client"] = list(sent)

    def call_singly(self) -> None:
        """Call ranks at random, one at a time."""
        chance = random.Random(1)
        number = 0
        while not self.over.is_set():
            rank = chance.randrange(RANKS)
            number += 1
            self._call(
                self.actors.slice(ranks=slice(rank, rank + 1)), range(rank, rank + 1), number
            )

    def let_them_talk(self) -> None:
        """Let actors send to each other."""
        chance = random.Random(2)
        while not self.over.is_set():
            rank = chance.randrange(RANKS)
            one = self.actors.slice(ranks=slice(rank, rank + 1))
            try:
                one.tell.call_one(self.actors, RANKS, 20, chance.randrange(1 << 30)).get(PATIENCE)
            except SupervisionError as error:
                self._ended(range(rank, rank + 1), str(error))
            except TimeoutError:
                self.history.hung += 1

    def _call(self, actors: Gossip, ranks: range, number: int) -> None:
        try:
            values = list(actors.ping.call(number).get(PATIENCE).values())
            self._ended(ranks, None, values, [number] * len(ranks))
        except SupervisionError as error:
            self._ended(ranks, str(error))
        except TimeoutError:
            with self._lock:
                self.history.hung += 1

    def _ended(
        self, ranks: range, error: str | None, value: object = None, expected: object = None
    ) -> None:
        with self._lock:
            self.history.calls.append(Ended(tuple(ranks), error, value, expected))

    # the whole

    def run(self, seconds: float) -> History:
        with ThreadPoolExecutor(5) as pool:
            talk = (self.cast, self.call_singly, self.let_them_talk, self.let_them_talk)
            running = [pool.submit(one) for one in talk]
            running.append(pool.submit(self.rage))
            self.over.wait(seconds)
            self.over.set()
            for one in running:
                one.result(4 * PATIENCE)
        self._ask_survivors()
        return self.history

    def _ask_survivors(self) -> None:
        alive = [rank for rank in range(RANKS) if rank not in self.history.dead]
        ones = {rank: self.actors.slice(ranks=slice(rank, rank + 1)) for rank in alive}
        for one in ones.values():
            one.settle.call_one(self.actors, alive).get(2 * PATIENCE)
        for rank, one in ones.items():
            heard, sent = one.report.call_one().get(PATIENCE)
            self.history.heard[rank] = heard
            self.history.sent[f"rank {rank}"] = [(n, range(a, b)) for n, a, b in sent]


@contextmanager
def storm_config() -> Generator[None]:
    with configured(max_cast_fanout=3, direct_links_max=16, host_dead_after=SILENCE):
        yield


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_survivors_of_a_storm_have_lost_nothing_and_every_call_has_ended(
    cluster: Cluster, faults: object
):
    seconds = float(os.environ.get("DANAUS_STORM", "16"))
    seed = int(os.environ.get("DANAUS_STORM_SEED", str(random.randrange(1 << 30))))
    sys.stdout.write(f"DANAUS_STORM_SEED={seed}\n")
    begun = time.monotonic()
    rounds = 0
    while time.monotonic() - begun < seconds:
        cluster.mend()
        with storm_config():
            history = Round(cluster, seed + rounds).run(ROUND)
            wrong = violations(history)
            shutdown_context().get(PATIENCE)
        rounds += 1
        messages = sum(len(n) for heard in history.heard.values() for n in heard.values())
        failed = sum(call.error is not None for call in history.calls)
        sys.stdout.write(
            f"round {rounds}: {len(history.calls)} calls, {messages} messages heard, "
            f"{len(history.dead)} ranks killed, {failed} calls failed\n"
        )
        assert not wrong, "\n".join(wrong[:10])
        assert messages > 100
        assert history.dead
