"""A real sshd on this machine, with keys of its own."""

import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from danaus.testing import wait_until

PATIENCE = 10.0


@dataclass(frozen=True)
class SshServer:
    """Where it listens, and how to log in."""

    arguments: list[str]
    """For ssh: its configuration, in which any host is this server."""
    log: Path


def is_installed() -> bool:
    """Whether this machine has a server and a client, and lets us run them."""
    return os.geteuid() == 0 and bool(_server() and shutil.which("ssh"))


def _server() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def ssh_server(folder: Path) -> Generator[SshServer]:
    """Run it."""
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config, log = folder / "sshd_config", folder / "sshd.log"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile {folder}/client.pub\nPidFile {folder}/sshd.pid\nUsePAM no\n"
        "StrictModes no\nPermitRootLogin prohibit-password\nMaxStartups 200\n"
    )
    client = folder / "ssh_config"
    client.write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
        f"  IdentityFile {folder}/client\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n"
        f"  UserKnownHostsFile {folder}/known\n  LogLevel ERROR\n"
    )
    server = _server()
    assert server is not None
    process = subprocess.Popen([server, "-D", "-f", str(config), "-E", str(log)])
    try:
        wait_until(lambda: _answers(port), timeout=PATIENCE, what="sshd answers")
        yield SshServer(["-F", str(client)], log)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False
