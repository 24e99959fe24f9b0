"""The adapter of Danaus."""

from __future__ import annotations

from benchmarks.actors.danaus import Probe
from benchmarks.systems.meshes import MeshSystem
from danaus import actor

__all__ = ["SYSTEM"]

SYSTEM = MeshSystem("danaus", "danaus", actor, Probe)
