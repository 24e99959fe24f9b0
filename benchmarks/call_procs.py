"""One call to the actors of several processes (``--procs``), until the replies of all are in."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main

__all__ = ["SCENARIO"]

WARM_UP_CALLS = 20


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each call."""
    with system.spawn(options.procs) as actors:
        for value in range(WARM_UP_CALLS):
            actors.call_all(value)
        for value in range(options.repeat):
            began = time.perf_counter()
            actors.call_all(value)
            yield time.perf_counter() - began


SCENARIO = Scenario(name="call_procs", unit="s", measure=measure, repeat=300, procs=8)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
