"""Bytes a second of a copy within one process: the bound of everything that moves bulk data."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main
from benchmarks.systems.interface import Unsupported

__all__ = ["SCENARIO"]

COPY_BYTES = 64 << 20


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the rate of each copy, in GB/s."""
    if system.name != "bare":
        raise Unsupported("memcpy is a limit of the machine; measure it with --system bare.")
    # Not zeros: untouched memory is all one page, which the cache holds.
    source, target = memoryview(b"\x5a" * COPY_BYTES), memoryview(bytearray(COPY_BYTES))
    target[:] = source
    for _ in range(options.repeat):
        began = time.perf_counter()
        target[:] = source
        yield COPY_BYTES / (time.perf_counter() - began) / 1e9


SCENARIO = Scenario(name="memcpy", unit="GB/s", measure=measure, repeat=20, start=False)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
