"""A mesh that an actor of this process owns, as the books of supervision hold it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from danaus._runtime.context import actor_title

if TYPE_CHECKING:
    from danaus._runtime.future import Future

__all__ = ["OwnedMesh", "Place"]

Place = tuple[str, str]
"""(proc, address of its agent)."""


class OwnedMesh:
    """Where each rank of an owned mesh lives, and whether it is being stopped."""

    def __init__(  # noqa: PLR0913  # its fields
        self,
        uid: str,
        name: str,
        owner_actor: str,
        targets: Sequence[tuple[str, str]],
        *,
        class_path: str = "",
        on: str = "",
        path: str = "<root>",
        dims: tuple[Sequence[str], Sequence[int]] = ((), ()),
    ) -> None:
        self.uid = uid
        self.name = name
        self.class_path = class_path
        """Module and name of the class of its actors; empty for a mesh of procs."""
        self.path = path
        """The owner's place in the tree of owners, for people."""
        self.dims = dims
        """Labels and sizes."""
        self.owner_actor = owner_actor
        self.targets = list(targets)
        """(proc, address of its agent) of each rank."""
        self.on = on
        """Id of the proc mesh that its actors live on; empty for a mesh of procs."""
        self.stopping = False
        self.stop_future: Future[None] | None = None
        self.table: Any = None
        """Table of processes that the references to it share."""
        self.birth: tuple[Any, dict[str, Any]] = ((), {})
        """What its actors were made from, for respawns: parts, and what is said beside them."""
        self._ranks: dict[str, list[int]] = {}
        self._living: set[str] = set()
        self._when_gone: Callable[[], None] | None = None
        for rank, (proc, _) in enumerate(self.targets):
            self._ranks.setdefault(proc, []).append(rank)
            self._living.add(proc)

    @property
    def is_actors(self) -> bool:
        """True for a mesh of actors, False for one of procs."""
        return bool(self.class_path)

    @property
    def class_name(self) -> str:
        """Class of its actors; empty for a mesh of procs."""
        return self.class_path.rpartition(".")[2]

    def title(self, rank: int) -> str:
        """One of its actors, for people; empty for a proc."""
        if not self.class_path:
            return ""
        return actor_title(self.path, self.class_path, self.name, rank, self.dims)

    def has(self, proc: str) -> bool:
        """True when a rank lives in that process."""
        return proc in self._ranks

    def ranks_of(self, proc: str) -> list[int]:
        """The ranks that live in that process."""
        return self._ranks.get(proc, [])

    def gone(self, proc: str) -> None:
        """That process has ended."""
        self._living.discard(proc)
        self._look()

    def when_gone(self, call: Callable[[], None], dead: Container[str]) -> None:
        """Call back once all of its processes have ended."""
        self._living = {proc for proc in self._living if proc not in dead}
        self._when_gone = call
        self._look()

    def _look(self) -> None:
        if not self._living and self._when_gone is not None:
            call, self._when_gone = self._when_gone, None
            call()

    def replace(self, rank: int, proc: str, address: str) -> None:
        """A rank lives in another process from now on."""
        old, _ = self.targets[rank]
        self.targets[rank] = (proc, address)
        self._ranks[old].remove(rank)
        self._living.discard(old)
        self._ranks.setdefault(proc, []).append(rank)
        self._living.add(proc)
