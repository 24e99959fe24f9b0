"""Meshes of hosts: processes are spawned on them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec

from danaus import _config
from danaus._mesh.proc_mesh import ProcMesh, announce
from danaus._mesh.spares import Host, Spares, answers
from danaus._mesh.spawner import (
    UNNAMED,
    BootstrapCommand,
    Environment,
    Spawner,
    Wishes,
    default_bootstrap_cmd,
    extent_of_host,
)
from danaus._net.address import is_tcp
from danaus._proc.host import start_host
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import context, runtime
from danaus._shape import MeshTrait, NDSlice, Point, Shape

if TYPE_CHECKING:
    from danaus._runtime.router import Runtime

__all__ = [
    "BootstrapCommand",
    "HostMesh",
    "default_bootstrap_cmd",
    "local_host",
    "this_host",
    "this_proc",
]

_encode = msgspec.msgpack.Encoder().encode


class HostMesh(MeshTrait):
    """Hosts with ranks.

    Example:
        >>> procs = hosts.spawn_procs(per_host={"gpus": 8})
    """

    def __init__(
        self,
        hosts: list[Host],
        shape: Shape,
        *,
        python: str | None = None,
        end: Callable[[], None] | None = None,
        attached: Future[bool] | None = None,
        spares: Spares | None = None,
    ) -> None:
        self._all_hosts = hosts
        self._spares = spares if spares is not None else Spares(hosts)
        self._shape_now = shape
        self._python = python
        self._end_hosts = end
        self._attached = attached
        """Of hosts that somebody else started: settled when all of them answer."""
        self._down = False
        self._spawned: list[ProcMesh] = []

    # shape

    @property
    def _ndslice(self) -> NDSlice:
        return self._shape_now.ndslice

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(self._shape_now.labels)

    def _as_shape(self) -> Shape:
        return self._shape_now

    def _new_with_shape(self, shape: Shape) -> HostMesh:
        return HostMesh(
            self._all_hosts,
            shape,
            python=self._python,
            attached=self._attached,
            spares=self._spares,
        )

    def __bool__(self) -> bool:
        return True

    @property
    def region(self) -> Any:
        """Labels and ranks of the hosts."""
        return self._shape_now.region

    @property
    def stream_logs(self) -> bool:
        """True when output of procs is only ever sent on request."""
        return False

    @property
    def is_fake_in_process(self) -> bool:
        """True for hosts that are simulated in this process; never."""
        return False

    @property
    def spares_left(self) -> int:
        """Spare hosts that could take the place of one that dies: those that answer now."""
        return sum(answers(address) for _, address in self._spares.waiting)

    def _selected(self) -> list[Host]:
        hosts = self._hosts()
        return [hosts[rank] for rank in self._ndslice.ranks()]

    def _hosts(self) -> Sequence[Host]:
        """All hosts, of which the shape selects; waits until they are attached.

        Raises:
            RuntimeError: They could not be attached.
        """
        if self._attached is not None:
            self._attached.get()
        return self._all_hosts

    # procs

    def spawn_procs(  # noqa: PLR0913  # compatible
        self,
        per_host: Mapping[str, int] | None = None,
        bootstrap: Callable[[], Awaitable[None] | None] | None = None,
        name: str | None = None,
        proc_bind: Sequence[Mapping[str, str]] | None = None,
        bootstrap_command: (BootstrapCommand | Callable[[Point], BootstrapCommand] | None) = None,
        *,
        env: Environment | Callable[[Point], Environment] | None = None,
        preload: Sequence[str] = (),
    ) -> ProcMesh:
        """Start processes on every host; returns at once.

        Args:
            per_host: Dimensions of the processes of one host, such as ``{"gpus": 8}``. The mesh
                has the hosts' dimensions, then these.
            bootstrap: Runs in each new process before any actor. Its failure is the failure of
                `ProcMesh.initialized`.
            name: Name of the mesh, for people.
            proc_bind: For each process of a host, what it is bound to: ``cpus`` (a list as
                taskset takes it), or ``cpunodebind``, ``membind``, ``physcpubind`` (as numactl).
            bootstrap_command: Command that starts each process, instead of a fork.
            env: Variables of each process, set before anything is imported there; None removes
                one. A callable is asked for each rank.
            preload: Modules that are imported once a host, and that every process has at no cost.

        Raises:
            TypeError: An argument is of another kind than it has to be.
            ValueError: Dimensions overlap or have no name, a size is below 1 or beyond what a
                host can run, or ``proc_bind`` has another length than a host has processes.
            RuntimeError: The hosts were shut down.
        """
        if self._down:
            raise RuntimeError("HostMesh has already been shut down")
        local = extent_of_host(per_host)
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
            raise TypeError(f"the name of a proc mesh is a str, got {name!r}")
        overlap = set(self._labels) & set(local.labels)
        if overlap:
            raise ValueError(
                f"per_host has dimensions that the hosts have already: {sorted(overlap)}; "
                "name them otherwise"
            )
        per = local.nelements
        if proc_bind is not None and len(proc_bind) != per:
            raise ValueError(
                f"proc_bind length ({len(proc_bind)}) must equal procs_per_host ({per})"
            )
        hosts = self._selected()
        sizes = [*self.extent.sizes, *local.sizes]
        shape = Shape([*self._labels, *local.labels], NDSlice.new_row_major(sizes))
        wishes = Wishes(bootstrap, proc_bind, bootstrap_command, env, preload)
        spawner = Spawner(self, name or UNNAMED, hosts, per, shape, wishes, self._spares)
        mesh = spawner.spawn()
        self._spawned.append(mesh)
        announce(mesh)
        return mesh

    def with_python_executable(self, path: str) -> HostMesh:
        """The same hosts, whose procs use another interpreter."""
        if not os.path.exists(path):
            raise ValueError(f"there is no interpreter at {path}")
        made = HostMesh(
            self._all_hosts,
            self._shape_now,
            python=path,
            end=self._end_hosts,
            attached=self._attached,
            spares=self._spares,
        )
        made._spawned = self._spawned
        return made

    # life

    @property
    def initialized(self) -> Future[bool]:
        """Settled with True when every host's agent answers."""
        if self._attached is not None:
            return self._attached
        future = new_future(runtime().reactor)
        _in_background(lambda: _await_answers(self._selected(), future))
        return future

    def stop(self) -> Future[None]:
        """Stop the processes that were spawned through this mesh; the hosts stay."""
        me = runtime()
        futures = [p.stop() for p in self._spawned if p.uid in me.faults.owned]
        self._spawned.clear()
        return _all(futures)

    def shutdown(self) -> Future[None]:
        """End the hosts, and all that runs on them.

        Raises:
            RuntimeError: This is a slice or a reference; only what provisioned the hosts may.
        """
        end_hosts = self._end_hosts
        if end_hosts is None:
            raise RuntimeError("cannot shut down `HostMesh` that is a reference instead of owned")
        if self._down:
            raise RuntimeError("HostMesh has already been shut down")
        self._down = True
        stopped = self.stop()
        done = new_future(runtime().reactor)

        def end() -> None:
            try:
                end_hosts()
            except Exception as error:  # noqa: BLE001  # it is reported to who waits
                done.set_error(error)
            else:
                done.set_value(None)

        stopped.add_callback(lambda: _in_background(end))
        return done

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.shutdown()

    def __reduce__(self) -> Any:
        return (_rebuild, (list(self._hosts()), self._shape_now, self._python))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostMesh):
            return NotImplemented
        return self._selected() == other._selected() and self.extent == other.extent

    def __hash__(self) -> int:
        return hash(self.extent)  # hosts may be replaced

    def __repr__(self) -> str:
        return f"<HostMesh {self.extent}>"

    @property
    def python(self) -> str | None:
        """Interpreter of its procs; None for the hosts' own."""
        return self._python


