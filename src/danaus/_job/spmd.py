"""Hosts inside of a program that runs many times: one rank is the client, one of each host serves.

The ranks find each other by a store that they share, such as torch's ``TCPStore``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from danaus._job.ranks import Ranks
from danaus._mesh.workers import attach_to_workers
from danaus._net.address import is_tcp
from danaus._net.job_key import JobKey
from danaus._proc.launch import import_path
from danaus._proc.place import SOCKET, make_directory, remove_directory

if TYPE_CHECKING:
    from danaus._mesh.host_mesh import HostMesh

__all__ = ["Store", "host_mesh_from_reports", "host_mesh_from_store"]

_PAUSE = 0.05
"""Seconds between two looks for reports."""

_START = (
    "import os, sys; sys.path.extend(os.environ.get('_DANAUS_PATH', '').split(os.pathsep)); "
    "import runpy; runpy.run_module('danaus_cli', run_name='__main__', alter_sys=True)"
)

_OWN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK")
"""Variables of torchrun that are this process's own."""

_calls: Counter[str] = Counter()
"""How often this process has asked for hosts of a name; all ranks do so equally often."""

_workers: list[subprocess.Popen[bytes]] = []
"""The workers of this process, which end with it."""


class Store(Protocol):
    """What the ranks share: ``torch.distributed.Store``, or anything with these three methods."""

    def set(self, key: str, value: str, /) -> object:
        """Keep a value."""
        ...

    def get(self, key: str, /) -> bytes | str:
        """Return the value that was set."""
        ...

    def wait(self, keys: list[str], /) -> object:
        """Return when all keys were set."""
        ...


def host_mesh_from_store(  # noqa: PLR0913  # compatible
    store: Store,
    *,
    danaus_port: int = 0,
    name: str = "danaus_worker",
    transport: str = "tcp",
    rank: int | None = None,
    local_rank: int | None = None,
    world_size: int | None = None,
    local_world_size: int | None = None,
) -> HostMesh | None:
    """Make a host of each machine of a torchrun job; every rank calls this.

    The first rank of each machine starts a worker, which ends with that rank. Rank 0 gets the
    hosts, in order of the machines; the others get None, and must live as long as hosts are used.

    The job key is made by rank 0 and handed to the others through the store, so whoever can read
    the store meanwhile can use the hosts; it is removed from there once all have it. Where
    DANAUS_JOB_KEY is set on all ranks, that key is used, and the store never has it.

    Args:
        store: What the ranks share, such as a ``torch.distributed.TCPStore``.
        danaus_port: Port of the workers; 0: any free one.
        name: Of the hosts, for people; a program that has several such meshes names them apart.
        transport: "tcp", or "ipc" where all ranks are on one machine.
        rank: Number of this process; by default as torchrun, MPI or Slurm say in the environment,
            and so are the following.
        local_rank: Number of this process on its machine.
        world_size: Number of processes.
        local_world_size: Number of processes on each machine.

    Raises:
        RuntimeError: The environment does not say which rank this is, or a worker could not be
            started: on rank 0 with the words of any, elsewhere with one's own.
        ValueError: There is no such transport, or not every machine has as many processes.

    Example:
        >>> store = TCPStore(os.environ["MASTER_ADDR"], 29511, is_master=RANK == 0)
        >>> hosts = host_mesh_from_store(store)
        >>> if hosts is not None:
        ...     main(hosts)
        ...     store.set("finished", "yes")
        >>> store.wait(["finished"], timedelta(days=7))
    """
    if transport not in ("tcp", "ipc", "unix"):
        raise ValueError(f"unsupported transport {transport!r}: tcp or ipc")
    ranks = Ranks.of(rank, local_rank, world_size, local_world_size)
    place = _place(name)
    if ranks.local_rank != 0:
        return None
    key = _exchange_key(store, place, ranks) if transport == "tcp" else None
    try:
        address = _start_worker(f"{name}_{ranks.host}", key, danaus_port)
    except RuntimeError as error:
        store.set(f"{place}/{ranks.host}", json.dumps({"error": str(error)}))
        raise
    if ranks.rank != 0:
        store.set(f"{place}/{ranks.host}", json.dumps({"address": address}))
        return None
    addresses = [address, *_addresses(store, place, ranks.hosts)]
    if key is not None:
        store.set(f"{place}/key", "")
    return attach_to_workers(workers=addresses, name=name, key=key)


