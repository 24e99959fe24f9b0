"""Jobs on a Ray cluster that is there already: a worker on each of the nodes that Ray gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._job.mesh_name import check_mesh_name
from danaus._job.ray_nodes import shortage
from danaus._job.remote import RemoteJob, log_folder
from danaus._mesh.workers import attach
from danaus.errors import MissingExtra

if TYPE_CHECKING:
    from danaus._job.state import JobState
    from danaus._net.job_key import JobKey

__all__ = ["RayJob"]

_STRATEGIES = ("STRICT_SPREAD", "SPREAD", "PACK", "STRICT_PACK")

_PROGRAM = os.path.join(os.path.dirname(__file__), "ray_driver.py")

_SHOWN = 2000
"""Characters of what Ray wrote that an error text has."""

_AUTH_HINT = "; the cluster asks for its token: set RAY_AUTH_MODE=token"

_PATIENCE = 30.0
"""Seconds for the program that speaks to Ray to end."""


class RayJob(RemoteJob):
    """Hosts on the nodes of a Ray cluster: one actor of Ray for each, in a placement group.

    The actors only start the hosts and hold their resources; what runs on the hosts is no part of
    Ray. Danaus must be installed on the nodes, or be brought there by ``runtime_env``.

    Args:
        meshes: Number of hosts of each host mesh, by its name; hosts are given out in order.
        resources: What each host needs, by Ray's names: ``{"CPU": 8, "GPU": 4, "tpu-pod": 1}``.
        address: Of the cluster, as ``ray.init`` takes it; "auto" is the one that this machine is a
            node of, or that RAY_ADDRESS names.
        strategy: How Ray places the hosts. With STRICT_SPREAD each has a node of its own, with
            SPREAD if that can be; PACK and STRICT_PACK put them together.
        python_exe: The interpreter on the nodes; by default that of Ray's workers there.
        danaus_port: Port of the hosts; 0: any free one. Hosts on one node cannot share a port.
        runtime_env: Ray's environment for the actors, as JSON has it.
        start_timeout: Seconds that the hosts may wait for their place; None for any time.
        wait_for_nodes: Whether a cluster without the nodes or resources is waited for, because it
            grows by itself, instead of refused at once.
        attach_to: Address through which all hosts are reached, for a client that cannot reach the
            nodes.

    Raises:
        ValueError: A mesh has no host, or a name that cannot be one; there is no such strategy, or
            a resource is not positive.

    Example:
        >>> job = RayJob({"trainers": 4}, resources={"CPU": 8, "GPU": 8})
        >>> trainers = job.state().trainers
    """

    def __init__(  # noqa: PLR0913  # one for each thing that Ray must know
        self,
        meshes: Mapping[str, int] | None = None,
        *,
        resources: Mapping[str, float] | None = None,
        address: str = "auto",
        strategy: str = "STRICT_SPREAD",
        python_exe: str | None = None,
        danaus_port: int = 0,
        runtime_env: Mapping[str, Any] | None = None,
        start_timeout: float | None = 60.0,
        wait_for_nodes: bool = False,
        attach_to: str | None = None,
    ) -> None:
        super().__init__()
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy is one of {', '.join(_STRATEGIES)}, got {strategy!r}")
        self.resources = _checked(resources or {"CPU": 1.0})
        self.address = address
        self.strategy = strategy
        self.python_exe = python_exe
        self.port = danaus_port
        self.runtime_env = dict(runtime_env or {})
        self.start_timeout = start_timeout
        self.wait_for_nodes = wait_for_nodes
        self.attach_to = attach_to
        self._meshes: dict[str, tuple[int, dict[str, float]]] = {}
        self._cluster = ""
        self._auth = ""
        self._group = ""
        self._driver: _Driver | None = None
        for name, hosts in (meshes or {}).items():
            self.add_mesh(name, hosts)

    def add_mesh(
        self, name: str, num_hosts: int, resources: Mapping[str, float] | None = None
    ) -> None:
        """Have a mesh of so many hosts, beside the others.

        Args:
            name: Its name.
            num_hosts: How many.
            resources: What each of them needs; by default what the job says.

        Raises:
            TypeError: The number is none.
            ValueError: The name cannot be one, or is taken; there is no host, or a resource is not
                positive.
        """
        check_mesh_name(name, list(self._meshes))
        if not isinstance(num_hosts, int) or isinstance(num_hosts, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
            raise TypeError(f"host mesh {name!r} needs a number of hosts, got {num_hosts!r}")
        if num_hosts < 1:
            raise ValueError(f"host mesh {name!r} needs at least 1 host, got {num_hosts}")
        self._meshes[name] = (num_hosts, _checked(resources or self.resources))

    # what is written down

    def _wish(self) -> dict[str, Any]:
        return {
            # Lists, as they come back from JSON.
            "meshes": {name: [hosts, needs] for name, (hosts, needs) in self._meshes.items()},
            "address": self.address,
            "strategy": self.strategy,
            "python_exe": self.python_exe,
            "port": self.port,
            "runtime_env": self.runtime_env,
        }

    def _record(self) -> dict[str, Any]:
        more = {
            "cluster": self._cluster,
            "auth": self._auth,
            "group": self._group,
            "attach_to": self.attach_to,
        }
        return {**super()._record(), **more}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        wish = fields["wish"]
        RayJob.__init__(
            self,
            address=str(wish["address"]),
            strategy=str(wish["strategy"]),
            python_exe=wish["python_exe"],
            danaus_port=int(wish["port"]),
            runtime_env=wish["runtime_env"],
            attach_to=fields["attach_to"],
        )
        for name, (hosts, needs) in wish["meshes"].items():
            self.add_mesh(str(name), int(hosts), needs)
        self._cluster = str(fields["cluster"])
        self._auth = str(fields["auth"])
        self._group = str(fields["group"])
        super()._restore(fields)

    # the life of a job

    def _hosts(self) -> list[str]:
        return [f"{mesh}_{i}" for mesh, (size, _) in self._meshes.items() for i in range(size)]

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        if not self._meshes:
            raise RuntimeError("a RayJob needs hosts: call add_mesh(name, num_hosts) first")
        self._group = f"danaus-{self.apply_id}"
        self._cluster, self._auth = self.address, ""
        bundles = [needs for hosts, needs in self._meshes.values() for _ in range(hosts)]
        driver = self._driver = self._start_driver(
            "place",
            bundles=bundles,
            strategy=self.strategy,
            python_exe=self.python_exe or "",
            port=self.port,
            runtime_env=self.runtime_env,
            start_timeout=self.start_timeout,
            patience=_config.get("host_spawn_ready_timeout"),
            key=key.pem,
        )
        nodes = driver.answer()["nodes"]
        lack = shortage(nodes, bundles, spread=self.strategy == "STRICT_SPREAD")
        if lack and not self.wait_for_nodes:
            raise RuntimeError(f"the Ray cluster cannot have the hosts of this job: {lack}")
        driver.tell("place")
        answer = driver.answer()
        self._cluster = str(answer["address"])
        self._auth = str(answer["auth"])
        found = iter(answer["workers"])
        return {
            mesh: [str(next(found)) for _ in range(hosts)]
            for mesh, (hosts, _) in self._meshes.items()
        }

    def _start_driver(self, deed: str, **more: Any) -> _Driver:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "ray")
        spec = {"address": self._cluster, "group": self._group, "hosts": self._hosts(), **more}
        log = os.path.join(log_folder(self.apply_id), f"ray.{deed}.log")
        return _Driver(deed, spec, log, {"RAY_AUTH_MODE": self._auth} if self._auth else {})

    def _ask(self, deed: str) -> Mapping[str, Any]:
        driver = self._start_driver(deed)
        try:
            return driver.answer()
        finally:
            driver.end()

    def _keep(self) -> None:
        """Let the hosts outlive this client."""
        if self._driver is not None:
            self._driver.keep()
            self._driver = None

    def _state(self) -> JobState:
        self._open_gateway()
        return super()._state()

    def _lost(self) -> str | None:
        self._open_gateway()
        return super()._lost()

    def _open_gateway(self) -> None:
        if self.attach_to is not None:
            attach(self.attach_to, key=self._key)

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, by host."""
        if self._running() is not self:
            return self._running().logs()  # type: ignore[attr-defined]  # a job of this class
        if not self._workers:
            return {}
        return {str(name): str(text) for name, text in self._ask("logs")["logs"].items()}

    def _end(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.end()  # it ends the hosts, as they have not been kept
        elif self._workers:
            self._ask("end")


class _Driver:
    """The program that speaks to Ray, while it runs."""

    def __init__(
        self, deed: str, spec: Mapping[str, Any], log: str, environment: Mapping[str, str]
    ) -> None:
        self._log = log
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                # -P: the folder of the program is no place to import from, here or on the nodes.
                [sys.executable, "-P", _PROGRAM, deed],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.tell(json.dumps(spec))

    def tell(self, line: str) -> None:
        """Say what is to be done."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its words say why
            stdin.write(f"{line}\n".encode())
            stdin.flush()

    def answer(self) -> Mapping[str, Any]:
        """Wait for what it answers.

        Raises:
            RuntimeError: That it could not be done, and why.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            words = self._words()
            said = f":\n{words[-_SHOWN:]}" if words else ", and said nothing"
            raise RuntimeError(
                f"the driver of Ray ended with exit code {self._process.wait(_PATIENCE)}{said}"
            )
        found = json.loads(line)
        if "error" in found:
            wants_token = "InvalidAuthToken" in self._words()
            raise RuntimeError(f"{found['error']}{_AUTH_HINT if wants_token else ''}")
        return found

    def _words(self) -> str:
        try:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def keep(self) -> None:
        """Have the hosts stay when it ends, and end it.

        Raises:
            RuntimeError: One of them is gone. The others are ended.
        """
        self.tell("keep")
        try:
            self.answer()
        finally:
            self.end()

    def end(self) -> None:
        """End it, and thereby the hosts that it has not been told to keep."""
        process = self._process
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # its lease ends with it, and the hosts with that
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _checked(resources: Mapping[str, float]) -> dict[str, float]:
    for name, amount in resources.items():
        if not isinstance(amount, (int, float)) or isinstance(amount, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
            raise TypeError(f"resource {name!r} is a number, got {amount!r}")
        if amount <= 0:
            raise ValueError(f"resource {name!r} must be positive, got {amount:g}: leave it out")
    return {str(name): float(amount) for name, amount in resources.items()}
