"""Calls a second to one actor when none waits for the one before, until all replies are in."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main, warm_up

__all__ = ["SCENARIO"]

BATCH_CALLS = 5_000


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the rate of each batch."""
    with system.spawn(1) as actors:
        warm_up(actors)
        actors.pipeline(BATCH_CALLS // 5)
        for _ in range(options.repeat):
            began = time.perf_counter()
            actors.pipeline(BATCH_CALLS)
            yield BATCH_CALLS / (time.perf_counter() - began)


SCENARIO = Scenario(name="pipelined", unit="/s", measure=measure, repeat=5)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
