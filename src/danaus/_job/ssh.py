"""Jobs on machines that one can log in to: a worker on each, started by the system's ssh.

The system's client is used as it is: its configuration, agents, jump hosts and certificates count.
A worker ends with the connection that started it, so that nothing stays when this client goes,
however it does; a detached one stays until the job is killed.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._job.mesh_name import check_mesh_name
from danaus._job.remote import RemoteJob, log_folder
from danaus._mesh.workers import attach_to_workers

if TYPE_CHECKING:
    from danaus._net.job_key import JobKey

__all__ = ["SSHJob"]

_PATIENCE = 5.0
"""Seconds for a worker to end when its connection does."""

_SHOWN = 2000
"""Characters of what a worker wrote that an error text has."""

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
"""Of ssh; what the user gives comes first, and the first one counts."""

_DETACHED = """
set -e
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/danaus-job-XXXXXX")
cat > "$folder/key"
setsid sh -c '
folder=$1; shift
"$@" --key "$folder/key" --report "$folder/report" >"$folder/out" 2>"$folder/err"
if [ -s "$folder/report" ]; then rm -rf "$folder"; fi
' worker "$folder" %s </dev/null >/dev/null 2>&1 &
worker=$!
while [ ! -s "$folder/report" ] && kill -0 "$worker" 2>/dev/null; do sleep 0.05; done
rm -f "$folder/key"
if cat "$folder/report" 2>/dev/null; then exit 0; fi
cat "$folder/err" >&2
rm -rf "$folder"
exit 1
"""
"""What starts a detached worker. Its folder goes with it, however it ends: the shell around it
stays until then. Where it could not be started, its words are told first."""


class SSHJob(RemoteJob):
    """Hosts that are machines one can log in to.

    Args:
        python_exe: The interpreter there; Danaus must be installed in it.
        ssh_args: Further arguments for ssh, such as ``["-J", "jump", "-i", "key"]``.
        danaus_port: Port of the workers; on a machine that has several, the next ones for the
            others. 0: any free one.
        transport: Accepted for compatibility; hosts are always reached by TCP with TLS.
        detached: Whether the workers outlive this client, once the job was written to its state
            file; without it they end with the connections that started them.

    Example:
        >>> job = SSHJob(python_exe="/opt/venv/bin/python")
        >>> job.add_mesh("trainers", ["node1", "node2"])
        >>> trainers = job.state(cached_path=None).trainers
    """

    def __init__(
        self,
        python_exe: str = "python",
        ssh_args: Sequence[str] = (),
        danaus_port: int = 22222,
        transport: str = "tcp",
        *,
        detached: bool = False,
    ) -> None:
        super().__init__()
        del transport
        self.python_exe = python_exe
        self.ssh_args = list(ssh_args)
        self.port = danaus_port
        self.detached = detached
        self._is_shared = detached
        self._hosts: dict[str, list[str]] = {}
        self._connections: list[_Connection] = []

    def add_mesh(self, name: str, hosts: Sequence[str]) -> None:
        """Have a mesh of these hosts, each as ssh takes it: a name, an alias, ``user@host``.

        Raises:
            TypeError: ``hosts`` is no list of texts.
            ValueError: The name cannot be one, or is taken, or there is no host.
        """
        check_mesh_name(name, list(self._hosts))
        if isinstance(hosts, str) or not all(isinstance(host, str) for host in hosts):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all checked
            raise TypeError(f"the hosts of a mesh are a list of names, got {hosts!r}")
        if not hosts:
            raise ValueError(f"host mesh {name!r} needs at least one host")
        odd = [host for host in hosts if host.startswith("-") or not host.strip()]
        if odd:
            raise ValueError(f"{odd[0]!r} is no name of a host")
        self._hosts[name] = list(hosts)

    def _wish(self) -> dict[str, Any]:
        return {
            "hosts": self._hosts,
            "python_exe": self.python_exe,
            "ssh_args": self.ssh_args,
            "port": self.port,
            "detached": self.detached,
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        super()._restore(fields)
        wish = fields["wish"]
        self._hosts = {str(name): list(map(str, hosts)) for name, hosts in wish["hosts"].items()}
        self.python_exe = str(wish["python_exe"])
        self.ssh_args = list(map(str, wish["ssh_args"]))
        self.port = int(wish["port"])
        self.detached = self._is_shared = bool(wish["detached"])
        self._connections = []

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        if not self._hosts:
            raise RuntimeError("an SSHJob needs hosts: call add_mesh(name, hosts) first")
        ssh = shutil.which("ssh")
        if ssh is None:
            raise RuntimeError("there is no ssh on PATH; install OpenSSH's client")
        folder = log_folder(self.apply_id)
        taken: Counter[str] = Counter()
        for mesh, hosts in self._hosts.items():
            for i, host in enumerate(hosts):
                port = self.port and self.port + taken[host]
                taken[host] += 1
                name = f"{mesh}_{i}"
                worker = [self.python_exe, "-m", "danaus_cli", "worker", "--name", name]
                worker += ["--address", f"tcp://*:{port}"]
                connection = _Connection(host, name, folder)
                self._connections.append(connection)
                line = _remote_line(worker, detached=self.detached)
                connection.start([ssh, *self.ssh_args, *_OPTIONS, host, line], key)
                if self.detached:
                    connection.begin_end()  # the remote shell reads the key to its end
        _wait_for_reports(self._connections, _config.get("host_spawn_ready_timeout"))
        if self.detached:
            for connection in self._connections:
                connection.end(_PATIENCE)
        reports = iter(self._connections)
        return {mesh: [next(reports).address for _ in hosts] for mesh, hosts in self._hosts.items()}

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, by host."""
        return {connection.name: connection.words() for connection in self._connections}

    def _end(self) -> None:
        if self.detached and self._workers:
            hosts = attach_to_workers(workers=self._addresses, key=self._key)
            # Those that are gone are no obstacle to ending the others.
            hosts.shutdown().exception(_PATIENCE + _config.get("host_dead_after"))
        for connection in self._connections:
            connection.begin_end()
        for connection in self._connections:
            connection.end(_PATIENCE)
        self._connections = []


