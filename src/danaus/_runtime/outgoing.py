"""A call that this process has made, and waits for."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["OutgoingCall"]


class OutgoingCall:
    """What an error text and the detection of cycles need to know of a call."""

    __slots__ = (
        "actor",
        "class_name",
        "combine",
        "mesh_name",
        "method",
        "port",
        "targets",
        "where",
    )

    def __init__(self, actor: str, mesh_name: str, class_name: str, method: str) -> None:
        self.actor = actor
        """Id of the actor mesh."""
        self.mesh_name = mesh_name
        self.class_name = class_name
        self.method = method
        self.port = -1
        """Port that the replies come to."""
        self.targets: Sequence[tuple[str, str, int]] = ()
        """(process, address of its agent, rank) of those that were called."""

        self.combine = b""
        """A pickled function with which replies are combined on their way; empty for none."""
        self.where: object = None
        """Equal for calls to the same processes, in the same order; None for one alone."""

    @property
    def endpoint(self) -> str:
        """``mesh.method``, for error texts."""
        return f"{self.mesh_name}.{self.method.lstrip('!')}"
