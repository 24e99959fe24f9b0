"""The actors that a mesh refers to, as its endpoints see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from danaus._shape import NDSlice, Shape

if TYPE_CHECKING:
    from danaus._mesh.proc_table import ProcTable
    from danaus._runtime.outbox import Target

__all__ = ["ActorRef"]


class ActorRef:
    """Which actors, of which class, in which processes; what a mesh and its endpoints share.

    The attributes of an `ActorMesh` are the user's endpoints; so what Danaus must know of a mesh
    is here.

    Attributes:
        uid: Id of the mesh as it was spawned.
        name: Its name, as its owner gave it.
        cls: Class of the actors.
        table: Processes of the mesh as it was spawned.
        shape: Which ranks of it these are, and how they are arranged.
    """

    __slots__ = ("_extent", "_ranks", "_targets", "cls", "name", "shape", "table", "uid")

    def __init__(self, uid: str, name: str, cls: type, table: ProcTable, shape: Shape) -> None:
        self.uid = uid
        self.name = name
        self.cls = cls
        self.table = table
        self.shape = shape
        self._targets: tuple[int, list[Target]] | None = None
        self._ranks: list[int] | None = None
        self._extent: bytes | None = None

    def __repr__(self) -> str:
        return f"{self.name} of {self.class_name} {self.shape.extent}"

    @property
    def class_name(self) -> str:
        """Name of the class, for people."""
        return self.cls.__name__

    def reshaped(self, shape: Shape) -> ActorRef:
        """Other ranks of the same mesh, or the same in another arrangement."""
        return ActorRef(self.uid, self.name, self.cls, self.table, shape)

    def targets(self) -> list[Target]:
        """Each actor's (process, address, rank among these)."""
        cached = self._targets
        version = self.table.version
        if cached is not None and cached[0] == version:
            return cached[1]
        procs = self.table.procs
        targets = [(*procs[base], rank) for rank, base in enumerate(self.base_ranks())]
        self._targets = (version, targets)
        return targets

    def where(self) -> object:
        """Equal for the same processes in the same order."""
        table, ranks = self.table, self.shape.ndslice
        return table.mesh, table.version, ranks.offset, tuple(ranks.sizes), tuple(ranks.strides)

    def base_ranks(self) -> list[int]:
        """Ranks in the mesh as it was spawned."""
        if self._ranks is None:
            self._ranks = self.shape.ndslice.ranks()
        return self._ranks

    def encoded_extent(self) -> bytes:
        """Labels and sizes, as calls carry them; empty for a mesh without dimensions."""
        if self._extent is None:
            labels = list(self.shape.labels)
            sizes = list(self.shape.ndslice.sizes)
            self._extent = msgspec.msgpack.encode((labels, sizes)) if labels else b""
        return self._extent

    def reply_shape(self) -> Shape:
        """The shape that replies come in: the same dimensions, ranks from 0."""
        return Shape(self.shape.labels, NDSlice.new_row_major(self.shape.ndslice.sizes))
