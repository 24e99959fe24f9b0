"""Seconds of a first program: interpreter, import, processes (``--procs``), first call answered.

This is what a user waits for who runs his script again and again. The cold start is in it, shutdown
is not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main
from benchmarks.systems import load_system

__all__ = ["SCENARIO", "run_program"]

PROGRAM = "from benchmarks.first_program import run_program; run_program({!r}, {})"
ANSWERED = "answered"


def run_program(name: str, procs: int) -> None:
    """Do what the first program does, and say when the first call is answered."""
    system = load_system(name)
    system.start()
    with system.spawn(procs) as actors:
        actors.call_all(0)
        print(ANSWERED, flush=True)
    system.stop()


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each program."""
    for _ in range(options.repeat):
        yield _seconds(system.name, options.procs)


def _seconds(name: str, procs: int) -> float:
    command = [sys.executable, "-c", PROGRAM.format(name, procs)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        lines = program.stdout or ()
        if not any(line.strip() == ANSWERED for line in lines):
            raise RuntimeError(f"the first program on {name!r} ended without an answer.")
        elapsed = time.perf_counter() - began
        for _ in lines:
            pass
    return elapsed


SCENARIO = Scenario(name="first_program", unit="s", measure=measure, repeat=2, procs=8, start=False)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
