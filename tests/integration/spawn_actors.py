"""Actors for the tests of spawning."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from danaus.actor import Actor, context, endpoint

booted: list[str] = []
"""What bootstrap functions of this process have left."""


class Inspector(Actor):
    """Tells about its process."""

    @endpoint
    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    @endpoint
    def interpreter(self) -> tuple[str, list[str], str]:
        return sys.executable, sys.path, str(Path.cwd())

    @endpoint
    def processors(self) -> list[int]:
        return sorted(os.sched_getaffinity(0))

    @endpoint
    def modules(self) -> list[str]:
        return sorted(sys.modules)

    @endpoint
    def place(self) -> tuple[int, int, dict[str, int]]:
        rank = context().actor_instance.rank
        return os.getpid(), rank.rank, dict(rank)

    @endpoint
    def booted(self) -> list[str]:
        return booted

    @endpoint
    def command_line(self) -> list[str]:
        with open("/proc/self/cmdline") as file:  # noqa: PTH123  # it is no path of a disk
            return file.read().split("\0")

    @endpoint
    def evaluate(self, function: Any) -> Any:
        return function()


def boot() -> None:
    """A bootstrap function."""
    booted.append(f"rank {os.environ.get('RANK', '?')}")


async def boot_later() -> None:
    """An async one."""
    booted.append("async")


def fail_to_boot() -> None:
    """One that raises."""
    raise LookupError("no such device")
