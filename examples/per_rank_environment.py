"""Environment by rank: variables, processors, set-up code and preloaded modules.

* `env` gives each process its variables before anything is imported there, which is what
  libraries that read them once need (CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS). A function is asked
  for each rank; a value of None removes a variable.
* `proc_bind` binds the processes of a host to processors (or memory nodes, by numactl).
* `preload` imports modules once a host; every process has them when it starts.
* `bootstrap` runs in each process before any actor does.

Processors can be bound on Linux.

Run it: python examples/per_rank_environment.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from danaus.actor import Actor, Point, endpoint, this_host

PROCS = 4


def environment(rank: Point) -> Mapping[str, str | None]:
    return {
        "CUDA_VISIBLE_DEVICES": str(rank["gpus"]),
        "OMP_NUM_THREADS": "1",
        "HOMEPAGE": None,
    }


def set_up() -> None:
    # For the whole process, so not in a global of this script: functions and classes of a script
    # travel by value, each with a copy of the globals that it uses.
    os.environ["CACHE"] = f"cache-of-{os.environ['CUDA_VISIBLE_DEVICES']}"


class Probe(Actor):
    """Says what its process was given."""

    @endpoint
    def look(self) -> str:
        device, threads = os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"]
        homepage = os.environ.get("HOMEPAGE", "no homepage")
        return f"GPU {device}, {threads} thread, {os.environ['CACHE']}, {homepage}"

    @endpoint
    def processors(self) -> list[int]:
        return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []

    @endpoint
    def has_loaded(self, module: str) -> bool:
        return module in sys.modules


def main() -> None:
    os.environ["HOMEPAGE"] = "https://example.org"
    processors = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    bind = [
        {"cpus": str(processors[i % len(processors)])} for i in range(PROCS if processors else 0)
    ]

    procs = this_host().spawn_procs(
        per_host={"gpus": PROCS},
        env=environment,
        proc_bind=bind or None,
        preload=["decimal"],
        bootstrap=set_up,
    )
    procs.initialized.get()  # raises here if the bootstrap failed somewhere
    probes = procs.spawn("probes", Probe)

    for point, text in probes.look.call().get():
        print(f"rank {point.rank}: {text}")
    bound = [len(found) for found in probes.processors.call().get().values()]
    print("processors of each rank:", bound)
    print("decimal was preloaded:", set(probes.has_loaded.call("decimal").get().values()))


if __name__ == "__main__":
    main()
