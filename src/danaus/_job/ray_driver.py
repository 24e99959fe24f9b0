"""The program that speaks to Ray for a `RayJob`, in a process of its own.

A driver of Ray brings threads, signal handlers and log files into its process, which the user's
script is to be spared. This one is told by a line of JSON on its standard input what to do, and
answers with lines of JSON. It imports nothing of Danaus: as it is ``__main__``, Ray pickles `Host`
by value, and a node without Danaus says so in clear words.

Who owns what, so that nothing is left: the hosts of a job are detached actors in a detached
placement group. Each of them watches the job's `Lease`, an actor that ends with this driver, which
ends with its standard input; the end of the lease is that of the hosts. Once the job is to outlive
its client they are told not to watch it any more. The last host removes the placement group.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["NAMESPACE", "Driver", "Host", "Lease"]

NAMESPACE = "danaus"
"""Where the actors and placement groups of all jobs are named."""

_KEPT_WORDS = 256 * 1024
"""Bytes of what a worker wrote that its actor keeps."""

_SHOWN = 2000
"""Characters of what a worker wrote that an error text has."""

_END_PATIENCE = 10.0
"""Seconds for workers to end by themselves, before Ray ends them."""

_KNOCK_PATIENCE = 10.0
"""Seconds for the cluster's port to take a connection."""

_ROUND = 600.0
"""Seconds of one wait among those without end."""

_RETRY_PAUSE = 1.0
"""Seconds until an actor that cannot be reached is asked again."""

_PAUSE = 0.05
"""Seconds between two looks whether actors are gone."""


# what runs on the cluster


class Lease:
    """Lives as long as the driver that made it."""

    async def wait(self) -> None:
        """Never returns; the caller sees when this is gone."""
        await asyncio.Event().wait()


