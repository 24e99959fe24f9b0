"""May a call on this slice of a mesh go ahead, or which failure stands in its way?"""

from __future__ import annotations

from collections.abc import Container
from typing import Generic, TypeVar

__all__ = ["MeshHealth"]

T_Failure = TypeVar("T_Failure")


class MeshHealth(Generic[T_Failure]):
    """Which ranks of one mesh have failed, and of what: the first failure of each counts.

    Everyone who holds a reference to the mesh may keep one: a call asks it, on a slice, whether it
    must fail at once. Ranks are those of the mesh as it was spawned, whatever the slice.

    Example:
        >>> health: MeshHealth[str] = MeshHealth()
        >>> health.fail(2, "killed by SIGKILL"), health.fail(2, "its actor is gone")
        (True, False)
        >>> health.failure_of(range(2)), health.failure_of(range(4))
        (None, 'killed by SIGKILL')
    """

    __slots__ = ("_failed", "stopped")

    def __init__(self) -> None:
        self._failed: dict[int, T_Failure] = {}
        self.stopped: T_Failure | None = None
        """The news that the mesh was stopped; None while it runs."""

    @property
    def healthy(self) -> bool:
        """Whether every call may go ahead."""
        return self.stopped is None and not self._failed

    def fail(self, rank: int, failure: T_Failure) -> bool:
        """Note a failure; return whether it is the first of this rank."""
        if rank in self._failed:
            return False
        self._failed[rank] = failure
        return True

    def stop(self, failure: T_Failure) -> None:
        """Note that the mesh was stopped. It never runs again."""
        if self.stopped is None:
            self.stopped = failure

    def respawn(self, rank: int) -> None:
        """Note that a failed rank runs again."""
        self._failed.pop(rank, None)

    def failure_of(self, ranks: Container[int] | None = None) -> T_Failure | None:
        """Return why a call on ``ranks`` (None: on all) must fail at once, or None if it may go.

        A failed rank comes before the stop of the mesh, the lowest rank first: the cause before
        its consequence. Cost: nothing while the mesh is healthy, else the number of failed ranks.
        """
        for rank in sorted(self._failed):
            if ranks is None or rank in ranks:
                return self._failed[rank]
        return self.stopped

    def failed_ranks(self) -> dict[int, T_Failure]:
        """Return each failed rank with its failure, in ascending order."""
        return dict(sorted(self._failed.items()))
