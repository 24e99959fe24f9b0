"""Seconds from asking for processes (``--procs``) until their actors have answered the first call.

The system is up and has started one process before; each sample starts new processes and stops
them, the latter off the clock. See `first_program` for what a cold start adds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main

__all__ = ["SCENARIO"]


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each start."""
    with system.spawn(1) as actors:
        actors.call_all(0)
    for _ in range(options.repeat):
        began = time.perf_counter()
        with system.spawn(options.procs) as actors:
            actors.call_all(0)
            yield time.perf_counter() - began


SCENARIO = Scenario(name="spawn_procs", unit="s", measure=measure, repeat=3, procs=8)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
