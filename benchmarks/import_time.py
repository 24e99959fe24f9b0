"""Seconds that a fresh interpreter needs for the import with which a user's script begins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main
from benchmarks.systems.interface import Unsupported

__all__ = ["SCENARIO"]

PROGRAM = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"
IMPORT_TIMEOUT_S = 60


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each import; compiled files are in place before the first that counts."""
    if system.import_name is None:
        raise Unsupported(f"{system.name} is nothing that one imports.")
    command = [sys.executable, "-c", PROGRAM.format(system.import_name)]
    _seconds(command)
    for _ in range(options.repeat):
        yield _seconds(command)


def _seconds(command: list[str]) -> float:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=IMPORT_TIMEOUT_S
    )
    return float(done.stdout)


SCENARIO = Scenario(name="import_time", unit="s", measure=measure, repeat=10, start=False)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
