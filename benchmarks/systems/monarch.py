"""The adapter of Monarch."""

from __future__ import annotations

from monarch import actor

from benchmarks.actors.monarch import Probe
from benchmarks.systems.meshes import MeshSystem

__all__ = ["SYSTEM"]

SYSTEM = MeshSystem("monarch", "torchmonarch", actor, Probe)
