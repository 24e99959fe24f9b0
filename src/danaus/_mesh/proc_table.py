"""Which process each rank of a proc mesh is, and where it is reached."""

from __future__ import annotations

from typing import Any

from danaus._runtime.process import existing_runtime

__all__ = ["ProcTable"]


class ProcTable:
    """Processes by rank, shared by all meshes that were cut from one proc mesh.

    Attributes:
        mesh: Id of the proc mesh.
        procs: (process, address of its host's agent) of each rank. The address of this process
            itself may be empty; it is filled in when the table is sent to another.
        version: Grows when a rank is respawned.
    """

    __slots__ = ("mesh", "procs", "version")

    def __init__(self, mesh: str, procs: list[tuple[str, str]], version: int = 0) -> None:
        self.mesh = mesh
        self.procs = procs
        self.version = version

    def replace(self, rank: int, proc: str, address: str) -> None:
        """A rank is another process from now on, on the host whose agent has that address."""
        self.procs[rank] = (proc, address)
        self.version += 1

    def __reduce__(self) -> Any:
        me = existing_runtime()
        procs = self.procs
        if me is not None and (me.id, "") in procs:
            here = me.address_of(me.id, None)
            procs = [(p, here) if p == me.id else (p, address) for p, address in procs]
        return (ProcTable, (self.mesh, procs, self.version))
