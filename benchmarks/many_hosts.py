"""What many hosts cost the process that casts to them: real agents, flat against tree.

Starts agents on this machine, each a process of its own at a TCP address, with TLS and one proc.
Prints, for each number of hosts, the seconds to attach them and to spawn on them, and for a
broadcast and a call: frames, bytes and processor time of the sending process, and seconds until all
have answered. All agents share this machine's processors, so these seconds are an upper bound.

    python -m benchmarks.many_hosts --hosts 16 64 256 --fanouts 16 1000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from danaus.actor import (
    Actor,
    attach_to_workers,
    endpoint,
    shutdown_context,
)
from danaus.actor import (
    statistics as counters,
)
from danaus.config import configured
from danaus.job import JobKey

__all__ = ["Cost", "Rank", "Scale", "agents", "main", "measure"]

TOGETHER = 8
"""Agents that are started at the same time."""

FLAT = 1_000_000
"""A fan-out that no mesh reaches."""


class Rank(Actor):
    """Answers nothing, and a little."""

    @endpoint
    def nothing(self) -> None:
        """Answers with what everybody does."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one cast costs the sending process; medians and means over many."""

    frames_sent: float
    frames_received: float
    bytes_sent: float
    bytes_received: float
    processor_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Figures for one number of hosts and one fan-out."""

    hosts: int
    fanout: int
    attach_s: float
    spawn_s: float
    broadcast: Cost
    call: Cost


def measure(hosts: int, fanouts: Sequence[int], repeat: int) -> list[Scale]:
    """Start agents, and measure with each fan-out."""
    with tempfile.TemporaryDirectory() as folder, agents(hosts, Path(folder)) as addresses:
        key = JobKey.load(Path(folder, "job.key"))
        began = time.perf_counter()
        mesh = attach_to_workers(workers=addresses, key=key)
        mesh.initialized.get(300)
        attach_s = time.perf_counter() - began
        began = time.perf_counter()
        procs = mesh.spawn_procs()
        ranks = procs.spawn("ranks", Rank)
        ranks.nothing.call().get(300)
        spawn_s = time.perf_counter() - began
        found: list[Scale] = []
        for fanout in fanouts:
            with configured(max_cast_fanout=fanout):
                broadcast = _cost(ranks.nothing.broadcast, lambda: _settle(ranks), repeat)
                call = _cost(lambda: ranks.nothing.call().get(300), lambda: None, repeat)
                found.append(Scale(hosts, fanout, attach_s, spawn_s, broadcast, call))
        shutdown_context().get(120)
        return found


def _settle(ranks: Rank) -> None:
    ranks.nothing.call().get(300)


def _cost(once: Callable[[], object], settle: Callable[[], object], repeat: int) -> Cost:
    """What ``once`` costs; ``settle`` waits for all that it began, and is not counted."""
    _settle_after(once, settle)
    walls: list[float] = []
    processor = 0.0
    before = counters()
    for _ in range(repeat):
        cpu, wall = time.process_time(), time.perf_counter()
        once()
        walls.append(time.perf_counter() - wall)
        processor += time.process_time() - cpu
    after = counters()
    settle()
    each = {name: (after[name] - before[name]) / repeat for name in after}
    return Cost(
        each["frames_sent"],
        each["frames_received"],
        each["bytes_sent"],
        each["bytes_received"],
        processor / repeat,
        statistics.median(walls),
    )


def _settle_after(once: Callable[[], object], settle: Callable[[], object]) -> None:
    once()
    settle()


@contextlib.contextmanager
def agents(count: int, folder: Path) -> Generator[list[str]]:
    """Agents on this machine, and their addresses."""
    key = folder / "job.key"
    JobKey.make().save(key)
    command = [sys.executable, "-m", "danaus_cli", "worker", "--until-eof"]
    command += ["--address", "tcp://127.0.0.1:0", "--key", str(key), "--name"]
    started: list[subprocess.Popen[bytes]] = []
    addresses: list[str] = []
    try:
        while len(started) < count:
            batch = [
                subprocess.Popen(
                    [*command, f"host-{len(started) + i}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
                for i in range(min(TOGETHER, count - len(started)))
            ]
            started += batch
            for process in batch:
                assert process.stdout is not None
                addresses.append(json.loads(process.stdout.readline())["address"])
        yield addresses
    finally:
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
        for process in started:
            process.wait(60)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description="What many hosts cost the process that casts to them."
    )
    parser.add_argument("--hosts", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--fanouts", type=int, nargs="+", default=[16, FLAT])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    arguments = parser.parse_args(argv)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(
        "| hosts | fan-out | attach | spawn | what | frames out | in | bytes out | processor | all |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    found: list[Scale] = []
    for hosts in arguments.hosts:
        for scale in measure(hosts, arguments.fanouts, arguments.repeat):
            found.append(scale)
            for what in ("broadcast", "call"):
                cost: Cost = getattr(scale, what)
                fanout = "flat" if scale.fanout >= hosts else scale.fanout
                wall = "-" if what == "broadcast" else f"{cost.wall_s * 1e3:.1f} ms"
                print(
                    f"| {hosts} | {fanout} | {scale.attach_s:.2f} s | {scale.spawn_s:.2f} s "
                    f"| {what} | {cost.frames_sent:.1f} | {cost.frames_received:.1f} "
                    f"| {cost.bytes_sent:,.0f} | {cost.processor_s * 1e6:,.0f} us | {wall} |",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
