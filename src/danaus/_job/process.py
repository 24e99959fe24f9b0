"""Jobs on this machine: a process for each host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from danaus._job.holding import HeldHosts, end, start_hosts
from danaus._job.mesh_name import check_mesh_name
from danaus._job.state import JobState
from danaus._job.trait import JobTrait
from danaus._mesh.host_mesh import HostMesh
from danaus._proc.lease import HostSilent, greet
from danaus._proc.running import RunningHost
from danaus._shape import NDSlice, Shape

__all__ = ["ProcessJob"]

_ANSWER_PATIENCE = 10.0
"""Seconds for the hosts of a job in a state file to answer, before they count as lost.

An agent runs no user code and answers within milliseconds, unless the machine is choked.
"""

_LISTED = 4
"""Hosts that an error text names."""


class ProcessJob(JobTrait):
    """Hosts on this machine, as many as one likes: for development, tests, and one large machine.

    Each host is an agent with processes of its own below it, as on a cluster.

    Args:
        meshes: Number of hosts of each host mesh, by its name.
        env: Variables that are added to the environment of the hosts and of all that runs there.

    Attributes:
        meshes: As given.
        env: As given.
        machine: Name of the machine that it runs on, since its last boot.
        versions: Versions of Danaus and Python that its hosts run.

    Raises:
        ValueError: There is no mesh, or one has no host or a name that cannot be an attribute.
        TypeError: A name, a number or a variable has another type.

    Example:
        >>> job = ProcessJob({"trainers": 4, "loaders": 1})
        >>> hosts = job.state(cached_path=None)
        >>> trainers = hosts.trainers.spawn_procs(per_host={"procs": 2})
        >>> job.kill()
    """

    def __init__(self, meshes: Mapping[str, int], env: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.meshes = _checked_meshes(meshes)
        self.env = _checked_env(env or {})
        self.machine = _machine()
        self.versions = _versions()
        self._hosts: list[RunningHost] = []
        self._held: HeldHosts | None = None

    def can_run(self, spec: JobTrait) -> bool:
        """True if this job runs here, with the meshes and variables that ``spec`` asks for."""
        return self._unfit_for(spec) is None

    def _unfit_for(self, spec: JobTrait) -> str | None:
        if not self.active:
            return "it does not run"
        if not isinstance(spec, ProcessJob):
            return f"it is a {type(self).__name__}, and a {type(spec).__name__} is asked for"
        if self.machine != spec.machine:
            return f"it was started on {self.machine}, and this is {spec.machine}"
        return self._lost() or self._differs(spec)

    def _differs(self, spec: ProcessJob) -> str | None:
        """How this job is another one than is asked for."""
        if self.meshes != spec.meshes:
            return f"it has the hosts {self.meshes}, and {spec.meshes} are asked for"
        if self.env != spec.env:
            changed = {name for name, _ in self.env.items() ^ spec.env.items()}
            return f"other values of {', '.join(sorted(changed))} are asked for"
        if self.versions != spec.versions:
            return f"it runs {self.versions}, and this client {spec.versions}"
        return None

    def _lost(self) -> str | None:
        """What of the running job is gone; None when all hosts answer."""
        gone = [host.name for host in self._hosts if not host.is_running()]
        if gone:
            names = ", ".join(gone[:_LISTED]) + (", ..." if len(gone) > _LISTED else "")
            return f"{len(gone)} of its {len(self._hosts)} hosts are gone ({names})"
        try:
            answers = greet([host.address for host in self._hosts], _ANSWER_PATIENCE)
        except HostSilent as error:
            name = next(host.name for host in self._hosts if host.address == error.address)
            return f"host {name!r} does not answer: {error.why}"
        for host, answer in zip(self._hosts, answers, strict=True):
            if answer.pid != host.pid:
                return f"the socket of host {host.name!r} is another process's"
        return None

    def _create(self, client_script: str | None) -> None:
        if client_script is not None:
            raise RuntimeError(
                "ProcessJob cannot run batch-mode scripts; run the script itself, or use "
                "LocalJob().apply(client_script)"
            )
        self.machine, self.versions = _machine(), _versions()
        names = [f"{mesh}_{i}" for mesh, size in self.meshes.items() for i in range(size)]
        self._held = start_hosts(names, self.env)
        self._hosts = self._held.hosts

    def _keep(self) -> None:
        if self._held is not None:
            self._held.keep()
            self._held = None

    def _state(self) -> JobState:
        gone = [host.name for host in self._hosts if not host.is_running()]
        if gone:
            raise RuntimeError(
                f"lost connection to worker processes: {self._lost()}. Call kill() to end the job, "
                "then state() to start it anew."
            )
        hosts = iter(self._hosts)
        meshes = {
            name: _mesh([next(hosts) for _ in range(size)]) for name, size in self.meshes.items()
        }
        return JobState(meshes)

    def _kill(self) -> None:
        if self._held is not None:
            self._held.end()
            self._held = None
        else:
            end(self._hosts)
        self._hosts = []

    def _record(self) -> dict[str, Any]:
        return {
            "meshes": self.meshes,
            "env": self.env,
            "machine": self.machine,
            "versions": self.versions,
            "hosts": [[h.name, h.address, h.pid, h.started] for h in self._hosts],
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self.meshes = _checked_meshes(fields["meshes"])
        self.env = _checked_env(fields["env"])
        self.machine = str(fields["machine"])
        self.versions = str(fields["versions"])
        self._hosts = [
            RunningHost(str(name), str(address), int(pid), int(started))
            for name, address, pid, started in fields["hosts"]
        ]
        if self._hosts and len(self._hosts) != sum(self.meshes.values()):
            raise ValueError(f"{len(self._hosts)} hosts for meshes {self.meshes}")
        self._held = None

    def __repr__(self) -> str:
        return f"<ProcessJob {self.meshes} {'running' if self.active else 'not running'}>"


def _mesh(hosts: list[RunningHost]) -> HostMesh:
    return HostMesh(
        [(host.name, host.address) for host in hosts],
        Shape(["hosts"], NDSlice.new_row_major([len(hosts)])),
        end=partial(end, hosts),
    )


def _checked_meshes(meshes: Mapping[Any, Any]) -> dict[str, int]:
    if not meshes:
        raise ValueError("a ProcessJob needs at least one mesh of hosts, such as {'hosts': 1}")
    for name, size in meshes.items():
        if not isinstance(name, str) or not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"meshes map a name to a number of hosts, got {name!r}: {size!r}")
        check_mesh_name(name)
        if size < 1:
            raise ValueError(f"host mesh {name!r} needs at least 1 host, got {size}")
    return dict(meshes)


def _checked_env(env: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env maps names to text, got {name!r}: {type(value).__name__}")
    return dict(env)


def _versions() -> str:
    from danaus._proc.versions import versions

    return ", ".join(f"{name} {version}" for name, version in versions().items())


def _machine() -> str:
    """This machine since it was started: pids of another one mean nothing here."""
    name = os.uname().nodename
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{name} (boot {file.read().strip()[:8]})"
    except OSError:
        return name
