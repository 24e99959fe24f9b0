"""Starting an agent: a directory, a socket that listens already, and a process.

The socket listens before the process exists, so its address can be used at once.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from danaus._proc.launch import import_path

if TYPE_CHECKING:
    import subprocess

__all__ = ["PRIVATE", "HostProcess", "become_host", "start_host"]

PRIVATE = "danaus-"
"""Beginning of the name of a directory that holds nothing but one host's socket and papers."""

_BACKLOG = 4096
"""Connections that the kernel holds until they are accepted."""

_PATH_LIMIT = 100
"""Longest path of a Unix socket that every platform takes, in bytes."""

_START = (
    "import os, sys; sys.path.extend(os.environ.get('_DANAUS_PATH', '').split(os.pathsep)); "
    "from danaus._entry.host import main; main()"
)


@dataclass(slots=True)
class HostProcess:
    """An agent that this process has started.

    Attributes:
        address: Path of its socket.
        process: The process.
        errors: Path of the file that its own errors go to.
    """

    address: str
    process: subprocess.Popen[bytes]
    errors: str

    def last_words(self) -> str:
        """What it wrote to its standard error."""
        try:
            with open(self.errors, encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""


def _run_directory() -> str:
    """A new private directory with a short path."""
    bases = [os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp"]  # noqa: S108  # 0700 below
    errors: list[str] = []
    for base in bases:
        if not base or len(base) > _PATH_LIMIT - 30 or not os.path.isdir(base):
            continue
        path = os.path.join(base, f"{PRIVATE}{os.urandom(6).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            errors.append(str(error))
            continue
        return path
    raise OSError(
        "no directory for the host's socket could be made; set XDG_RUNTIME_DIR to a writable "
        f"directory with a short path ({'; '.join(errors)})"
    )


def start_host(
    name: str,
    owner: str,
    env: dict[str, str] | None = None,
    python: str | None = None,
    *,
    at_socket: Callable[[str], object] | None = None,
) -> HostProcess:
    """Start an agent on this machine.

    Args:
        name: The host's name, as users see it.
        owner: Id of the client whose end is its end; empty if it is to stay.
        env: Variables to add to its environment, and so to that of its procs.
        python: Its interpreter; this one by default.
        at_socket: Called with the address when the socket listens and the process does not exist
            yet. An owner that connects now is missed by the agent however early it dies.

    Raises:
        OSError: There is no place for its socket, or the process cannot be started.
    """
    import subprocess  # only where a host is started

    directory = _run_directory()
    address = os.path.join(directory, "s")
    errors = os.path.join(directory, "agent.err")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
        if at_socket is not None:
            at_socket(address)
        environment = {**os.environ, **(env or {}), "_DANAUS_PATH": import_path()}
        with open(errors, "wb") as error_file:
            process = subprocess.Popen(  # our own interpreter
                [
                    python or sys.executable,
                    "-c",
                    _START,
                    str(listener.fileno()),
                    address,
                    name,
                    owner,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=error_file,
                pass_fds=[listener.fileno()],
                start_new_session=True,
                env=environment,
                cwd="/",
            )
    except BaseException:
        for path in (address, errors):
            if os.path.exists(path):
                os.unlink(path)
        os.rmdir(directory)
        raise
    finally:
        listener.close()
    return HostProcess(address, process, errors)


def become_host(listener: socket.socket, address: str, name: str) -> NoReturn:
    """Replace this process by an agent that serves at ``listener`` until it is told to end.

    A fresh interpreter: the zygote must be forked from a process without threads.
    """
    listener.listen(_BACKLOG)
    os.set_inheritable(listener.fileno(), True)
    os.environ["_DANAUS_PATH"] = import_path()
    arguments = [sys.executable, "-c", _START, str(listener.fileno()), address, name, ""]
    os.execv(sys.executable, arguments)  # noqa: S606  # no shell is wanted
