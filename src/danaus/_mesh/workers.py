"""Hosts that somebody else starts: a worker serves at an address, a client attaches to it.

Addresses are ``ipc://PATH``: a Unix socket on this machine, for the same user only. Where a worker
is reached by another path than it serves at, ``ipc://REACHED@ipc://SERVED`` says both.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from danaus import _config
from danaus._mesh.host_mesh import HostMesh
from danaus._proc.host import become_host, embed_host
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import runtime
from danaus._shape import NDSlice, Shape
from danaus._wire import kinds

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "attach_to_workers",
    "enable_transport",
    "run_worker_loop_forever",
    "run_worker_loop_until_shutdown",
]

_PAUSE = 0.02
"""Seconds between two looks whether a worker has come up."""

_NOTHING = b"\x90"
"""An empty routing part."""

_LOCAL = ("ipc", "unix")


def run_worker_loop_forever(
    *, address: str, key: str | Path | None = None, ca: Any = None, private_key: Any = None
) -> NoReturn:
    """Serve as a host until it is shut down: the calling process becomes the host's agent.

    Args:
        address: ``ipc://PATH``; the socket is made there, for this user only. Of two, the second.
        key: Without effect on this machine, where the kernel tells who connects.
        ca: Likewise.
        private_key: Likewise.

    Raises:
        ValueError: The address is of another kind.
        OSError: The socket cannot be made there; another worker may serve at that path.
    """
    del key, ca, private_key
    listener, path = _bind(address)
    become_host(listener, path, _host_name())


def run_worker_loop_until_shutdown(
    *, address: str, key: str | Path | None = None, ca: Any = None, private_key: Any = None
) -> None:
    """Serve as a host, and return when a client has shut it down.

    The host is a process below the calling one, and ends with it at the latest.

    Args:
        address: As for `run_worker_loop_forever`; so are the others.
        key: Without effect on this machine.
        ca: Likewise.
        private_key: Likewise.

    Raises:
        ValueError: The address is of another kind.
        OSError: The socket cannot be made there; another worker may serve at that path.
        RuntimeError: The host has crashed, or was killed.
    """
    del key, ca, private_key
    listener, path = _bind(address)
    code = embed_host(listener, path, _host_name())
    if code:
        how = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        raise RuntimeError(f"the host at {address} was not shut down: it ended {how}")


def _host_name() -> str:
    return os.environ.get("DANAUS_PROCESS_NAME") or socket.gethostname()


def _bind(address: str) -> tuple[socket.socket, str]:
    path = _path_of(address, serve=True)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o077)
    try:
        listener.bind(path)
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
) -> HostMesh:
    """The hosts that serve at these addresses, in this order; returns at once.

    Args:
        ca: Without effect on this machine, where the kernel tells who connects.
        workers: Addresses, or futures of addresses, which are waited for in the background.
        name: Name of the mesh, for people.
        private_key: Like ``ca``.

    Returns:
        A mesh ``{hosts: N}``. `HostMesh.initialized` raises where an address cannot be had, or a
        worker does not answer within ``mesh_attach_config_timeout``; so does spawning on it.

    Raises:
        ValueError: There are no addresses, or one is of another kind than ``ipc://PATH``.
    """
    del ca, private_key
    if not workers:
        raise ValueError("attach_to_workers needs at least one address")
    known = [w if isinstance(w, Future) else _path_of(w) for w in workers]
    label = name or "host"
    # Complete when `attached` is settled, before which nobody looks at it.
    hosts: list[tuple[str, str]] = []
    attached: Future[bool] = new_future(runtime().reactor)
    threading.Thread(
        target=_attach, args=(label, known, hosts, attached), name="danaus-attach", daemon=True
    ).start()
    shape = Shape(["hosts"], NDSlice.new_row_major([len(known)]))
    return HostMesh(hosts, shape, attached=attached, end=lambda: _end(hosts, attached))


def _end(hosts: Sequence[tuple[str, str]], attached: Future[bool]) -> None:
    """Tell the workers to end, and wait until their links have ended."""
    attached.exception()  # settled, whether they all answer or not
    links = [link for _, address in hosts if (link := runtime().routes.agent(address)) is not None]
    for link in links:
        link.send_small(kinds.SHUTDOWN, _NOTHING, b"")
    deadline = time.monotonic() + _config.get("process_exit_timeout")
    while not all(link.lost for link in links):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{sum(not link.lost for link in links)} of {len(links)} workers have not ended"
            )
        time.sleep(_PAUSE)


def _attach(
    label: str,
    known: Sequence[str | Future[str]],
    hosts: list[tuple[str, str]],
    attached: Future[bool],
) -> None:
    """Fill ``hosts``, then wait for them."""
    for i, place in enumerate(known):
        host = f"{label}_{i}"
        try:
            path = place if isinstance(place, str) else _path_of(place.get())
        except BaseException as error:  # noqa: BLE001  # it is reported to who waits
            failure = RuntimeError(f"attach failed: host {host!r} has no address: {error}")
            failure.__cause__ = error
            attached.set_error(failure)
            return
        hosts.append((host, path))
    _wait_for(hosts, attached)


def _wait_for(hosts: Sequence[tuple[str, str]], attached: Future[bool]) -> None:
    """Settle ``attached`` when all workers answer, or with the first that does not."""
    patience: float = _config.get("mesh_attach_config_timeout")
    deadline = time.monotonic() + patience
    routes = runtime().routes
    for name, address in hosts:
        while routes.agent(address) is None:
            if time.monotonic() > deadline:
                attached.set_error(
                    RuntimeError(
                        "attach failed: config push failed during attach: no worker answers at "
                        f"ipc://{address} (host {name!r}) within {patience:g} s. Is it running, "
                        "and as the same user?"
                    )
                )
                return
            time.sleep(_PAUSE)
    attached.set_value(True)


def enable_transport(transport: Any) -> None:
    """Choose how processes reach each other: "ipc" or "unix", which is what there is.

    Raises:
        ValueError: Another transport is asked for.
    """
    text = getattr(transport, "value", transport)
    if str(text).partition(":")[0].lower() not in _LOCAL:
        raise ValueError(
            f"transport {transport!r} is not available: processes of one machine are reached by "
            "'ipc' (Unix sockets)"
        )


def _path_of(address: str, *, serve: bool = False) -> str:
    reached, both, served = address.rpartition("@ipc://")
    if both:
        address = f"ipc://{served}" if serve else reached
    scheme, separator, rest = address.partition(":")
    if not separator or scheme not in _LOCAL:
        raise ValueError(
            f"worker address {address!r} is not of the form 'ipc://PATH'; workers of this machine "
            "are reached by Unix sockets"
        )
    return os.path.abspath(rest.removeprefix("//"))
