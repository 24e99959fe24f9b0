"""From a forked child of the zygote to a proc: its session, output, environment, place.

What can only act when an interpreter starts (LD_*, PYTHON*, MALLOC_* variables), another
interpreter, a bootstrap command or numactl make the child exec; everything else is set in place.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Any

from danaus._proc.exits import NOT_STARTED
from danaus._proc.system import die_with_parent, open_unnamed
from danaus._proc.versions import find_conflict, versions

__all__ = [
    "EXEC_VARIABLE",
    "PROC_MARK",
    "START",
    "Launch",
    "enter",
    "from_exec",
    "import_path",
    "needs_exec",
    "own_variables",
]

PROC_MARK = "DANAUS_PROC_ID"
"""Variable that a proc and all that it starts have, and by which they are found when it ended."""

EXEC_VARIABLE = "_DANAUS_PROC"
"""Tells an exec'd interpreter the descriptors of its control link and of its description."""

START = (
    "import os, sys; sys.path.extend(os.environ.pop('_DANAUS_PATH', '').split(os.pathsep)); "
    "from danaus._entry.proc import main; main()"
)
"""Program of an exec'd proc. Its own environment's packages come before the client's."""

_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_TUNABLES", "DYLD_")

_STDERR = 2


@dataclass(slots=True)
class Launch:
    """What a proc is to be.

    Attributes:
        spec: The description that the owner sent; keys are those of `danaus._proc.spec`.
        control: Descriptor of the control link.
        out: Descriptor that becomes stdout, or -1.
        err: Descriptor that becomes stderr, or -1.
    """

    spec: dict[str, Any]
    control: int
    out: int
    err: int

    def control_socket(self) -> socket.socket:
        """The control link's socket."""
        return socket.socket(fileno=self.control)


def needs_exec(spec: dict[str, Any]) -> bool:
    """True when forking cannot give what the description asks for."""
    if spec.get("command") or spec.get("wrap"):
        return True
    python = spec.get("python")
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        return True
    if python and python != sys.executable:
        return True  # another virtual environment of the same interpreter
    env: dict[str, str | None] = spec.get("env") or {}
    return any(
        name.startswith(_AT_START) and os.environ.get(name) != value for name, value in env.items()
    )


def enter(launch: Launch, parent: int) -> None:
    """Make this forked child a proc; may not return (exec). Failures go to stderr, and end it."""
    os.setsid()
    if not die_with_parent(parent):
        os._exit(1)
    _take_output(launch)
    try:
        _take_place(launch)
    except OSError as error:
        sys.stderr.write(f"danaus: this process could not be started: {error}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


def _take_output(launch: Launch) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(launch.out, 1)
    os.dup2(launch.err, 2)
    control = launch.control
    if control <= _STDERR:
        control = launch.control = os.dup(control)
    os.closerange(_STDERR + 1, control)
    os.closerange(control + 1, max(4096, control + 4096))
    os.set_inheritable(control, False)
    _open_streams()


def _open_streams() -> None:
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(  # noqa: SIM115
        1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _take_place(launch: Launch) -> None:
    spec = launch.spec
    must_exec = needs_exec(spec)  # it compares with the environment as it is before
    env: dict[str, str | None] = spec.get("env") or {}
    for name, value in env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    cpus = spec.get("cpus")
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
    if spec.get("cwd"):
        try:
            os.chdir(spec["cwd"])
        except OSError as error:
            sys.stderr.write(f"danaus: the client's directory does not exist here: {error}\n")
    if must_exec:
        _exec(launch)
    path = spec.get("path")
    if path is not None:
        sys.path[:] = path
    argv = spec.get("argv")
    if argv is not None:
        sys.argv[:] = argv


def _exec(launch: Launch) -> None:
    import msgspec

    spec = launch.spec
    description = open_unnamed()
    os.write(description, msgspec.msgpack.encode(spec))
    os.lseek(description, 0, os.SEEK_SET)
    os.set_inheritable(description, True)
    os.set_inheritable(launch.control, True)
    command = spec.get("command")
    env = dict(os.environ) if not command or command["inherit"] else own_variables(spec)
    env[EXEC_VARIABLE] = f"{launch.control},{description}"
    if command:
        arguments = [command["arg0"] or command["program"], *command["args"]]
        for name, value in command["env"].items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        program = command["program"]
    else:
        program = spec.get("python") or sys.executable
        arguments = [program, "-c", START]
        env["_DANAUS_PATH"] = import_path()
    wrap = spec.get("wrap")
    if wrap:
        arguments = [*wrap, program, *arguments[1:]]
        program = wrap[0]
    os.execvpe(program, arguments, env)  # noqa: S606  # no shell, as it should be


def own_variables(spec: dict[str, Any]) -> dict[str, str]:
    """The environment of a proc that inherits none.

    It keeps the mark by which its host finds what it leaves behind.
    """
    wanted: dict[str, str | None] = spec.get("env") or {}
    env = {name: value for name, value in wanted.items() if value is not None}
    env[PROC_MARK] = spec["id"]
    return env


def from_exec() -> Launch:
    """In an exec'd interpreter: what this proc is to be."""
    import msgspec

    control, description = map(int, os.environ.pop(EXEC_VARIABLE).split(","))
    with open(description, "rb") as file:
        spec = msgspec.msgpack.decode(file.read())
    _check_versions(spec)
    os.set_inheritable(control, False)
    _open_streams()  # an interpreter buffers what it writes to a pipe, for as long as it likes
    path = spec.get("path")
    if path is not None and spec.get("python") in (None, sys.executable):
        sys.path[:] = path
    elif path is not None:
        # Another environment brings its own packages; the client's directories come first.
        sys.path[:0] = [p for p in path if "site-packages" not in p and not _is_stdlib(p)]
    if spec.get("argv") is not None:
        sys.argv[:] = spec["argv"]
    return Launch(spec, control, -1, -1)


def _check_versions(spec: dict[str, Any]) -> None:
    """End where this interpreter cannot work together with the one that the proc is for."""
    theirs = spec.get("versions")
    conflict = "" if theirs is None else find_conflict(versions(), theirs, "the client has")
    if conflict:
        sys.stderr.write(f"danaus: this process could not be started: {conflict}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


def import_path() -> str:
    """Directories in which an interpreter finds this danaus and what it needs."""
    from importlib.util import find_spec

    packages = ("danaus", "cloudpickle", "msgspec")
    files = [spec.origin for name in packages if (spec := find_spec(name)) and spec.origin]
    roots = dict.fromkeys(os.path.dirname(os.path.dirname(os.path.abspath(f))) for f in files)
    return os.pathsep.join(roots)


def _is_stdlib(path: str) -> bool:
    return path.endswith(".zip") or f"lib/python{sys.version_info[0]}." in path
