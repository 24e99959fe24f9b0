"""Hosts on this machine that belong to this client, until they are shared or ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from danaus import _config
from danaus._proc.host import HostProcess, start_host
from danaus._proc.lease import HostSilent, Lease, new_lease_id, wait_welcome
from danaus._proc.running import PATIENCE, RunningHost, end_hosts
from danaus._proc.system import start_time
from danaus._runtime.process import existing_runtime, runtime

__all__ = ["HeldHosts", "end", "start_hosts"]

_KEEP_PATIENCE = 10.0
"""Seconds for a host to confirm that it outlives its client."""


class HeldHosts:
    """Hosts that end when this client does, however it ends.

    They are held by a lease each, which the kernel closes with the process, and by the runtime,
    which ends them in good order when it closes. No reference from the user's program is needed.
    """

    def __init__(self, hosts: Sequence[RunningHost], leases: Sequence[Lease]) -> None:
        self.hosts = list(hosts)
        self._leases = list(leases)
        self._runtime = runtime()
        self._runtime.at_close.append(self.end)

    def keep(self) -> None:
        """Let the hosts outlive this client.

        Raises:
            RuntimeError: One of them is gone. The others are still held.
        """
        try:
            for lease in self._leases:
                lease.ask_to_keep()
            wait_welcome(self._leases, _KEEP_PATIENCE)
        except HostSilent as error:
            raise _lost(self.hosts, error) from None
        self._release()

    def end(self, patience: float = PATIENCE) -> None:
        """End them; they have ``patience`` seconds to do so by themselves."""
        end(self.hosts, patience)
        self._release()

    def _release(self) -> None:
        for lease in self._leases:
            lease.close()
        self._leases.clear()
        if self.end in self._runtime.at_close:
            self._runtime.at_close.remove(self.end)


def end(hosts: Sequence[RunningHost], patience: float = PATIENCE) -> None:
    """End hosts; what this client has on them is stopped thereby, and has not failed.

    Args:
        hosts: The hosts, whoever started them.
        patience: Seconds in which they may end by themselves.
    """
    found = existing_runtime()
    if found is not None:
        found.faults.ending.update(host.address for host in hosts)
    end_hosts(hosts, patience)


def start_hosts(names: Sequence[str], env: Mapping[str, str]) -> HeldHosts:
    """Start hosts on this machine, all at once, and wait until they run.

    Args:
        names: Their names, as users see them; each is in ``DANAUS_PROCESS_NAME`` of its host.
        env: Variables that are added to their environments.

    Raises:
        RuntimeError: One of them did not start: why, with what it wrote. The others are ended.
    """
    started: list[RunningHost] = []
    leases: list[Lease] = []
    try:
        for name in names:
            _start(name, env, started, leases)
        patience: float = _config.get("host_spawn_ready_timeout")
        wait_welcome(leases, patience)
    except HostSilent as error:
        failure = _lost(started, error)
        _abandon(started, leases)
        raise failure from None
    except BaseException:
        _abandon(started, leases)
        raise
    return HeldHosts(started, leases)


def _start(
    name: str, env: Mapping[str, str], started: list[RunningHost], leases: list[Lease]
) -> None:
    owner = new_lease_id()
    environment = {**env, "DANAUS_PROCESS_NAME": name}

    def hold(address: str) -> None:
        leases.append(Lease(address, owner))

    try:
        process = start_host(name, owner, environment, at_socket=hold, within=_host_directory())
    except OSError as error:
        raise RuntimeError(f"host {name!r} could not be started: {error}") from error
    started.append(_running(name, process))


def _host_directory() -> str:
    """Directory of the host that this process is a proc of; empty in a user's script."""
    me = runtime()
    return os.path.dirname(me.routes.here) if me.spec else ""


def _running(name: str, process: HostProcess) -> RunningHost:
    pid = process.process.pid
    # It is waited for by its pid from now on, by whichever client ends it: to the object it has
    # ended, so that dropping it neither warns nor waits.
    process.process.returncode = 0
    return RunningHost(name, process.address, pid, start_time(pid))


def _lost(hosts: Sequence[RunningHost], error: HostSilent) -> RuntimeError:
    host = next((host for host in hosts if host.address == error.address), None)
    if host is None:
        return RuntimeError(f"a host did not start: {error.why}")
    words = host.last_words()
    return RuntimeError(
        f"host {host.name!r} (pid {host.pid}) did not start or was lost: {error.why}"
        + (f"; it wrote:\n{words}" if words else ". It wrote nothing to its standard error.")
    )


def _abandon(hosts: Sequence[RunningHost], leases: Sequence[Lease]) -> None:
    for lease in leases:
        lease.close()
    end_hosts(hosts, 1.0)
