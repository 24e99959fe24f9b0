"""Hosts with networks between them that break, are cut, or bring strangers (cases N)."""

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from danaus.actor import HostMesh, SupervisionError, attach_to_workers
from danaus.config import configured
from danaus.job import JobKey
from danaus.testing import wait_until
from tests.cluster.namespaces import NetworkHost, can_be_made, network
from tests.integration.remote_actors import Counter
from tests.remote_workers import Worker, workers

PATIENCE = 30.0

needs_namespaces = pytest.mark.skipif(not can_be_made(), reason="no network namespaces here")


class Wire:
    """A connection between a client and a worker that can be broken: a relay of bytes."""

    def __init__(self, target: str) -> None:
        host, port = target.removeprefix("tcp://").rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.broken = 0
        self.made = 0
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            self.made += 1
            self._pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            self.broken += 1
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
        self._server.join(PATIENCE)
        self._listener.close()
        self.cut()


@pytest.fixture
def wired(tmp_path: Path) -> Generator[tuple[HostMesh, list[Wire]]]:
    """Two hosts that this client reaches by wires that can be cut."""
    with workers(tmp_path, 2) as (started, key):
        wires = [Wire(worker.address) for worker in started]
        hosts = attach_to_workers(workers=[wire.address for wire in wires], key=key)
        yield hosts, wires
        hosts.shutdown().get(PATIENCE)
        for wire in wires:
            wire.close()


def test_no_message_is_lost_doubled_or_reordered_when_connections_break(
    wired: tuple[HostMesh, list[Wire]],
):
    hosts, wires = wired
    actors = hosts.spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
    actors.add.call(-1).get(PATIENCE)
    chance = random.Random(7)

    for number in range(3000):
        actors.add.broadcast(number)
        if chance.random() < 0.005:
            chance.choice(wires).cut()

    assert sum(wire.broken for wire in wires) > 0
    for seen in actors.all.call().get(PATIENCE).values():
        assert seen == [-1, *range(3000)]


def test_large_messages_survive_a_break_in_their_middle(wired: tuple[HostMesh, list[Wire]]):
    hosts, wires = wired
    one = hosts.spawn_procs().spawn("counters", Counter).slice(hosts=0)
    one.add.call_one(0).get(PATIENCE)
    size = 40_000_000

    sent = [one.length.call_one(bytes(size)) for _ in range(3)]
    back = [one.give.call_one(size) for _ in range(2)]
    for _ in range(3):
        made = wires[0].made
        wires[0].cut()
        wait_until(lambda made=made: wires[0].made > made, timeout=PATIENCE)

    assert [future.get(PATIENCE) for future in sent] == [size] * 3
    assert [len(future.get(PATIENCE)) for future in back] == [size] * 2


def call_until_it_fails(actors: Counter) -> None:
    while True:
        actors.add.call(2).get(PATIENCE)


def test_a_worker_that_is_killed_fails_pending_calls_and_is_named(tmp_path: Path, faults: object):
    with workers(tmp_path, 2) as (started, key):
        addresses = [worker.address for worker in started]
        hosts = attach_to_workers(workers=addresses, key=key, name="node")
        actors = hosts.spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
        actors.add.call(1).get(PATIENCE)

        started[1].process.kill()

        with pytest.raises(SupervisionError, match=started[1].address):
            call_until_it_fails(actors)
        alive = actors.slice(hosts=0)
        assert list(alive.add.call(3).get(PATIENCE).values()) == [3, 3]


# strangers


def refuse_quietly(connect: Callable[[], socket.socket], data: bytes) -> None:
    """Say something that is no valid preface, and see the connection closed."""
    with connect() as sock:
        sock.settimeout(PATIENCE)
        with suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert sock.recv(100) == b""


