"""Hosts at TCP addresses: whatever works on one machine works between machines."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from danaus.actor import (
    Actor,
    Channel,
    HostMesh,
    SupervisionError,
    attach_to_workers,
    endpoint,
    this_host,
    this_proc,
)
from danaus.config import configured
from danaus.errors import JobKeyError
from danaus.job import JobKey
from danaus.testing import wait_until
from tests.integration.remote_actors import Counter
from tests.remote_workers import Worker, workers

PATIENCE = 20.0


@pytest.fixture
def hosts(tmp_path: Path) -> Generator[HostMesh]:
    """Two workers, attached."""
    with workers(tmp_path, 2) as (started, key):
        addresses = [worker.address for worker in started]
        yield attach_to_workers(workers=addresses, key=key, name="host")


def counters(hosts: HostMesh, per_host: int = 2) -> Counter:
    return hosts.spawn_procs(per_host={"procs": per_host}).spawn("counters", Counter)


def test_calls_reach_every_rank_on_every_host(hosts: HostMesh):
    assert list(counters(hosts).add.call(5).get(PATIENCE).values()) == [5] * 4


def test_messages_from_one_to_another_arrive_in_order(hosts: HostMesh):
    one = counters(hosts).slice(hosts=1, procs=0)

    for number in range(2000):
        one.add.broadcast(number)

    assert one.all.call_one().get(PATIENCE) == list(range(2000))


def test_a_mesh_of_hosts_that_was_sent_to_one_of_them_answers_there(hosts: HostMesh):
    assert list(counters(hosts, per_host=1).finds.call(hosts).get(PATIENCE).values()) == [True] * 2


def test_what_was_sent_is_acknowledged_though_nothing_else_is_said(hosts: HostMesh):
    port, receiver = Channel[int].open()

    had_all = counters(hosts, per_host=1).tell_and_flush.call(port)

    assert receiver.recv().get(PATIENCE) > 0
    assert list(had_all.get(PATIENCE).values()) == [True, True]


@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000, 5_000_001])
def test_arguments_and_results_of_any_size_arrive_whole(hosts: HostMesh, size: int):
    one = counters(hosts).slice(hosts=0, procs=1)

    assert one.length.call_one(bytes(size)).get(PATIENCE) == size
    assert len(one.give.call_one(size).get(PATIENCE)) == size


def test_an_actor_calls_one_on_another_host_that_it_was_given(hosts: HostMesh):
    actors = counters(hosts)

    answers = actors.slice(hosts=0).ask.call(actors.slice(hosts=1, procs=0), 7).get(PATIENCE)

    assert list(answers.values()) == [7, 7]


def test_actors_send_to_a_port_of_the_client(hosts: HostMesh):
    actors = counters(hosts)
    port, receiver = Channel[int].open()

    actors.tell.call(port).get(PATIENCE)

    pids = {receiver.recv().get(PATIENCE) for _ in range(4)}
    assert pids == set(actors.pid.call().get(PATIENCE).values())


class Asker(Actor):
    @endpoint
    def ask(self, other: Counter) -> int:
        return other.add.call_one(3).get(PATIENCE)


def test_actors_call_one_in_the_client(hosts: HostMesh):
    here = this_proc().spawn("here", Counter)
    asker = hosts.spawn_procs().spawn("asker", Asker)

    assert list(asker.ask.call(here).get(PATIENCE).values()) == [3, 3]


def test_the_death_of_a_proc_is_told_with_its_host_and_signal(hosts: HostMesh, failures: object):
    one = counters(hosts).slice(hosts=1, procs=0)

    with pytest.raises(SupervisionError, match=r"(?s)host-1.*SIGKILL"):
        one.die.call_one().get(PATIENCE)


def test_an_actor_learns_of_the_death_of_its_peer_on_another_host(
    hosts: HostMesh, failures: object
):
    actors = counters(hosts)
    victim = actors.slice(hosts=1, procs=0)
    asker = actors.slice(hosts=0, procs=0)
    assert asker.ask.call_one(victim, 1).get(PATIENCE) == 1

    with pytest.raises(SupervisionError):
        victim.die.call_one().get(PATIENCE)
    with pytest.raises(Exception, match="SIGKILL"):
        asker.ask.call_one(victim, 2).get(PATIENCE)


def test_procs_know_nothing_of_the_key_in_their_environment(hosts: HostMesh):
    for variables in counters(hosts).variables.call().get(PATIENCE).values():
        assert not [name for name, value in variables.items() if "PRIVATE KEY" in value]


def test_shutdown_ends_the_workers(tmp_path: Path):
    with workers(tmp_path, 2) as (started, key):
        hosts = attach_to_workers(workers=[w.address for w in started], key=key)
        counters(hosts).add.call(1).get(PATIENCE)

        hosts.shutdown().get(PATIENCE)

        assert [worker.process.wait(PATIENCE) for worker in started] == [0, 0]


def test_a_worker_ends_with_its_standard_input(tmp_path: Path):
    with workers(tmp_path, 1) as (started, _):
        assert started[0].end() == 0


CLIENT = """
import sys
from danaus.actor import attach_to_workers
from tests.integration.remote_actors import Counter
hosts = attach_to_workers(workers=sys.argv[2:], key=sys.argv[1])
actors = hosts.spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
print(*actors.pid.call().get(20).values(), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_client(key: Path, *addresses: str) -> Generator[tuple[subprocess.Popen[bytes], set[int]]]:
    """Another client of these workers, and the processes that it has there."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(key), *addresses],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert client.stdout is not None
    assert client.stdin is not None
    with client.stdout, client.stdin:
        yield client, set(map(int, client.stdout.readline().split()))


def test_workers_serve_a_client_after_another_was_killed(tmp_path: Path):
    with workers(tmp_path, 2) as (started, key):
        addresses = [worker.address for worker in started]
        with other_client(key, *addresses) as (client, pids):
            client.kill()
            client.wait()

        actors = counters(attach_to_workers(workers=addresses, key=key))

        assert list(actors.add.call(1).get(PATIENCE).values()) == [1] * 4
        assert len(pids) == 4


def test_two_clients_use_the_same_workers_at_a_time(tmp_path: Path):
    with workers(tmp_path, 1) as (started, key):
        address = started[0].address
        with other_client(key, address) as (client, theirs):
            actors = counters(attach_to_workers(workers=[address], key=key))
            ours = set(actors.pid.call().get(PATIENCE).values())
            assert client.stdin is not None
            client.stdin.close()
            assert client.wait(PATIENCE) == 0

        assert not theirs & ours
        assert set(actors.pid.call().get(PATIENCE).values()) == ours


def test_without_a_key_nothing_is_attached_or_served(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DANAUS_JOB_KEY", raising=False)

    with pytest.raises(JobKeyError, match="pass key="):
        attach_to_workers(workers=["tcp://127.0.0.1:26600"])


def test_another_jobs_key_opens_nothing_and_the_text_says_so(tmp_path: Path):
    other = tmp_path / "other.key"
    JobKey.make().save(other)
    with workers(tmp_path, 1) as (started, _):
        hosts = attach_to_workers(workers=[started[0].address], key=other)

        with pytest.raises(RuntimeError, match="another job key"):
            hosts.initialized.get(PATIENCE)


def test_an_address_where_nobody_listens_is_named(tmp_path: Path):
    with workers(tmp_path, 1) as (started, key):
        gone = started[0].address
        started[0].end()
        hosts = attach_to_workers(workers=[gone], key=key)

        with pytest.raises(RuntimeError, match=f"nobody listens at {gone}"):
            hosts.initialized.get(PATIENCE)


def test_a_worker_that_was_started_again_at_its_address_is_attached_to_again(
    tmp_path: Path, failures: object
):
    with workers(tmp_path, 1) as (started, key):
        address = started[0].address
        counters(attach_to_workers(workers=[address], key=key)).add.call(1).get(PATIENCE)
        started[0].end()
        with pytest.raises(RuntimeError, match="nobody listens"):
            attach_to_workers(workers=[address], key=key).initialized.get(PATIENCE)

        again = Worker(key, address)
        try:
            actors = counters(attach_to_workers(workers=[address], key=key))

            assert list(actors.add.call(2).get(PATIENCE).values()) == [2, 2]
        finally:
            again.end()


def test_a_worker_is_reached_by_its_name(tmp_path: Path):
    key = tmp_path / "k"
    JobKey.make().save(key)
    worker = Worker(key, "tcp://localhost:0")
    try:
        actors = counters(attach_to_workers(workers=[worker.address], key=key))

        assert "localhost" in worker.address
        assert list(actors.add.call(2).get(PATIENCE).values()) == [2, 2]
    finally:
        worker.end()


def test_a_worker_serves_ipv6(tmp_path: Path):
    key = tmp_path / "k"
    JobKey.make().save(key)
    worker = Worker(key, "tcp://[::1]:0")
    try:
        actors = counters(attach_to_workers(workers=[worker.address], key=key))

        assert worker.address.startswith("tcp://[::1]:")
        assert list(actors.add.call(2).get(PATIENCE).values()) == [2, 2]
    finally:
        worker.end()


def test_a_worker_that_is_told_to_end_as_soon_as_it_listens_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with tempfile.TemporaryDirectory(prefix="run-") as run:
        monkeypatch.setenv("XDG_RUNTIME_DIR", run)
        key = tmp_path / "job.key"
        JobKey.make().save(key)

        for _ in range(5):
            worker = Worker(key)
            worker.process.terminate()
            worker.process.wait(PATIENCE)
            worker.end()
            wait_until(lambda: not list(Path(run).iterdir()), timeout=PATIENCE)


def test_ctrl_c_ends_a_worker_and_what_runs_on_it(tmp_path: Path):
    key = tmp_path / "job.key"
    JobKey.make().save(key)
    command = [sys.executable, "-m", "danaus_cli", "worker", "--key", str(key)]
    command += ["--address", "tcp://127.0.0.1:0"]
    worker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert worker.stdout is not None
    address = json.loads(worker.stdout.readline())["address"]
    hosts = attach_to_workers(workers=[address], key=key)
    counters(hosts).add.call(1).get(PATIENCE)
    hosts.stop().get(PATIENCE)

    os.killpg(worker.pid, signal.SIGINT)  # as a terminal does

    _, errors = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, errors.decode()) == (0, "")


GATEWAY = """
import sys
from danaus.actor import attach, attach_to_workers, shutdown_context
from tests.integration.remote_actors import Counter
attach(sys.argv[2], key=sys.argv[1])
hosts = attach_to_workers(workers=sys.argv[3:], key=sys.argv[1])
actors = hosts.spawn_procs(per_host={"procs": 2}).spawn("counters", Counter)
print(sum(actors.add.call(1).get(20).values()))
print(actors.slice(hosts=0, procs=0).length.call_one(bytes(5_000_000)).get(20))
"""


@pytest.mark.parametrize("fanout", [16, 2], ids=["directly", "down a tree"])
def test_a_client_uses_all_hosts_through_one(tmp_path: Path, fanout: int):
    """N3."""
    with workers(tmp_path, 3) as (started, key):
        addresses = [worker.address for worker in started]
        done = subprocess.run(
            [sys.executable, "-c", GATEWAY, str(key), addresses[0], *addresses],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "DANAUS_MAX_CAST_FANOUT": str(fanout)},
        )

        assert (done.stdout.split(), done.returncode) == (["6", "5000000"], 0), done.stderr


def test_a_local_mesh_works_beside_remote_hosts(hosts: HostMesh):
    local = this_host().spawn_procs().spawn("local", Counter)

    assert local.add.call_one(1).get(PATIENCE) == 1
    assert list(counters(hosts, 1).add.call(1).get(PATIENCE).values()) == [1, 1]


def test_casts_to_many_procs_of_remote_hosts_go_through_their_agents(hosts: HostMesh):
    with configured(direct_links_max=2):
        actors = counters(hosts, 3)

        for number in range(20):
            assert list(actors.add.call(number).get(PATIENCE).values()) == [number] * 6
        assert set(actors.length.call(bytes(1_000_000)).get(PATIENCE).values()) == {1_000_000}
        seen = actors.all.call().get(PATIENCE)
        assert list(seen.values()) == [list(range(20))] * 6
