"""Seconds until a thousand processes (``--procs``) are alive at the same time and have answered.

Each answers with the id of its process; the run fails unless all ids differ and all processes are
there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main
from benchmarks.systems.interface import Unsupported

__all__ = ["SCENARIO"]

# A peer needs 40 MB and a tenth of a second of processor time for each process, and more.
CAPABLE = ("danaus", "bare")


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each start."""
    if system.name not in CAPABLE:
        raise Unsupported(f"{system.name} is not asked for {options.procs} processes here.")
    for _ in range(options.repeat):
        began = time.perf_counter()
        with system.spawn(options.procs) as actors:
            pids = actors.pids()
            elapsed = time.perf_counter() - began
            _check_alive(pids, options.procs)
            yield elapsed


def _check_alive(pids: list[int], expected: int) -> None:
    if len(set(pids)) != expected:
        raise RuntimeError(f"{len(set(pids))} different processes answered; expected {expected}.")
    for pid in pids:
        os.kill(pid, 0)


SCENARIO = Scenario(name="many_procs", unit="s", measure=measure, repeat=1, procs=1000)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
