"""Controllers: actors of which a job has one, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from danaus._mesh.actor import Actor

if TYPE_CHECKING:
    from danaus._runtime.future import Future

__all__ = ["get_or_spawn_controller"]

TActor = TypeVar("TActor", bound=Actor)


def get_or_spawn_controller(
    name: str,
    Class: type[TActor],  # noqa: N803  # compatible
    *args: Any,
    **kwargs: Any,
) -> Future[TActor]:
    """The controller of that name; made in the client's process when it does not exist.

    Concurrent first calls construct it once. Any actor of the job may call it.
    """
    raise NotImplementedError
