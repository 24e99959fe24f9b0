"""Seconds from SIGKILL of a process to the exception of the call that its actor was working on."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from benchmarks.scenario import Options, Scenario, System, main

__all__ = ["SCENARIO"]

ENTRY_TIMEOUT_S = 10.0


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each death."""
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.repeat):
            yield _kill_one(system, Path(folder, f"entered-{index}"))


def _kill_one(system: System, entered: Path) -> float:
    actors = system.spawn(1)
    (pid,) = actors.pids()
    wait = actors.block(str(entered))
    _wait_for(entered)
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    try:
        wait()
    except Exception:  # noqa: BLE001 - each system has its own type for it
        return time.perf_counter() - began
    raise RuntimeError("the call of a killed process returned a value.")


def _wait_for(entered: Path) -> None:
    deadline = time.monotonic() + ENTRY_TIMEOUT_S
    while not entered.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the call did not begin within {ENTRY_TIMEOUT_S} s.")
        time.sleep(0.01)


SCENARIO = Scenario(name="kill_proc", unit="s", measure=measure, repeat=3)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
