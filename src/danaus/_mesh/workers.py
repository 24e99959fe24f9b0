"""Hosts that somebody else starts: a worker serves at an address, a client attaches to it.

Addresses are ``tcp://HOST:PORT``, for holders of the job key, or ``ipc://PATH``: a Unix socket on
this machine, for the same user only. Where a worker is reached by another address than it serves
at, ``REACHED@SERVED`` says both.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from danaus import _config
from danaus._config.transports import BindSpec
from danaus._mesh.host_mesh import HostMesh
from danaus._mesh.spares import Host, Spares
from danaus._net.address import is_tcp, parse_tcp, reachable_address, tcp_address
from danaus._net.job_key import JobKey
from danaus._net.keyring import keyring
from danaus._proc.host import BACKLOG, Service, become_host, embed_host
from danaus._proc.place import SOCKET, make_directory, remove_directory
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import existing_runtime, runtime
from danaus._shape import NDSlice, Shape
from danaus._wire import kinds
from danaus.errors import JobKeyError

if TYPE_CHECKING:
    from pathlib import Path

    from danaus._net.link import Link

__all__ = [
    "attach",
    "attach_to_workers",
    "enable_transport",
    "run_worker_loop_forever",
    "run_worker_loop_until_shutdown",
    "shut_down",
    "wait_for",
]

_PAUSE = 0.02
"""Seconds between two looks whether a worker has come up."""

_NOTHING = b"\x90"
"""An empty routing part."""

_LOCAL = ("ipc", "unix")

_SHOWN = 4
"""Workers that an error text names."""


def run_worker_loop_forever(  # noqa: PLR0913  # compatible, and what schedulers need
    *,
    address: str,
    key: JobKey | str | Path | None = None,
    ca: Any = None,
    private_key: Any = None,
    name: str | None = None,
    on_listening: Callable[[str, str], None] | None = None,
    until_end_of: int = -1,
) -> NoReturn:
    """Serve as a host until it is shut down: the calling process becomes the host's agent.

    Args:
        address: ``tcp://HOST:PORT`` to serve clients and peers on other hosts that hold the job
            key: ``*`` is all addresses of this host, port 0 any free one. Or ``ipc://PATH``: the
            socket is made there, for this user only. Of two, ``REACHED@SERVED``, the second.
        key: The job key for TCP: its path, or the text itself. By default that of the variable
            DANAUS_JOB_KEY.
        ca: Accepted for compatibility; peers are always authenticated, by the job key.
        private_key: Likewise.
        name: The host's name, for people; by default DANAUS_PROCESS_NAME, or the machine's.
        on_listening: Called with the address that others reach it at and its name, once it
            listens.
        until_end_of: Descriptor of a pipe or socket whose end is the host's end, too, and that of
            all that runs on it; for whoever starts it and may die.

    Raises:
        JobKeyError: There is no key, and the address is a TCP one, or it cannot be read.
        ValueError: The address is of another kind.
        OSError: It cannot listen there; another worker may.
    """
    del ca, private_key
    # Until the agent is there, which lets it through, nobody would remove the socket.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        service, found, reached = _serve(address, key, name)
        if on_listening is not None:
            _tell(on_listening, service, reached)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        raise
    become_host(replace(service, lifeline=until_end_of), found)


def _tell(on_listening: Callable[[str, str], object], service: Service, reached: str) -> None:
    try:
        on_listening(reached, service.name)
    except BaseException:
        # Whoever it is told may be gone; there is no agent yet to remove the socket.
        for descriptor in service.descriptors:
            os.close(descriptor)
        os.unlink(service.address)
        remove_directory(os.path.dirname(service.address))
        raise


def run_worker_loop_until_shutdown(
    *,
    address: str,
    key: JobKey | str | Path | None = None,
    ca: Any = None,
    private_key: Any = None,
    name: str | None = None,
) -> None:
    """Serve as a host, and return when a client has shut it down.

    The host is a process below the calling one, and ends with it at the latest.

    Args:
        address: As for `run_worker_loop_forever`; so are the others.
        key: The job key, for TCP.
        ca: Accepted for compatibility.
        private_key: Likewise.
        name: The host's name, for people.

    Raises:
        JobKeyError: There is no key, and the address is a TCP one, or it cannot be read.
        ValueError: The address is of another kind.
        OSError: It cannot listen there; another worker may.
        RuntimeError: The host has crashed, or was killed.
    """
    del ca, private_key
    service, found, _ = _serve(address, key, name)
    code = embed_host(service, found)
    if code:
        how = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        raise RuntimeError(f"the host at {address} was not shut down: it ended {how}")


def _serve(
    address: str, key: JobKey | str | Path | None, name: str | None
) -> tuple[Service, JobKey | None, str]:
    """Listen: what the agent is to serve, its key, and the address that others reach it at."""
    name = name or os.environ.get("DANAUS_PROCESS_NAME") or socket.gethostname()
    reached, _, served = address.rpartition("@tcp://")
    if reached or is_tcp(address):
        found = JobKey.of(key)
        if found is None:
            raise JobKeyError(
                f"a worker at {address} needs the key of its job: pass key=, or set DANAUS_JOB_KEY "
                "to its path; without one anybody on the network could use it"
            )
        remote, at = _listen_tcp(f"tcp://{served}" if reached else address)
        try:
            directory = make_directory()
            try:
                listener, path = _bind(f"ipc://{os.path.join(directory, SOCKET)}")
            except BaseException:
                remove_directory(directory)
                raise
        except BaseException:
            remote.close()
            raise
        service = Service(listener.detach(), path, name, remote=remote.detach())
        return service, found, reached or at
    listener, path = _bind(address)
    return Service(listener.detach(), path, name), None, f"ipc://{path}"


def _listen_tcp(address: str) -> tuple[socket.socket, str]:
    """A listening socket, and the address that others reach it at."""
    place = parse_tcp(address)
    host, port = place
    try:
        if host.startswith("fd") and host[2:].isdigit():
            raise ValueError(f"{address}: a descriptor is named in place of the port, as in fd3")
        if place.is_any:
            dual = socket.has_dualstack_ipv6()
            listener = socket.create_server(
                ("", port),
                family=socket.AF_INET6 if dual else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=dual,
            )
        else:
            family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server(found[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(f"cannot serve at {address}: {error.strerror or error}") from error
    served = listener.getsockname()[1]
    shown = reachable_address() if place.is_any else host
    return listener, tcp_address(shown, served)


def _bind(address: str) -> tuple[socket.socket, str]:
    path = _path_of(address, serve=True)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o077)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot serve at {address}: {error.strerror}") from error
    finally:
        os.umask(mask)
    return listener, path


def attach_to_workers(
    *,
    ca: Any = None,
    workers: Sequence[str | Future[str]],
    name: str | None = None,
    private_key: Any = None,
    key: JobKey | str | Path | None = None,
    spares: Sequence[str] = (),
) -> HostMesh:
    """The hosts that serve at these addresses, in this order; returns at once.

    Args:
        ca: Accepted for compatibility; hosts are always authenticated, by the job key.
        workers: Addresses, or futures of addresses, which are waited for in the background.
        name: Name of the mesh, for people.
        private_key: Like ``ca``.
        key: The job key, for workers at TCP addresses: its path, or the text itself. By default
            that of the variable DANAUS_JOB_KEY.
        spares: Addresses of workers that stand by. The first that answers takes the rank of a
            worker that does not answer, and later of one that is gone when a rank of it is
            respawned. They belong to this mesh and its slices in this process, not to copies that
            are sent to others, and end with `HostMesh.shutdown`.

    Returns:
        A mesh ``{hosts: N}`` of as many hosts as there are workers. `HostMesh.initialized` raises
        where an address cannot be had, or a worker does not answer within
        ``mesh_attach_config_timeout`` and no spare does; so does spawning on it.

    Raises:
        ValueError: There are no addresses, one is neither ``ipc://PATH`` nor ``tcp://HOST:PORT``,
            or a spare is a worker, too.
        JobKeyError: The key cannot be read, or there is none and an address is a TCP one.
    """
    del ca, private_key
    if not workers:
        raise ValueError("attach_to_workers needs at least one address")
    # A key in the environment is only looked at where one is needed.
    found = JobKey.of(key) if key is not None or any(map(_needs_key, [*workers, *spares])) else None
    known = [w if isinstance(w, Future) else _learn(w, found) for w in workers]
    label = name or "host"
    waiting = [(f"{label}_spare_{i}", _learn(at, found)) for i, at in enumerate(spares)]
    addresses = [*known, *(address for _, address in waiting)]
    twice = [at for at in addresses if isinstance(at, str) and addresses.count(at) > 1]
    if waiting and twice:
        raise ValueError(f"{twice[0]} is named twice; a spare is no worker of the mesh yet")
    # Complete when `attached` is settled, before which nobody looks at it.
    hosts: list[Host] = []
    pool = Spares(hosts, waiting)
    attached: Future[bool] = new_future(runtime().reactor)
    threading.Thread(
        target=_attach,
        args=(label, known, found, hosts, pool, attached),
        name="danaus-attach",
        daemon=True,
    ).start()
    shape = Shape(["hosts"], NDSlice.new_row_major([len(known)]))

    def end() -> None:
        attached.exception()  # settled, whether they all answer or not
        _end([*hosts, *pool.waiting])

    return HostMesh(hosts, shape, attached=attached, end=end, spares=pool)


def _needs_key(worker: str | Future[str]) -> bool:
    return isinstance(worker, Future) or is_tcp(worker)


def _learn(address: str, key: JobKey | None) -> str:
    """The address of a worker as a host's; its key is remembered."""
    if not is_tcp(address):
        return _path_of(address)
    reached = str(parse_tcp(address.partition("@")[0]))
    if key is None:
        raise JobKeyError(
            f"the worker at {address} is reached with the key of its job only: pass key=, or set "
            "DANAUS_JOB_KEY to its path"
        )
    keyring.learn(reached, key)
    return reached