class Host:
    """A worker on a node: it ends with this actor, and this actor with it."""

    def __init__(self, group: str, names: list[str], own: int) -> None:
        self._group = group
        self._names = names
        self._own = own
        self._words = bytearray()
        self._ended = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._life: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, command: list[str], port: int, key: str, lease: Any) -> str:
        """Start the worker; the address that it serves at."""
        ray = importlib.import_module("ray")
        at = ray.util.get_node_ip_address()
        shown = f"[{at}]" if ":" in at else at
        command = [command[0] or sys.executable, *command[1:]]
        command += ["--address", f"tcp://{shown}:{port}", "--key", "-", "--until-eof"]
        loop = asyncio.get_running_loop()
        found: asyncio.Future[str] = loop.create_future()
        self._watch = loop.create_task(self._end_with(lease))
        self._life = loop.create_task(self._live(command, key, found))
        return await found

    async def _live(self, command: list[str], key: str, found: asyncio.Future[str]) -> None:
        """From the start of the worker to the end of this actor."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            found.set_exception(RuntimeError(f"{command[0]}: {error.strerror}"))
            return
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(key.encode())
        with suppress(ConnectionError):  # it has ended: its words say why
            await process.stdin.drain()
        await asyncio.gather(self._read(process.stdout, found), self._read(process.stderr, None))
        code = await process.wait()
        self._ended.set()
        if not found.done():
            said = self.words()[-_SHOWN:].strip() or "it said nothing"
            found.set_exception(RuntimeError(f"the worker ended with exit code {code}: {said}"))
            return  # the driver ends this actor, once it has heard why
        await self._leave()

    async def _read(self, stream: asyncio.StreamReader, found: asyncio.Future[str] | None) -> None:
        """Keep what the worker writes, and show it to Ray; one line is its report."""
        with suppress(ValueError):  # a line beyond all limits: nobody reads on
            async for line in stream:
                self._words += line
                del self._words[:-_KEPT_WORDS]
                sys.stderr.buffer.write(line)
                sys.stderr.flush()
                if found is not None and not found.done():
                    with suppress(ValueError, KeyError, TypeError):
                        found.set_result(str(json.loads(line)["address"]))

    async def _end_with(self, lease: Any) -> None:
        await _see_end(lease.wait)
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _leave(self) -> None:
        """End this actor, and with the last one of the job its place in the cluster."""
        ray = importlib.import_module("ray")
        me = ray.get_runtime_context().current_actor
        if not any(_actor(ray, name) for name in self._names[: self._own]):
            # The first of those that are left waits for the others.
            for name in self._names[self._own + 1 :]:
                other = _actor(ray, name)
                if other is not None:
                    await _see_end(other.gone)
            _remove(ray, self._group)
        ray.kill(me)

    async def gone(self) -> None:
        """Never returns; the caller sees when this is gone."""
        await asyncio.Event().wait()

    async def keep(self) -> None:
        """Do not end with the lease."""
        if self._watch is not None:
            self._watch.cancel()
        if self._ended.is_set():
            raise RuntimeError("the worker has ended")

    async def end(self) -> None:
        """End the worker, and return when it has ended."""
        self._close()
        if self._process is not None:
            await self._ended.wait()

    def words(self) -> str:
        """What the worker has written."""
        return self._words.decode("utf-8", "replace")

    async def log(self) -> str:
        """What the worker has written."""
        return self.words()


async def _see_end(method: Any) -> None:
    """Return when the actor is gone; the method is one that never returns."""
    errors = importlib.import_module("ray").exceptions
    while True:
        try:
            await method.remote()
        except errors.ActorUnavailableError:
            await asyncio.sleep(_RETRY_PAUSE)  # its node cannot be reached, and may come back
        except errors.RayError:
            return


def _actor(ray: Any, name: str) -> Any:
    """The actor of that name; None when it is gone."""
    try:
        return ray.get_actor(name, NAMESPACE)
    except ValueError:
        return None


def _remove(ray: Any, group: str) -> None:
    """Remove a placement group, and thereby what is in it; one that is gone is as good."""
    with suppress(ValueError):
        ray.util.remove_placement_group(ray.util.get_placement_group(group))


# what the driver does


class Driver:
    """One connection to a cluster."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._ray: Any = importlib.import_module("ray")
        self._group = str(spec["group"])
        self._names = [f"{self._group}/{name}" for name in spec["hosts"]]
        self.may_place = threading.Event()

    def connect(self) -> None:
        """Connect to the cluster.

        Raises:
            RuntimeError: There is none, or it does not take this client.
        """
        address = str(self._spec["address"])
        try:
            _knock(address)
            # Ray reports by itself what it lacks; what the hosts write is for `RayJob.logs`.
            self._ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"there is no Ray cluster at {address!r} for this client: {_first_lines(error)}; "
                "run this on a node of the cluster (ray start), or name its address"
            ) from error

    def do(self, deed: str) -> dict[str, Any]:
        """Do what is asked for; the answer.

        Raises:
            RuntimeError: It cannot be done, and why.
        """
        deeds = {
            "nodes": self._nodes,
            "place": self._place,
            "keep": self._keep,
            "end": self.end,
            "logs": self._logs,
        }
        return deeds[deed]()

    def _nodes(self) -> dict[str, Any]:
        """What the nodes have, in use or not."""
        return {"nodes": [node["Resources"] for node in self._ray.nodes() if node["Alive"]]}

    def _place(self) -> dict[str, Any]:
        """Place the hosts, and start their workers; where they are."""
        ray, spec = self._ray, self._spec
        bundles: list[dict[str, float]] = spec["bundles"]
        group = ray.util.placement_group(
            bundles, strategy=spec["strategy"], name=self._group, lifetime="detached"
        )
        patience = spec["start_timeout"]
        while not group.wait(_ROUND if patience is None else patience):
            if patience is None:
                continue
            wanted = sorted({name for bundle in bundles for name in bundle})
            free = _text(ray.available_resources(), wanted)
            raise RuntimeError(
                f"the Ray cluster has had no place for {len(bundles)} hosts for {patience:g} s "
                f"(start_timeout): they need {'; '.join(sorted(set(map(_text, bundles))))} each, "
                f"with strategy {spec['strategy']}, and {free} is free in all"
            )
        return {
            "address": self._address(),
            # Ray finds out by itself with the address "auto" only.
            "auth": os.environ.get("RAY_AUTH_MODE", ""),
            "workers": self._start(group, self._lease()),
        }

    def _address(self) -> str:
        """Where the cluster is found again."""
        asked = str(self._spec["address"])
        if "://" in asked:
            return asked
        return str(self._ray.get_runtime_context().gcs_address)

    def _lease(self) -> Any:
        ray = self._ray
        # Beside this driver, as it is not to end with a node that is none of the job's.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        return ray.remote(Lease).options(num_cpus=0, scheduling_strategy=here).remote()

    def _start(self, group: Any, lease: Any) -> list[str]:
        ray, spec = self._ray, self._spec
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        started: list[Any] = []
        for i, (name, bundle) in enumerate(zip(spec["hosts"], spec["bundles"], strict=True)):
            host = (
                ray.remote(Host)
                .options(
                    name=self._names[i],
                    lifetime="detached",
                    scheduling_strategy=strategy(group, i),
                    runtime_env=spec["runtime_env"],
                    **_options(bundle),
                )
                .remote(self._group, self._names, i)
            )
            command = [spec["python_exe"], "-m", "danaus_cli", "worker", "--name", name]
            started.append(host.start.remote(command, spec["port"], spec["key"], lease))
        return self._addresses(started, spec["patience"])

    def _addresses(self, started: Sequence[Any], patience: float) -> list[str]:
        names = dict(zip(started, self._spec["hosts"], strict=True))
        found: dict[str, str] = {}
        deadline = time.monotonic() + patience
        while names:
            ready, _ = self._ray.wait(list(names), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RuntimeError(
                    f"{len(names)} of {len(started)} workers have not reported within "
                    f"{patience:g} s (host_spawn_ready_timeout): {', '.join(names.values())}"
                )
            for one in ready:
                name = names.pop(one)
                try:
                    found[name] = self._ray.get(one)
                except self._ray.exceptions.RayError as error:
                    raise RuntimeError(
                        f"host {name!r} could not be started by Ray: {_first_lines(error)}"
                    ) from error
        return [found[name] for name in self._spec["hosts"]]

    def _keep(self) -> dict[str, Any]:
        """Let the hosts outlive this driver."""
        hosts = [_actor(self._ray, name) for name in self._names]
        gone = [name for name, host in zip(self._names, hosts, strict=True) if host is None]
        if gone:
            raise RuntimeError(f"{len(gone)} of its hosts are gone: {', '.join(gone[:4])}")
        try:
            self._ray.get([host.keep.remote() for host in hosts], timeout=_END_PATIENCE)
        except self._ray.exceptions.RayError as error:
            raise RuntimeError(f"a host does not stay: {_first_lines(error)}") from error
        return {}

    def end(self) -> dict[str, Any]:
        """End the hosts, and wait until they are gone."""
        ray = self._ray
        if not ray.is_initialized():
            return {}
        hosts = [host for name in self._names if (host := _actor(ray, name)) is not None]
        if hosts:
            ray.wait(
                [host.end.remote() for host in hosts], num_returns=len(hosts), timeout=_END_PATIENCE
            )
        _remove(ray, self._group)
        deadline = time.monotonic() + _END_PATIENCE
        while any(_actor(ray, name) for name in self._names) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        return {}

    def _logs(self) -> dict[str, Any]:
        """What the workers have written."""
        found: dict[str, str] = {}
        for short, name in zip(self._spec["hosts"], self._names, strict=True):
            host = _actor(self._ray, name)
            if host is not None:
                with suppress(self._ray.exceptions.RayError):
                    found[short] = self._ray.get(host.log.remote(), timeout=_END_PATIENCE)
        return {"logs": found}


def _knock(address: str) -> None:
    """See whether somebody listens there, which Ray tries for a minute.

    Raises:
        OSError: Nobody does.
    """
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_PATIENCE).close()


