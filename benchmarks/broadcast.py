"""Messages a second that one actor handles when they ask for no reply.

The clock stops when the actor says that it has handled all, not when the sender has handed over
the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main, warm_up

__all__ = ["SCENARIO"]

BATCH_MESSAGES = 10_000


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the rate of each batch."""
    with system.spawn(1) as actors:
        warm_up(actors)
        expected = 0
        for _ in range(options.repeat):
            expected += BATCH_MESSAGES
            began = time.perf_counter()
            actors.broadcast(BATCH_MESSAGES)
            # Where order is promised the first answer is the final one.
            while actors.noted() < expected:
                pass
            yield BATCH_MESSAGES / (time.perf_counter() - began)


SCENARIO = Scenario(name="broadcast", unit="/s", measure=measure, repeat=5)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
