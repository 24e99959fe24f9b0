"""Strangers in great numbers get nothing, and keep nobody from working."""

import os
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from benchmarks.flood import OPEN, flooding
from danaus._net.preface import encode_remote
from danaus.actor import attach_to_workers
from danaus.job import JobKey
from danaus.testing import wait_until
from tests.integration.remote_actors import Counter
from tests.remote_workers import workers

pytestmark = [pytest.mark.fault, pytest.mark.needs_linux]

PATIENCE = 30.0
SOON = 5.0
"""Less than the 10 s after which whoever says nothing is closed, be there few or many."""
MOST_VISITORS = 512
"""That have not said what they want, and are let stay."""


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident(pid: int) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def offspring(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def listening(pids: list[int]) -> set[int]:
    """TCP ports on which any of these processes listens."""
    inodes: set[str] = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(fd.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def test_a_host_has_one_open_port_and_its_procs_and_its_client_none(tmp_path: Path):
    with workers(tmp_path, 1) as (started, key):
        worker = started[0]
        hosts = attach_to_workers(workers=[worker.address], key=key)
        counter = hosts.spawn_procs(per_host={"procs": 3}).spawn("counters", Counter)
        counter.add.call(1).get(PATIENCE)

        family = offspring(worker.process.pid)
        assert len(family) >= 5  # the worker, its zygote, three procs
        assert listening(family) == {int(worker.address.rsplit(":", 1)[1])}
        assert listening([os.getpid()]) == set()


def first_words_of_tls() -> bytes:
    """What a client says first: a server that speaks TLS answers it."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="x")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def answer_to(address: tuple[str, int], words: bytes) -> bytes:
    """What comes back until the connection is closed."""
    with socket.create_connection(address, timeout=PATIENCE) as sock:
        try:
            sock.sendall(words)
            return sock.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def test_tls_begins_with_the_key_of_the_job_only(tmp_path: Path):
    with workers(tmp_path, 1) as (started, key):
        host, port = started[0].address.removeprefix("tcp://").rsplit(":", 1)
        address = (host, int(port))
        wish = ["hello", "client-x", 0, {}, "link"]
        hello = first_words_of_tls()

        assert answer_to(address, encode_remote(wish, JobKey.load(key)) + hello)
        assert answer_to(address, encode_remote(wish, JobKey.make()) + hello) == b""
        assert answer_to(address, hello) == b""


def test_of_a_silent_crowd_the_first_are_closed_for_the_last(tmp_path: Path):
    with workers(tmp_path, 1) as (started, _key), ExitStack() as stack:
        worker = started[0]
        pid = worker.process.pid
        host, port = worker.address.removeprefix("tcp://").rsplit(":", 1)
        before = descriptors(pid)
        most = 0

        crowd: list[socket.socket] = []
        for _ in range(MOST_VISITORS + 100):
            crowd.append(stack.enter_context(socket.create_connection((host, int(port)))))
            most = max(most, descriptors(pid))
        crowd[99].settimeout(SOON)
        assert crowd[99].recv(1) == b""  # closed for the very last

        assert max(most, descriptors(pid)) <= before + MOST_VISITORS + 10
        crowd[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            crowd[-1].recv(1)


def test_a_flood_of_strangers_keeps_nobody_from_working(tmp_path: Path):
    with workers(tmp_path, 1) as (started, key):
        worker = started[0]
        pid = worker.process.pid
        hosts = attach_to_workers(workers=[worker.address], key=key)
        counter = hosts.spawn_procs().spawn("counters", Counter)
        counter.add.call(0).get(PATIENCE)
        before, memory = descriptors(pid), resident(pid)
        most = 0

        with flooding("127.0.0.1", int(worker.address.rsplit(":", 1)[1])) as found:
            wait_until(lambda: descriptors(pid) > before + 50, timeout=PATIENCE)
            for number in range(1, 2001):
                assert counter.add.call_one(number).get(PATIENCE) == number
                if number % 100 == 0:
                    most = max(most, descriptors(pid))
            # Those who come with the key are let in meanwhile.
            late = attach_to_workers(workers=[worker.address], key=key, name="late")
            newcomer = late.spawn_procs().spawn("late", Counter)
            assert list(newcomer.add.call(7).get(PATIENCE).values()) == [7]

        count, _seconds, answered = found
        assert count > 1000
        assert answered == 0
        assert most <= before + OPEN + 10
        wait_until(lambda: descriptors(pid) <= before + 10, timeout=PATIENCE)
        assert resident(pid) - memory < 64 << 20
        assert counter.all.call_one().get(PATIENCE) == list(range(2001))