def _text(resources: Mapping[str, float], names: Iterable[str] | None = None) -> str:
    """Resources for people, or those of these names."""
    names = sorted(resources if names is None else names)
    return ", ".join(f"{name} {resources.get(name, 0):g}" for name in names)


def _options(bundle: Mapping[str, float]) -> dict[str, Any]:
    """Resources of a bundle as an actor asks for them."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {"num_cpus": 0}
    options.update({option: bundle[name] for name, option in named.items() if name in bundle})
    options["resources"] = {name: n for name, n in bundle.items() if name not in named}
    return options


def _first_lines(error: BaseException) -> str:
    """The words of an error, without those of Ray around those of a host."""
    cause = getattr(error, "cause", None)
    text = str(cause) if isinstance(cause, Exception) else str(error)
    return text.strip()[-_SHOWN:] or type(error).__name__


def _main(deed: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever Ray prints is no answer

    def answer(value: Mapping[str, Any]) -> None:
        answers.write(f"{json.dumps(value)}\n")
        answers.flush()

    driver = Driver(json.loads(sys.stdin.readline()))
    if deed == "place":
        threading.Thread(target=_hold, args=(driver, answer), daemon=True).start()
    try:
        driver.connect()
        if deed == "place":
            answer(driver.do("nodes"))
            driver.may_place.wait()
        answer(driver.do(deed))
    except RuntimeError as error:
        driver.end()
        answer({"error": str(error)})
        os._exit(1)
    if deed == "place":
        threading.Event().wait()


def _hold(driver: Driver, answer: Callable[[Mapping[str, Any]], None]) -> NoReturn:
    """Hear what becomes of the hosts: with the end of the input they end, too."""
    code = 0
    try:
        word = sys.stdin.readline().strip()
        if word == "place":
            driver.may_place.set()
            word = sys.stdin.readline().strip()
        if word == "keep":
            answer(driver.do("keep"))
        else:
            driver.end()
    except RuntimeError as error:
        code = 1
        answer({"error": str(error)})
    finally:
        os._exit(code)


if __name__ == "__main__":
    _main(sys.argv[1])
