"""Hosts that somebody else starts, on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

import pytest

from danaus._proc.lease import greet
from danaus.actor import (
    Future,
    SupervisionError,
    attach_to_workers,
    enable_transport,
    run_worker_loop_forever,
)
from danaus.config import configured
from danaus.job import JobKey
from tests.integration.spawn_actors import Inspector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = "from danaus.actor import run_worker_loop_forever as r; r(address={!r})"


EMBEDDED = """
import sys
from danaus.actor import run_worker_loop_until_shutdown
for _ in range(2):
    run_worker_loop_until_shutdown(address={!r})
    print("returned", flush=True)
"""


@contextmanager
def workers(directory: Path, count: int) -> Iterator[list[str]]:
    """Worker processes that serve in a directory; their addresses."""
    addresses = [f"ipc://{directory}/{i}" for i in range(count)]
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER.format(address)]) for address in addresses
    ]
    try:
        yield addresses
    finally:
        for process in started:
            process.terminate()
            process.wait(20)


def test_a_client_attaches_to_workers_in_their_order(tmp_path: Path) -> None:
    with workers(tmp_path, 3) as addresses:
        hosts = attach_to_workers(workers=addresses, ca="trust_all_connections")
        inspectors = hosts.spawn_procs(per_host={"gpus": 2}).spawn("i", Inspector)

        places = inspectors.place.call().get(20)

        assert places.extent.sizes == [3, 2]
        assert [rank for _, rank, _ in places.values()] == list(range(6))


def test_shutdown_ends_the_workers_and_leaves_the_files_beside_their_sockets(
    tmp_path: Path,
) -> None:
    (tmp_path / "precious").touch()
    with workers(tmp_path, 2) as addresses:
        hosts = attach_to_workers(workers=addresses)
        assert hosts.initialized.get(20) is True

        hosts.shutdown().get(20)

    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_an_address_where_nobody_serves_is_named(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/nobody"
    with configured(mesh_attach_config_timeout="200ms"):
        hosts = attach_to_workers(workers=[address])

        with pytest.raises(RuntimeError, match=r"attach failed.*nobody"):
            hosts.initialized.get(20)
    with pytest.raises(RuntimeError, match=r"attach failed.*nobody"):
        hosts.spawn_procs()


def test_addresses_may_come_later(tmp_path: Path) -> None:
    asked, told = Event(), Event()

    async def address_of(place: str) -> str:
        asked.set()
        assert told.wait(20)
        return place

    with workers(tmp_path, 2) as addresses:
        hosts = attach_to_workers(workers=[Future._from_coro(address_of(a)) for a in addresses])
        assert hosts.extent.sizes == [2]
        first = hosts.slice(hosts=0)
        assert asked.wait(20)
        with pytest.raises(TimeoutError):
            hosts.initialized.get(0.05)
        told.set()

        names = hosts.spawn_procs().spawn("i", Inspector).place.call().get(20)
        assert [rank for _, rank, _ in names.values()] == [0, 1]
        assert first.spawn_procs().spawn("i", Inspector).place.call_one().get(20)
        hosts.shutdown().get(20)


def test_an_embedded_worker_returns_when_it_is_shut_down_and_may_serve_again(
    tmp_path: Path,
) -> None:
    address = f"ipc://{tmp_path}/w"
    process = subprocess.Popen(
        [sys.executable, "-c", EMBEDDED.format(address)], stdout=subprocess.PIPE, text=True
    )
    try:
        for _ in range(2):
            hosts = attach_to_workers(workers=[address])
            assert hosts.spawn_procs().spawn("i", Inspector).place.call_one().get(20)
            hosts.shutdown().get(20)

            assert process.stdout
            assert process.stdout.readline() == "returned\n"
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_an_embedded_worker_ends_with_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danaus.actor.unhandled_fault_hook", lambda _failure: None)
    address = f"ipc://{tmp_path}/w"
    with subprocess.Popen([sys.executable, "-c", EMBEDDED.format(address)]) as process:
        hosts = attach_to_workers(workers=[address])
        inspector = hosts.spawn_procs().spawn("i", Inspector)
        assert inspector.place.call_one().get(20)
        waiting = inspector.evaluate.call_one(lambda: Event().wait(60))

        process.kill()

    with pytest.raises(SupervisionError):
        waiting.get(20)


def test_an_embedded_worker_that_is_killed_says_so(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/w"
    with subprocess.Popen(
        [sys.executable, "-c", EMBEDDED.format(address)], stderr=subprocess.PIPE, text=True
    ) as process:
        assert attach_to_workers(workers=[address]).initialized.get(20)
        (agent,) = greet([f"{tmp_path}/w"], 20)

        os.kill(agent.pid, signal.SIGKILL)

        assert process.stderr
        assert f"the host at {address} was not shut down: it ended by SIGKILL" in (
            process.stderr.read()
        )


@pytest.mark.parametrize("address", ["tcp://node1:22222", None])
def test_an_address_that_cannot_be_had_fails_the_attachment(address: str | None) -> None:
    async def find() -> str:
        if address is None:
            raise LookupError("no such machine")
        return address

    hosts = attach_to_workers(workers=[Future._from_coro(find())], name="trainers")

    with pytest.raises(RuntimeError, match=r"attach failed: host 'trainers_0' has no address"):
        hosts.initialized.get(20)
    with pytest.raises(RuntimeError, match="attach failed"):
        hosts.spawn_procs()


def test_a_worker_may_be_reached_by_another_path_than_it_serves_at(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "far").mkdir()
    link.symlink_to(tmp_path / "far")
    address = f"ipc://{link}/w@ipc://{tmp_path}/far/w"
    process = subprocess.Popen([sys.executable, "-c", WORKER.format(address)])
    try:
        hosts = attach_to_workers(workers=[address])

        assert hosts.initialized.get(20) is True
        hosts.shutdown().get(20)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(20)


@pytest.mark.parametrize("address", ["http://node1:22222", "node1", ""])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="ipc://PATH"):
        attach_to_workers(workers=[address])


def test_a_worker_that_cannot_bind_says_where(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER.format(f"ipc://{tmp_path}/no/such/directory/s")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert done.returncode != 0
    assert "cannot serve at ipc://" in done.stderr


def test_known_transports_are_accepted_and_others_refused() -> None:
    enable_transport("ipc")
    enable_transport("tcp")

    with pytest.raises(ValueError, match="names no transport"):
        enable_transport("pigeon")


def test_a_worker_whose_report_reaches_nobody_leaves_nothing(tmp_path: Path):
    def report(address: str, name: str) -> None:
        raise BrokenPipeError(address)

    key = JobKey.make()
    for address in ("tcp://127.0.0.1:0", f"ipc://{tmp_path}/socket"):
        with pytest.raises(BrokenPipeError):
            run_worker_loop_forever(address=address, key=key, on_listening=report)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--address", "http://*:0"], "neither of the form"),
        (["--address", "tcp://*:0"], "needs the key of its job"),
        (["--address", "tcp://*:0", "--key", "nowhere"], "cannot be read"),
        (["--address", "ipc:///tmp/x", "--report", "/tmp/"], "no launcher says"),
    ],
)
def test_an_option_of_a_worker_that_cannot_be_followed_is_said_in_one_line(
    options: list[str], text: str
):
    command = [sys.executable, "-m", "danaus_cli", "worker", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
