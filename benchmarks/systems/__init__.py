"""One adapter a system, all with the interface of `benchmarks.systems.interface`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.systems.interface import System

__all__ = ["SYSTEM_NAMES", "load_system"]

# `bare` is no actor system: sockets and fork with next to nothing above, the floor of each row.
SYSTEM_NAMES = ("danaus", "monarch", "ray", "xoscar", "bare")


def load_system(name: str) -> System:
    """Import the adapter of a system; ImportError when the system is not in this environment."""
    adapter = importlib.import_module(f"benchmarks.systems.{name}")
    system: System = adapter.SYSTEM
    return system
