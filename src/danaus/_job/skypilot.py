"""Jobs on clusters that SkyPilot provisions, in whatever cloud: a worker on each node."""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from danaus import _config
from danaus._job.mesh_name import check_mesh_name, check_node_count
from danaus._job.remote import RemoteJob, worker_command
from danaus._job.skypilot_calls import SkyPilot
from danaus._net.address import tcp_address

if TYPE_CHECKING:
    from danaus._net.job_key import JobKey

__all__ = ["SkyPilotJob"]

_PAUSE = 0.5
"""Seconds between two looks whether the workers listen."""

_CONNECT_PATIENCE = 3.0
"""Seconds for a node to take a connection."""

_SHOWN = 2000
"""Characters of what a worker wrote that an error text has."""


class SkyPilotJob(RemoteJob):
    """Hosts that are nodes of a cluster that SkyPilot launches, all meshes in one cluster.

    Args:
        meshes: Number of nodes of each host mesh, by its name; nodes are given out in order.
        resources: What each node is: a ``sky.Resources``, or what stands under ``resources`` in
            SkyPilot's YAML files. The workers' port is added to it.
        cluster_name: Name of the cluster; by default a new one for each run of the job. A cluster
            of that name that is up is used, and deleted by `kill` nevertheless.
        danaus_port: Port of the workers, which the cloud opens on each node.
        idle_minutes_to_autostop: Minutes without a task, after the workers have ended, until the
            cluster stops by itself.
        down_on_autostop: Whether it is then deleted, instead of stopped.
        python_exe: The interpreter on the nodes; Danaus must be installed in it.
        setup_commands: Shell commands that prepare a node, such as the installation of Danaus.
        workdir: Folder that is copied to the nodes, and in which the workers run.
        file_mounts: Files and folders of this machine that are copied to the nodes, by their path
            there.
        internal_ips: Whether nodes are reached by their addresses in the cluster's own network,
            for a client that is in it, too.

    Raises:
        ValueError: A mesh has no node, or a name that cannot be one.

    Example:
        >>> job = SkyPilotJob(
        ...     {"trainers": 4},
        ...     resources={"infra": "aws", "accelerators": "A100:8"},
        ...     setup_commands=["pip install danaus"],
        ... )
        >>> trainers = job.state().trainers
    """

    def __init__(  # noqa: PLR0913, PLR0917  # compatible, and what SkyPilot has
        self,
        meshes: Mapping[str, int] | None = None,
        resources: Any = None,
        cluster_name: str | None = None,
        danaus_port: int = 22222,
        idle_minutes_to_autostop: int | None = None,
        down_on_autostop: bool = True,  # noqa: FBT001, FBT002  # compatible
        python_exe: str = "python3",
        setup_commands: Sequence[str] | str = (),
        workdir: str | os.PathLike[str] | None = None,
        file_mounts: Mapping[str, str] | None = None,
        *,
        internal_ips: bool = False,
    ) -> None:
        super().__init__()
        # What is asked for: public, and as JSON has it.
        self.meshes: dict[str, int] = {}
        self.resources = _as_config(resources)
        self.cluster_name = cluster_name
        self.danaus_port = danaus_port
        self.idle_minutes_to_autostop = idle_minutes_to_autostop
        self.down_on_autostop = down_on_autostop
        self.python_exe = python_exe
        commands = [setup_commands] if isinstance(setup_commands, str) else setup_commands
        self.setup_commands = list(commands)
        self.workdir = None if workdir is None else os.path.abspath(workdir)
        self.file_mounts = dict(file_mounts or {})
        self.internal_ips = internal_ips
        for name, nodes in (meshes or {}).items():
            self.add_mesh(name, nodes)

    def add_mesh(self, name: str, num_nodes: int) -> None:
        """Have a mesh of so many nodes, beside the others.

        Raises:
            TypeError: The number is none.
            ValueError: The name cannot be one, or is taken, or there is no node.
        """
        check_mesh_name(name, list(self.meshes))
        self.meshes[name] = check_node_count(name, num_nodes)

    @property
    def cluster(self) -> str:
        """SkyPilot's name of the running cluster; empty when there is none."""
        return str(self._ticket.get("cluster", ""))

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, of all nodes together."""
        if not self.cluster:
            return {}
        return {self.cluster: self._sky().logs(self.cluster, self._ticket.get("number"))}

    def task_config(self, key: JobKey) -> dict[str, Any]:
        """The task that starts the workers, as in SkyPilot's YAML files."""
        names = [f"{mesh}_{i}" for mesh, nodes in self.meshes.items() for i in range(nodes)]
        worker = worker_command(self.python_exe, address=f"tcp://*:{self.danaus_port}", key="")
        given: Any = self.resources.get("ports") or []
        many = cast("list[object]", given if isinstance(given, list | tuple) else [given])
        ports = [str(port) for port in many]
        ports = list(dict.fromkeys([*ports, str(self.danaus_port)]))
        config: dict[str, Any] = {
            "name": "danaus",
            "num_nodes": len(names),
            "resources": {**self.resources, "ports": ports},
            # A secret: SkyPilot shows it nowhere, and sets it for the task's run only.
            "secrets": {"DANAUS_JOB_KEY": key.pem},
            "run": (
                f"names=({shlex.join(names)})\n"
                f'exec {shlex.join(worker)} --name "${{names[$SKYPILOT_NODE_RANK]}}"\n'
            ),
        }
        if self.setup_commands:
            config["setup"] = "\n".join(["set -e", *self.setup_commands])
        if self.workdir is not None:
            config["workdir"] = self.workdir
        if self.file_mounts:
            config["file_mounts"] = self.file_mounts
        return config

    # the life of a job

    def _sky(self) -> SkyPilot:
        return SkyPilot()

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        if not self.meshes:
            raise RuntimeError("a SkyPilotJob needs nodes: call add_mesh(name, num_nodes) first")
        if self.workdir is not None and not os.path.isdir(self.workdir):
            raise RuntimeError(f"there is no folder {self.workdir} (workdir)")
        sky = self._sky()
        cluster = self.cluster_name or f"danaus-{(self.apply_id or 'job')[:8]}"
        self._ticket["cluster"] = cluster
        self._ticket["number"] = sky.launch(
            self.task_config(key),
            cluster,
            idle_minutes=self.idle_minutes_to_autostop,
            down=self.down_on_autostop,
        )
        nodes = sky.addresses(cluster)
        wanted = sum(self.meshes.values())
        if len(nodes) < wanted:
            raise RuntimeError(
                f"cluster {cluster!r} has {len(nodes)} nodes, and {wanted} are needed; it is "
                "deleted"
            )
        places = [internal if self.internal_ips else external for internal, external in nodes]
        self._wait_until_listening(sky, places[:wanted])
        found = iter(tcp_address(place, self.danaus_port) for place in places)
        return {mesh: [next(found) for _ in range(n)] for mesh, n in self.meshes.items()}

    def _wait_until_listening(self, sky: SkyPilot, places: Sequence[str]) -> None:
        """Wait until every node takes connections; the task may still be starting."""
        cluster, number = self.cluster, self._ticket["number"]
        patience: float = _config.get("host_spawn_ready_timeout")
        deadline = time.monotonic() + patience
        waiting = list(places)
        while waiting := [place for place in waiting if not _listens(place, self.danaus_port)]:
            if sky.has_ended(cluster, number):
                raise RuntimeError(
                    f"the workers of cluster {cluster!r} ended as they started{self._words(sky)}"
                )
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(waiting)} of {len(places)} nodes of cluster {cluster!r} cannot be "
                    f"reached at port {self.danaus_port} within {patience:g} s "
                    f"(host_spawn_ready_timeout): {', '.join(waiting[:4])}. Do the cloud's "
                    f"firewall and this network let it through?{self._words(sky)}"
                )
            time.sleep(_PAUSE)

    def _words(self, sky: SkyPilot) -> str:
        try:
            words = sky.logs(self.cluster, self._ticket["number"]).strip()
        except Exception as error:  # noqa: BLE001  # it is only to explain another failure
            words = f"(SkyPilot has no logs of it: {error})"
        return f": {words[-_SHOWN:]}" if words else ""

    def _lost(self) -> str | None:
        state = self._sky().state(self.cluster) if self.cluster else "gone"
        if state != "UP":
            return f"SkyPilot's cluster {self.cluster!r} is {state}"
        return super()._lost()

    def _end(self) -> None:
        if self.cluster:
            self._sky().down(self.cluster)


def _as_config(resources: Any) -> dict[str, Any]:
    """What stands under ``resources`` in SkyPilot's YAML files."""
    if resources is None:
        return {}
    if hasattr(resources, "to_yaml_config"):
        resources = resources.to_yaml_config()
    if not isinstance(resources, Mapping):
        raise TypeError(f"resources are a sky.Resources or a mapping, got {resources!r}")
    return dict(resources)  # type: ignore[arg-type]  # its names are text


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _CONNECT_PATIENCE):
            return True
    except OSError:
        return False