def _remote_line(words: Sequence[str], *, detached: bool) -> str:
    """The worker's command as the remote shell takes it."""
    if detached:
        return f"sh -c {shlex.quote(_DETACHED % shlex.join(words))}"
    return f"exec {shlex.join([*words, '--key', '-', '--until-eof'])}"


class _Connection:
    """An ssh that has started a worker, or tries to."""

    def __init__(self, host: str, name: str, folder: str) -> None:
        self.host = host
        self.name = name
        self.address = ""
        self._errors = os.path.join(folder, f"{name}.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._line = b""

    def start(self, command: Sequence[str], key: JobKey) -> None:
        """Connect; the key goes by the standard input, which nobody else can read."""
        with open(self._errors, "ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its words say why
            stdin.write(key.pem.encode())
            stdin.flush()

    def fileno(self) -> int:
        """Where the report comes."""
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> bool:
        """Read what has come; whether that is all of the report.

        Raises:
            RuntimeError: The connection has ended without one.
        """
        data = os.read(self.fileno(), 65536)
        self._line += data
        # A login shell may print before the worker does.
        for line in self._line.split(b"\n"):
            with suppress(ValueError, KeyError, TypeError):
                self.address = json.loads(line)["address"]
                return True
        if not data:
            raise RuntimeError(self._failure())
        return False

    def _failure(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        words = self.words().strip() or self._line.decode("utf-8", "replace").strip()
        said = f": {words[-_SHOWN:]}" if words else ", and said nothing"
        return f"no worker could be started on {self.host!r} by ssh (exit code {code}){said}"

    def words(self) -> str:
        """What ssh and the worker have written to their standard error."""
        try:
            with open(self._errors, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def begin_end(self) -> None:
        """End its standard input, and thereby a worker that is not detached."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def end(self, patience: float) -> None:
        """Wait until it has ended, and see to it."""
        process = self._process
        if process is None:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait_for_reports(connections: Sequence[_Connection], patience: float) -> None:
    """Wait until every worker has said where it is.

    Raises:
        RuntimeError: One could not be started, or has not reported in time.
    """
    deadline = time.monotonic() + patience
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while waiting := list(selector.get_map().values()):
            left = deadline - time.monotonic()
            ready = selector.select(max(0.0, left))
            if not ready and left <= 0:
                silent = ", ".join(sorted({key.fileobj.host for key in waiting}))  # type: ignore[union-attr]
                raise RuntimeError(
                    f"{len(waiting)} of {len(connections)} workers have not reported within "
                    f"{patience:g} s (host_spawn_ready_timeout): {silent}"
                )
            for key, _ in ready:
                connection: Any = key.fileobj
                if connection.read():
                    selector.unregister(connection)