def _in_background(work: Callable[[], None]) -> None:
    import threading

    threading.Thread(target=work, name="danaus-hosts", daemon=True).start()


def _await_answers(hosts: Sequence[Host], future: Future[bool]) -> None:
    """Settle ``future`` once the agents of all these hosts have answered, or one cannot."""
    from danaus._mesh.workers import wait_for
    from danaus._proc.lease import HostSilent, greet

    patience: float = _config.get("host_spawn_ready_timeout")
    elsewhere = [host for host in hosts if is_tcp(host[1])]
    try:
        greet([address for _, address in hosts if not is_tcp(address)], patience)
    except HostSilent as error:
        name = next(name for name, address in hosts if address == error.address)
        future.set_error(RuntimeError(f"attach failed: host {name!r} is lost: {error.why}"))
    else:
        wait_for(elsewhere, Spares(elsewhere), future)


def _rebuild(hosts: list[Host], shape: Shape, python: str | None) -> HostMesh:
    return HostMesh(hosts, shape, python=python)


def _all(futures: Sequence[Future[Any]]) -> Future[None]:
    """A future that is settled when all of them are."""
    done = new_future(runtime().reactor)
    left = len(futures)
    if not left:
        done.set_value(None)

    def one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set_value(None)

    for future in futures:
        future.add_callback(one)
    return done


def this_host() -> HostMesh:
    """The host of the calling actor; for a script, this machine.

    The first use in a script starts the host's agent. It ends, with all that it started, when the
    script does.
    """
    me = context().actor_instance.runtime
    shape = Shape([], NDSlice(offset=0, sizes=[], strides=[]))
    if me.spec:
        return HostMesh([(me.spec["host"], me.spec["agent"])], shape, python=me.spec.get("python"))
    return HostMesh([local_host(me)], shape)


def local_host(me: Runtime) -> Host:
    """The agent of this machine for a script, started if need be."""
    with me.host_lock:
        if me.local is None:
            process = start_host(me.host, me.id, at_socket=me.routes.agent)
            me.local = process
            me.address = process.address
            if me.routes.agent(process.address) is None:
                raise RuntimeError(f"the agent of this host did not start: {process.last_words()}")
        return (me.host, me.local.address)


def this_proc() -> ProcMesh:
    """The process of the calling actor as a mesh of one; for a script, its own process."""
    return context().actor_instance.proc
