"""Seconds of one call with an argument of 64 MiB to the actors of several processes (``--procs``).

Each actor reads one byte of every page and returns their sum, so that all memory has really to
be there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.actors.payload import make_payload, sum_of_pages
from benchmarks.scenario import Options, Scenario, System, main

__all__ = ["SCENARIO"]

PAYLOAD_BYTES = 64 << 20
WARM_UP_BYTES = 1 << 20


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each call."""
    payload = make_payload(PAYLOAD_BYTES, options.payload)
    expected = [sum_of_pages(payload)] * options.procs
    with system.spawn(options.procs) as actors:
        # Brings in what the receiver imports to rebuild the argument.
        actors.sample_all(make_payload(WARM_UP_BYTES, options.payload))
        for _ in range(options.repeat):
            began = time.perf_counter()
            sums = actors.sample_all(payload)
            elapsed = time.perf_counter() - began
            if sums != expected:
                raise RuntimeError(f"the argument arrived altered: sums {sums[:3]}…")
            yield elapsed


SCENARIO = Scenario(name="big_argument", unit="s", measure=measure, repeat=3, procs=32)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
