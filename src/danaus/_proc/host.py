"""Starting an agent: a directory, a socket that listens already, and a process.

The socket listens before the process exists, so its address can be used at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from danaus._net.descriptors import occupy_standard
from danaus._net.job_key import ENVIRONMENT
from danaus._proc.launch import PROC_MARK, import_path
from danaus._proc.place import ERRORS, SOCKET, make_directory, remove_directory

if TYPE_CHECKING:
    import subprocess

    from danaus._net.job_key import JobKey

__all__ = [
    "BACKLOG",
    "KEY_VARIABLE",
    "HostProcess",
    "Service",
    "become_host",
    "embed_host",
    "start_host",
]

BACKLOG = 4096
"""Connections that the kernel holds until they are accepted."""

_START = (
    "import os, sys; sys.path.extend(os.environ.get('_DANAUS_PATH', '').split(os.pathsep)); "
    "from danaus._entry.host import main; main()"
)


KEY_VARIABLE = "_DANAUS_KEY"
"""Tells an agent that serves other hosts the text of the job key."""


@dataclass(frozen=True, slots=True)
class Service:
    """What an agent serves.

    Attributes:
        listener: Descriptor of the listening Unix socket.
        address: Its path.
        name: The host's name, as users see it.
        owner: Id of the client whose end is the agent's end; empty for a host that stays.
        remote: Descriptor of the listening TCP socket; -1 for none.
        lifeline: Descriptor whose end is the agent's end; -1 for none.
    """

    listener: int
    address: str
    name: str
    owner: str = ""
    remote: int = -1
    lifeline: int = -1

    def written(self) -> str:
        """This as an argument of a command."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def read(cls, argument: str) -> Service:
        """What `written` gave."""
        return cls(**json.loads(argument))

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that the agent's process must have."""
        return [fd for fd in (self.listener, self.remote, self.lifeline) if fd >= 0]


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
        listener.listen(BACKLOG)
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
                    Service(listener.fileno(), address, name, owner).written(),
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


def become_host(service: Service, key: JobKey | None = None) -> NoReturn:
    """Replace this process by an agent that serves until it is told to end.

    A fresh interpreter: the zygote must be forked from a process without threads.

    Args:
        service: What to serve, at sockets that listen.
        key: The job key, where other hosts are served.
    """
    for descriptor in service.descriptors:
        os.set_inheritable(descriptor, True)
    os.environ["_DANAUS_PATH"] = import_path()
    os.environ.pop(ENVIRONMENT, None)
    if key is not None:
        os.environ[KEY_VARIABLE] = key.pem
    arguments = [sys.executable, "-c", _START, service.written()]
    os.execv(sys.executable, arguments)  # noqa: S606  # no shell is wanted


def embed_host(service: Service, key: JobKey | None = None) -> int:
    """Serve as a host beside this program: an agent below it, which ends when this process does.

    It writes where this process writes.

    Args:
        service: What to serve, at sockets that listen. Its descriptors are closed.
        key: The job key, where other hosts are served.

    Returns:
        The agent's exit code, when it was told to end; 0 is the good order.
    """
    import subprocess
    from contextlib import closing

    from danaus._proc.lease import Lease, new_lease_id

    owner = new_lease_id()
    service = replace(service, owner=owner)
    environment = {**os.environ, "_DANAUS_PATH": import_path()}
    environment.pop(ENVIRONMENT, None)
    if key is not None:
        environment[KEY_VARIABLE] = key.pem
    # Taken before the agent exists: an end of this process is then never missed.
    with closing(Lease(service.address, owner)):
        try:
            process = subprocess.Popen(  # our own interpreter
                [sys.executable, "-c", _START, service.written()],
                stdin=subprocess.DEVNULL,
                pass_fds=service.descriptors,
                start_new_session=True,
                env=environment,
            )
        finally:
            for descriptor in service.descriptors:
                os.close(descriptor)
        with process:
            return process.wait()