def _end(hosts: Sequence[Host]) -> None:
    """Tell the workers to end, and wait until their links have ended."""
    links = [link for _, address in hosts if (link := runtime().routes.agent(address)) is not None]
    left = shut_down(links, _config.get("process_exit_timeout"))
    if left:
        raise TimeoutError(f"{left} of {len(links)} workers have not ended")


def shut_down(links: Sequence[Link], patience: float) -> int:
    """Tell agents to end, and wait until their links have; how many have not in time."""
    for link in links:
        link.send_small(kinds.SHUTDOWN, _NOTHING, b"")
    deadline = time.monotonic() + patience
    while left := sum(not link.lost for link in links):
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    return left


def _attach(  # a thread's work
    label: str,
    known: Sequence[str | Future[str]],
    key: JobKey | None,
    hosts: list[Host],
    spares: Spares,
    attached: Future[bool],
) -> None:
    """Fill ``hosts``, then wait for them."""
    for i, place in enumerate(known):
        host = f"{label}_{i}"
        try:
            address = place if isinstance(place, str) else _learn(place.get(), key)
        except BaseException as error:  # noqa: BLE001  # it is reported to who waits
            failure = RuntimeError(f"attach failed: host {host!r} has no address: {error}")
            failure.__cause__ = error
            attached.set_error(failure)
            return
        hosts.append((host, address))
    wait_for(hosts, spares, attached)


