"""Danaus inside of programs that start many times at once: by torchrun, mpirun or srun.

Example:
    >>> from danaus.spmd import host_mesh_from_store
    >>> hosts = host_mesh_from_store(store)  # on every rank
    >>> if hosts is not None:  # rank 0
    ...     workers = hosts.spawn_procs(per_host={"gpus": 8}).spawn("workers", Worker)
"""

from __future__ import annotations

from danaus._job.ranks import Ranks, rank_by_launcher
from danaus._job.spmd import Store, host_mesh_from_reports, host_mesh_from_store

__all__ = [
    "Ranks",
    "Store",
    "host_mesh_from_reports",
    "host_mesh_from_store",
    "rank_by_launcher",
]
