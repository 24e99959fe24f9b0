"""The hosts of a running job, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from danaus._mesh.host_mesh import HostMesh

__all__ = ["JobState"]


class JobState:
    """The host meshes of a job; each is an attribute.

    Example:
        >>> hosts = job.state()
        >>> hosts.trainers.spawn_procs(per_host={"gpus": 8})
    """

    _hosts: dict[str, HostMesh]

    def __init__(self, hosts: Mapping[str, HostMesh]) -> None:
        self._hosts = dict(hosts)

    def __getattr__(self, name: str) -> HostMesh:
        hosts: dict[str, HostMesh] = self.__dict__.get("_hosts", {})
        try:
            return hosts[name]
        except KeyError:
            raise AttributeError(
                f"{name!r} is not a valid host mesh name. Available names: {', '.join(hosts)}"
            ) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._hosts]

    def __repr__(self) -> str:
        hosts = ", ".join(f"{name} {mesh!r}" for name, mesh in self._hosts.items())
        return f"<JobState {hosts}>"