def wait_for(hosts: list[Host], spares: Spares, attached: Future[bool]) -> None:
    """Settle ``attached`` when all workers answer, or with the first that does not.

    A spare that answers takes the place of one that does not.
    """
    patience: float = _config.get("mesh_attach_config_timeout")
    deadline = time.monotonic() + patience
    spares.greet()
    for _, address in hosts:
        runtime().routes.agent(address)  # what is lost from now on is this attempt
    total = len(hosts)
    waiting = list(hosts)
    while waiting:
        late = time.monotonic() > deadline
        failures: dict[str, str] = {}
        for host in list(waiting):
            why = _why_not(host[1])
            if why is None and late:
                why = _silent(host[1], patience)
            if why == "" or (why is not None and spares.replace(host) is not None):
                waiting.remove(host)
            elif why is not None:
                failures[host[0]] = why
        hopes = not late and any(_why_not(address) is None for _, address in spares.waiting)
        if failures and not hopes:
            attached.set_error(RuntimeError(_failed(failures, total)))
            return
        if waiting:
            time.sleep(_PAUSE)
    attached.set_value(True)


def _why_not(address: str) -> str | None:
    """Why there is no way to a worker; empty where it answers, None where neither is known yet."""
    routes = runtime().routes
    if address == runtime().address:
        return ""  # the agent of the proc that asks
    if address in routes.refusals:
        return routes.refusals[address]
    if is_tcp(address) and address in routes.lost_agents:
        return routes.lost_agents[address]
    if routes.agent(address) is not None and address in routes.welcomes:
        return ""
    return None