def _place(name: str) -> str:
    """Where the ranks leave what they have to say, at this call."""
    _calls[name] += 1
    # A store may outlive the processes that torchrun starts again.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"danaus/{name}/{attempt}.{_calls[name]}"


def _read(store: Store, key: str) -> str:
    store.wait([key])
    value = store.get(key)
    return value if isinstance(value, str) else bytes(value).decode()


def _exchange_key(store: Store, place: str, ranks: Ranks) -> JobKey:
    own = JobKey.from_environment()
    if own is not None:
        return own
    if ranks.rank == 0:
        key = JobKey.make()
        if ranks.hosts > 1:
            store.set(f"{place}/key", key.pem)
        return key
    return JobKey(_read(store, f"{place}/key"))


def _addresses(store: Store, place: str, hosts: int) -> list[str]:
    """Addresses of the other hosts."""
    reports = [json.loads(_read(store, f"{place}/{host}")) for host in range(1, hosts)]
    for host, report in enumerate(reports, 1):
        if "error" in report:
            raise RuntimeError(f"host {host} of {hosts} could not be had: {report['error']}")
    return [str(report["address"]) for report in reports]


def _start_worker(name: str, key: JobKey | None, port: int) -> str:
    """Start a worker that ends with this process; the address that it serves at."""
    command = [sys.executable, "-c", _START, "worker", "--name", name, "--until-eof"]
    directory = ""
    if key is not None:
        command += ["--address", f"tcp://*:{port}", "--key", "-"]
    else:
        directory = make_directory()
        command += ["--address", f"ipc://{os.path.join(directory, SOCKET)}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A terminal's Ctrl-C is for the ranks; the worker ends with its own.
        start_new_session=True,
        env=_environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if key is not None:
        with suppress(BrokenPipeError):  # it has ended: its exit code says so
            process.stdin.write(key.pem.encode())
            process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        process.stdin.close()
        process.stdout.close()
        remove_directory(directory)
        raise RuntimeError(
            f"worker {name!r} on {os.uname().nodename} ended with exit code {process.wait()}; its "
            "words are in the output of this process"
        )
    _workers.append(process)
    return str(json.loads(line)["address"])


def _environment() -> dict[str, str]:
    """That of the worker: what runs on the host is no rank of the launcher."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
    return {**inherited, "_DANAUS_PATH": import_path()}


def host_mesh_from_reports(
    folder: str | os.PathLike[str],
    count: int,
    *,
    key: JobKey | str | os.PathLike[str] | None = None,
    name: str = "danaus_worker",
    timeout: float = 60.0,
) -> HostMesh:
    """The hosts whose workers report to a folder: ``danaus worker --report FOLDER/``.

    Workers that mpirun or srun has started write ``RANK.json`` there; hosts are in order of rank.

    Args:
        folder: The folder, shared by all machines, and new for each run.
        count: How many workers there are.
        key: Their job key: its path, or the text itself; by default that of DANAUS_JOB_KEY.
        name: Of the hosts, for people.
        timeout: Seconds to wait until all have reported.

    Raises:
        RuntimeError: Not all have reported in time.
        ValueError: There are more than ``count``.
        JobKeyError: The key cannot be read, or there is none.
    """
    deadline = time.monotonic() + timeout
    while len(found := _reports(folder)) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{len(found)} of {count} workers have reported to {os.fspath(folder)} within "
                f"{timeout:g} s: ranks {', '.join(map(str, sorted(found))) or 'none'}"
            )
        time.sleep(_PAUSE)
    if len(found) > count:
        raise ValueError(
            f"{len(found)} workers have reported to {os.fspath(folder)}, and {count} are expected: "
            "use a new folder for each run"
        )
    addresses = [found[rank] for rank in sorted(found)]
    given = JobKey.of(key) if any(map(is_tcp, addresses)) else None
    return attach_to_workers(workers=addresses, name=name, key=given)


def _reports(folder: str | os.PathLike[str]) -> dict[int, str]:
    """Address by rank of those that have reported."""
    found: dict[int, str] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            rank, _, kind = entry.name.partition(".")
            if kind == "json" and rank.isdigit():
                with open(entry.path, encoding="utf-8") as file:
                    found[int(rank)] = str(json.load(file)["address"])
    return found