class Bomb:
    """What must never be unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.path), 0o700)


def strangers_words(folder: Path) -> list[bytes]:
    import pickle

    import msgspec

    from danaus._net.preface import encode_local, encode_remote
    from danaus._wire.frame import encode_small

    bomb = pickle.dumps(Bomb(folder / "exploded"))
    call = msgspec.msgpack.encode(("proc", "actor", "me", "root", 0, "m", -1, 0, b""))
    wish = ["hello", "client-x", 0, {}, "link"]
    return [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"DAN1",
        b"DAN1\xff\xff\xff\xff" + b"x" * 100,
        b"DAN1\x00\x10\x00\x00" + os.urandom(4096),
        encode_local(wish) + encode_small(1, call, bomb),
        encode_remote(wish, JobKey.make()) + encode_small(1, call, bomb),
        encode_small(1, call, bomb),
        os.urandom(10_000),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500),
    ]


def test_a_stranger_gets_nothing_and_nothing_of_it_is_unpickled(tmp_path: Path):
    """N4, N5."""
    with workers(tmp_path, 1) as (started, key):
        host, port = started[0].address.removeprefix("tcp://").rsplit(":", 1)
        actors = attach_to_workers(workers=[started[0].address], key=key)
        counter = actors.spawn_procs().spawn("counters", Counter)
        counter.add.call(0).get(PATIENCE)

        for words in strangers_words(tmp_path):
            refuse_quietly(lambda: socket.create_connection((host, int(port))), words)

        assert not (tmp_path / "exploded").exists()
        assert list(counter.add.call(1).get(PATIENCE).values()) == [1]


def test_silent_strangers_keep_nobody_out(tmp_path: Path):
    """N5."""
    with workers(tmp_path, 1) as (started, key):
        host, port = started[0].address.removeprefix("tcp://").rsplit(":", 1)
        silent = [socket.create_connection((host, int(port))) for _ in range(700)]
        try:
            hosts = attach_to_workers(workers=[started[0].address], key=key)

            counter = hosts.spawn_procs().spawn("counters", Counter)

            assert list(counter.add.call(1).get(PATIENCE).values()) == [1]
        finally:
            for sock in silent:
                sock.close()


# networks that are cut


@contextmanager
def workers_on(
    hosts: Sequence[NetworkHost], folder: Path, address: str = "tcp://{0.ipv4}:26600"
) -> Generator[tuple[list[Worker], Path]]:
    """A worker on each of these hosts, and the path of their key."""
    key = folder / "job.key"
    JobKey.make().save(key)
    with ExitStack() as stack:
        started: list[Worker] = []
        for host in hosts:
            worker = Worker(key, address.format(host), host.name, host.inside)
            stack.callback(worker.end)
            started.append(worker)
        yield started, key


@pytest.fixture
def hosts_of_network() -> Generator[list[NetworkHost]]:
    with network(3) as made:
        yield made


@needs_namespaces
def test_a_host_behind_a_drop_rule_is_named_within_seconds(
    tmp_path: Path, hosts_of_network: list[NetworkHost]
):
    """N2."""
    good, bad = hosts_of_network[:2]
    with workers_on([good, bad], tmp_path) as (started, key), configured(host_dead_after="3s"):
        bad.cut()
        begin = time.monotonic()
        hosts = attach_to_workers(workers=[w.address for w in started], key=key)

        with pytest.raises(RuntimeError) as caught:
            hosts.initialized.get(PATIENCE)

        bad.heal()
        text = str(caught.value)
        assert bad.ipv4 in text
        assert good.ipv4 not in text
        assert "firewall" in text
        assert "\n" not in text
        assert time.monotonic() - begin < 15


@needs_namespaces
def test_a_host_that_is_cut_off_fails_its_calls_and_the_others_go_on(
    tmp_path: Path, hosts_of_network: list[NetworkHost], faults: object
):
    quick = configured(host_dead_after="3s", link_resume_within="1s")
    with workers_on(hosts_of_network, tmp_path) as (started, key), quick:
        hosts = attach_to_workers(workers=[w.address for w in started], key=key)
        actors = hosts.spawn_procs().spawn("counters", Counter)
        actors.add.call(1).get(PATIENCE)

        hosts_of_network[2].cut()

        with pytest.raises(SupervisionError, match=hosts_of_network[2].ipv4):
            actors.slice(hosts=2).add.call(2).get(PATIENCE)
        others = actors.slice(hosts=slice(0, 2))
        assert list(others.add.call(3).get(PATIENCE).values()) == [3, 3]
        hosts_of_network[2].heal()


@needs_namespaces
def test_hosts_reach_each_other_by_ipv6(tmp_path: Path, hosts_of_network: list[NetworkHost]):
    with workers_on(hosts_of_network, tmp_path, "tcp://[{0.ipv6}]:26600") as (started, key):
        hosts = attach_to_workers(workers=[w.address for w in started], key=key)
        actors = hosts.spawn_procs().spawn("counters", Counter)

        answers = actors.slice(hosts=slice(0, 2)).ask.call(actors.slice(hosts=2), 7)

        assert list(answers.get(PATIENCE).values()) == [7, 7]


@needs_namespaces
def test_a_worker_on_all_addresses_tells_one_that_others_reach(
    tmp_path: Path, hosts_of_network: list[NetworkHost]
):
    """N1: the name of this machine, which its namespaces share, is no address of theirs."""
    with workers_on(hosts_of_network[:1], tmp_path, "tcp://*:26600") as (started, key):
        hosts = attach_to_workers(workers=[started[0].address], key=key)

        assert started[0].address == f"tcp://{hosts_of_network[0].ipv4}:26600"
        assert hosts.initialized.get(PATIENCE) is True