def _silent(address: str, patience: float) -> str:
    if is_tcp(address):
        where, same = address, "with the same job key"
    else:
        where, same = f"ipc://{address}", "as the same user"
    return f"no worker answers at {where} within {patience:g} s. Is it running, and {same}?"


def _failed(failures: Mapping[str, str], total: int) -> str:
    """One paragraph on the hosts that cannot be attached."""
    shown = [f"host {name!r}: {why}" for name, why in list(failures.items())[:_SHOWN]]
    more = len(failures) - len(shown)
    text = "; ".join(shown) + (f"; and {more} more" if more else "")
    return (
        f"attach failed: config push failed during attach: {len(failures)} of {total} workers "
        f"cannot be used: {text}"
    )


def attach(address: str, *, key: JobKey | str | Path | None = None) -> None:
    """Reach all hosts through one of them, for a client that no other can be reached from.

    All connections of this client go to that host's port, whose agent carries them on; they are
    encrypted end to end, so that it sees nothing of them. Call it before anything else.

    Args:
        address: ``tcp://HOST:PORT`` of the one host that this client reaches.
        key: The job key; by default that of the variable DANAUS_JOB_KEY.

    Raises:
        RuntimeError: This script is a client already.
        ValueError: The address is no TCP address.
        JobKeyError: There is no key, or it cannot be read.
    """
    reached = str(parse_tcp(address))
    if existing_runtime() is not None and keyring.gateway != reached:
        raise RuntimeError(
            "client already bootstrapped; call attach(addr) before any other use of danaus"
        )
    found = JobKey.of(key)
    if found is None:
        raise JobKeyError(
            f"attach({address!r}) needs the job key: pass key=, or set DANAUS_JOB_KEY to its path"
        )
    keyring.learn(reached, found)
    keyring.gateway = reached


def enable_transport(transport: Any) -> None:
    """Accepted for compatibility: where a peer lives decides how it is reached.

    Processes of one host are reached by Unix sockets, those of others by TCP with TLS.

    Raises:
        ValueError: There is no such transport.
    """
    BindSpec(transport)


def _path_of(address: str, *, serve: bool = False) -> str:
    reached, both, served = address.rpartition("@ipc://")
    if both:
        address = f"ipc://{served}" if serve else reached
    scheme, separator, rest = address.partition(":")
    if not separator or scheme not in _LOCAL:
        raise ValueError(
            f"worker address {address!r} is neither of the form 'tcp://HOST:PORT' nor 'ipc://PATH'"
        )
    return os.path.abspath(rest.removeprefix("//"))
