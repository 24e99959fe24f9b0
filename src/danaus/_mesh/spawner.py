"""What `HostMesh.spawn_procs` asks the agents of its hosts for."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._mesh.mocks import pickled_mocks
from danaus._mesh.proc_mesh import ProcMesh
from danaus._mesh.proc_table import ProcTable
from danaus._mesh.respawner import Respawner
from danaus._proc.binding import bind
from danaus._proc.launch import START, import_path
from danaus._proc.versions import versions
from danaus._runtime.identity import unique
from danaus._runtime.owned import OwnedMesh
from danaus._runtime.process import context
from danaus._shape import Extent, Point, Shape
from danaus._wire import kinds
from danaus._wire.codec import dumps

if TYPE_CHECKING:
    from danaus._mesh.host_mesh import HostMesh
    from danaus._mesh.spares import Host, Spares

__all__ = [
    "UNNAMED",
    "BootstrapCommand",
    "Environment",
    "Spawner",
    "Wishes",
    "default_bootstrap_cmd",
    "extent_of_host",
]

_encode = msgspec.msgpack.Encoder().encode

_MOST = 100_000
"""Processes of one mesh on one host; more than this is a slip of the finger."""

UNNAMED = "procs"
"""Name of a mesh of procs that was given none."""

Environment = Mapping[str, str | None]
"""Variables by name; None removes one."""


@dataclass
class BootstrapCommand:
    """A command that becomes a proc.

    Its attributes may be set; a spawn uses them as they were when it was asked for.

    Attributes:
        program: Path of the program, or its name on PATH.
        arg0: What it sees as its own name; None for the same.
        args: Its arguments.
        env: Variables that it sets; None removes one. Any mapping is taken, and copied.
        inherit_env: True to add them to its host's environment, False for no others. The `env` of
            `HostMesh.spawn_procs` is added in either case.

    Raises:
        TypeError: A variable is no text.
    """

    program: str
    arg0: str | None
    args: list[str]
    env: Environment
    inherit_env: bool = True

    def __setattr__(self, name: str, value: Any) -> None:
        # Also how the fields are first set.
        object.__setattr__(self, name, _variables(value) if name == "env" else value)

    def with_env(self, env: Environment) -> BootstrapCommand:
        """The same command with further variables; a later value replaces an earlier one."""
        return replace(self, env={**self.env, **env})


def _variables(env: Mapping[Any, Any]) -> dict[str, str | None]:
    for name, value in env.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            raise TypeError(f"an environment maps names to text or None, got {name!r}: {value!r}")
    return dict(env)


def default_bootstrap_cmd() -> BootstrapCommand:
    """The command that starts a proc where it is not forked."""
    return BootstrapCommand(sys.executable, None, ["-c", START], {"_DANAUS_PATH": import_path()})


@dataclass(frozen=True, slots=True)
class Wishes:
    """What `HostMesh.spawn_procs` was asked for; see there."""

    bootstrap: Callable[[], Awaitable[None] | None] | None
    proc_bind: Sequence[Mapping[str, str]] | None
    command: BootstrapCommand | Callable[[Point], BootstrapCommand] | None
    env: Environment | Callable[[Point], Environment] | None
    preload: Sequence[str]

    def __post_init__(self) -> None:
        if self.bootstrap is not None and not callable(self.bootstrap):
            raise TypeError(f"bootstrap is a function without arguments, got {self.bootstrap!r}")
        if isinstance(self.preload, str):
            raise TypeError(f"preload is a list of modules, got {self.preload!r}")
        if self.command is not None and not callable(self.command):
            _check_command(self.command)


def _check_command(command: Any) -> None:
    if not isinstance(command, BootstrapCommand):
        raise TypeError(
            "bootstrap_command is a BootstrapCommand, or a function of the rank that gives one; "
            f"got {command!r}"
        )


def extent_of_host(per_host: Mapping[str, int] | None) -> Extent:
    """The processes of one host, as `HostMesh.spawn_procs` was asked for them.

    Raises:
        TypeError: They are no mapping.
        ValueError: A dimension has no name or no size, or there are too many processes.
    """
    if per_host is None:
        return Extent([], [])
    if not isinstance(per_host, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
        raise TypeError(f'per_host names its dimensions, such as {{"gpus": 8}}; got {per_host!r}')
    size: Any
    for label, size in per_host.items():
        if label == "":
            raise ValueError(f"a dimension of per_host needs a name, got '' of size {size!r}")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"per_host[{label!r}] must be an integer of at least 1, got {size!r}")
    extent = Extent(list(per_host), list(per_host.values()))
    if extent.nelements > _MOST:
        raise ValueError(
            f"per_host asks for {extent.nelements} processes a host, {extent}; at most {_MOST} "
            "can be spawned at a time"
        )
    return extent


class Spawner:
    """One call of `HostMesh.spawn_procs`, kept for respawns."""

    def __init__(  # noqa: PLR0913, PLR0917  # its fields
        self,
        host_mesh: HostMesh,
        name: str,
        hosts: list[Host],
        per: int,
        shape: Shape,
        wishes: Wishes,
        spares: Spares,
    ) -> None:
        self._host_mesh = host_mesh
        self._name = name
        self._hosts = hosts
        self._per = per
        self._shape = shape
        self._wishes = wishes
        self._spares = spares
        self._caller = context()
        self._me = self._caller.actor_instance.runtime
        self._extent = Extent(list(shape.labels), list(shape.ndslice.sizes))
        self._uid = f"{_plain(name)}-{unique(8)}"
        self._template = self._make_template()

    def _make_template(self) -> dict[str, Any]:
        me = self._me
        bootstrap = self._wishes.bootstrap
        setup = dumps([bootstrap])[0] if bootstrap is not None else None
        return {
            "mesh": self._uid,
            "owner": me.id,
            "root": me.spec.get("root") or me.id,
            "cwd": _cwd(),
            "path": [p or _cwd() for p in sys.path],
            "argv": list(sys.argv),
            "python": self._host_mesh.python,
            "config": _config.snapshot_runtime(),
            "setup": setup,
            "mocks": pickled_mocks(),
            "preload": list(self._wishes.preload),
            "labels": list(self._shape.labels),
            "sizes": list(self._shape.ndslice.sizes),
            "versions": versions(),
            "ready_seconds": _config.get("host_spawn_ready_timeout"),
            "tail_lines": _config.get("tail_log_lines"),
            "capture": _config.get("enable_file_capture"),
            "streams": _config.get("enable_log_forwarding"),
            "label": _plain(self._name) if self._name != UNNAMED else "",
        }

    def spawn(self) -> ProcMesh:
        """Send the spawns; the mesh may be used at once."""
        ids = [self.new_id(rank) for rank in range(len(self._hosts) * self._per)]
        procs = [(ids[rank], self._hosts[rank // self._per][1]) for rank in range(len(ids))]
        table = ProcTable(self._uid, procs)
        wishes = [self.overrides(rank) for rank in range(len(ids))]  # what raises, raises here
        self._me.faults.own(
            OwnedMesh(self._uid, self._name, self._caller.actor_instance.uid, procs)
        )
        for i in range(len(self._hosts)):
            ranks = range(i * self._per, (i + 1) * self._per)
            self._send(self._hosts[i], [(ids[rank], wishes[rank]) for rank in ranks])
        return ProcMesh(
            self._uid,
            self._name,
            table,
            self._shape,
            host_mesh=self._host_mesh,
            owned=True,
            respawner=Respawner(
                self._me, self._uid, self._name, table, spawner=self, spares=self._spares
            ),
        )

    # for respawns

    def new_id(self, rank: int) -> str:
        """The id of a process for that rank."""
        return f"{self._uid}.{rank}-{unique(4)}"

    def host_of(self, rank: int) -> Host:
        """The host that a rank was spawned on."""
        return self._hosts[rank // self._per]

    def start(self, host: Host, proc: str, wishes: dict[str, Any]) -> None:
        """Start another process for a rank, on that host."""
        self._send(host, [(proc, wishes)])

    def _send(self, host: Host, procs: list[tuple[str, dict[str, Any]]]) -> None:
        me = self._me
        name, address = host
        link = me.routes.agent(address)
        root = me.spec.get("root_agent") or address  # whoever spawns through it is known there
        template = {**self._template, "host": name, "agent": address, "root_agent": root}
        entries = [list(proc) for proc in procs]
        if link is None:
            why = me.routes.refusals.get(address) or f"host {name} is gone"
            report = {"text": f"it could not be started: {why}", "host": name}
            if len(procs) > 1:
                report["cause"] = address  # one fault, not one for each of them
            for proc, _ in procs:
                me.routes.bury(proc, report)
            return
        link.send_small(kinds.SPAWN_PROCS, _encode([template, entries]), b"")

    def overrides(self, rank: int) -> dict[str, Any]:
        """What the process of that rank is to have that others have not."""
        point = Point(rank, self._extent)
        overrides: dict[str, Any] = {"rank": rank}
        wishes = self._wishes
        env = wishes.env(point) if callable(wishes.env) else wishes.env
        if env:
            overrides["env"] = _variables(env)
        if wishes.proc_bind is not None:
            overrides.update(bind(wishes.proc_bind[rank % self._per]))
        command = wishes.command(point) if callable(wishes.command) else wishes.command
        if command is not None:
            _check_command(command)
            overrides["command"] = {
                "program": command.program,
                "arg0": command.arg0,
                "args": list(command.args),
                "env": dict(command.env),
                "inherit": command.inherit_env,
            }
        return overrides


def _plain(name: str) -> str:
    """``name`` as a file name."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40] or UNNAMED


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
