"""Starting an agent: a directory, a socket that listens already, and a process.

The socket listens before the process exists, so its address can be used at once.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from danaus._net.descriptors import occupy_standard
from danaus._proc.launch import PROC_MARK, import_path
from danaus._proc.place import ERRORS, SOCKET, make_directory, remove_directory

if TYPE_CHECKING:
    import subprocess

__all__ = ["HostProcess", "become_host", "embed_host", "start_host"]

_BACKLOG = 4096
"""Connections that the kernel holds until they are accepted."""

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

    def wake(self) -> None:
        """Let it go on if somebody has stopped it (SIGSTOP), so that it can end."""
        self.process.send_signal(signal.SIGCONT)

    def reap(self, patience: float = 5.0) -> bool:
        """Wait for its end, at most ``patience`` seconds. False: it has not ended."""
        try:
            self.process.wait(patience)
        except Exception:  # noqa: BLE001  # it is being ended: nothing else matters
            return False
        remove_directory(os.path.dirname(self.address))  # one that was killed could not
        return True


def start_host(
    name: str,
    owner: str,
    env: dict[str, str] | None = None,
    python: str | None = None,
    *,
    at_socket: Callable[[str], object] | None = None,
    within: str = "",
) -> HostProcess:
    """Start an agent on this machine.

    Args:
        name: The host's name, as users see it.
        owner: Id of the client whose end is its end; empty if it is to stay.
        env: Variables to add to its environment, and so to that of its procs.
        python: Its interpreter; this one by default.
        within: Directory of the host that this one goes with, if it does.
        at_socket: Called with the address when the socket listens and the process does not exist
            yet. An owner that connects now is missed by the agent however early it dies.

    Raises:
        OSError: There is no place for its socket, or the process cannot be started.
    """
    import subprocess  # only where a host is started

    occupy_standard()
    directory = make_directory(within)
    address = os.path.join(directory, SOCKET)
    errors = os.path.join(directory, ERRORS)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
        if at_socket is not None:
            at_socket(address)
        environment = {**os.environ, **(env or {}), "_DANAUS_PATH": import_path()}
        # A host that a proc starts ends with its owner by itself, and is not to be killed for it.
        environment.pop(PROC_MARK, None)
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
        remove_directory(directory)
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


def embed_host(listener: socket.socket, address: str, name: str) -> int:
    """Serve as a host beside this program: an agent below it, which ends when this process does.

    It writes where this process writes.

    Returns:
        The agent's exit code, when it was told to end; 0 is the good order.
    """
    import subprocess
    from contextlib import closing

    from danaus._proc.lease import Lease, new_lease_id

    listener.listen(_BACKLOG)
    owner = new_lease_id()
    # Taken before the agent exists: an end of this process is then never missed.
    with closing(Lease(address, owner)), listener:
        descriptor = listener.fileno()
        with subprocess.Popen(  # our own interpreter
            [sys.executable, "-c", _START, str(descriptor), address, name, owner],
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor],
            start_new_session=True,
            env={**os.environ, "_DANAUS_PATH": import_path()},
        ) as process:
            listener.close()
            return process.wait()
