"""Programs that start many times: by hand, torchrun and mpirun."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus.job import JobKey
from danaus.spmd import host_mesh_from_reports
from danaus.testing import wait_until
from tests.cluster.python import interpreter
from tests.integration.remote_actors import Counter
from tests.integration.spmd_rank import FileStore

PATIENCE = 40.0
RANK = Path(__file__).with_name("spmd_rank.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


def start(folder: Path, rank: int, hosts: int, **options: object) -> subprocess.Popen[str]:
    """A rank of so many hosts with two ranks each."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    ranks = {"RANK": rank, "LOCAL_RANK": rank % 2, "WORLD_SIZE": 2 * hosts, "LOCAL_WORLD_SIZE": 2}
    return subprocess.Popen(
        [sys.executable, str(RANK), "file", str(folder), json.dumps(options)],
        env={**os.environ, **{name: str(n) for name, n in ranks.items()}, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outputs(ranks: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each rank."""
    done: list[tuple[int, str, str]] = []
    for rank in ranks:
        out, errors = rank.communicate(timeout=PATIENCE)
        done.append((rank.returncode, out, errors))
    return done


ANSWERS = [[0, None], [0, None], [1, None], [1, None]]


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_rank_0_gets_a_host_for_each_machine(folder: Path, transport: str):
    ranks = [start(folder, rank, 2, transport=transport) for rank in range(4)]

    done = outputs(ranks)

    assert [code for code, _, _ in done] == [0] * 4, done
    assert [out for _, out, _ in done] == [f"answers {json.dumps(ANSWERS)}\n", "", "", ""]


def test_the_key_is_not_left_in_the_store(folder: Path):
    outputs([start(folder, rank, 2) for rank in range(4)])

    assert not [path for path in folder.iterdir() if "PRIVATE KEY" in path.read_text()]


def test_a_key_of_all_ranks_never_comes_to_the_store(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    key = tmp_path / "job.key"
    JobKey.make().save(key)
    monkeypatch.setenv("DANAUS_JOB_KEY", str(key))

    done = outputs([start(folder, rank, 2) for rank in range(4)])

    assert done[0][1] == f"answers {json.dumps(ANSWERS)}\n"
    assert [path.name for path in folder.iterdir() if path.name.endswith("+key")] == [
        "danaus+danaus_worker+0.1+key"
    ]
    assert FileStore(str(folder)).get("danaus/danaus_worker/0.1/key") == b""


def test_a_worker_that_cannot_start_fails_its_rank_and_rank_0(folder: Path):
    # One machine, so the port of the first is taken when the second comes.
    listener = socket.create_server(("", 0))
    with listener:
        ranks = [start(folder, rank, 2, danaus_port=listener.getsockname()[1]) for rank in (0, 2)]
        done = outputs(ranks)

    assert [code for code, _, _ in done] == [1, 1]
    assert all("cannot serve at" in errors for _, _, errors in done)
    assert all("ended with exit code 1" in errors for _, _, errors in done)


def test_a_rank_that_is_killed_takes_its_host_along(folder: Path):
    first = start(folder, 0, 2)
    store = FileStore(str(folder))
    store.wait(["danaus/danaus_worker/0.1/key"])

    # Its own worker runs, and the other host never comes.
    wait_until(lambda: bool(children(first.pid)), timeout=PATIENCE, what="a worker")
    workers = children(first.pid)
    first.kill()
    first.communicate(timeout=PATIENCE)

    wait_until(
        lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers),
        timeout=PATIENCE,
        what="the end of the worker",
    )


def children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


@pytest.mark.slow
@pytest.mark.needs_torch
def test_the_ranks_of_a_real_torchrun_find_each_other(monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), str(root / "src")]))
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("", 0)) as other:
        port, rendezvous = free.getsockname()[1], other.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--nnodes=2"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{rendezvous}", "--rdzv-id=x"]

    agents = [
        subprocess.Popen(
            [*command, str(RANK), "torch", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]

    done = [agent.communicate(timeout=120) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], done
    assert "".join(out for out, _ in done) == f"answers {json.dumps(ANSWERS)}\n"


@pytest.fixture
def mpi_workers(tmp_path: Path) -> Generator[tuple[Path, subprocess.Popen[bytes]]]:
    """Three workers that mpirun has started: their folder, and mpirun."""
    JobKey.make().save(tmp_path / "job.key")
    reports = tmp_path / "reports"
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3"]
    command += [str(interpreter(tmp_path)), "-m", "danaus_cli", "worker"]
    command += ["--address", "tcp://*:0", "--key", str(tmp_path / "job.key")]
    process = subprocess.Popen([*command, "--report", f"{reports}/"], stdout=subprocess.DEVNULL)
    with process:
        try:
            yield reports, process
        finally:
            process.terminate()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_workers_of_mpirun_are_found_by_their_reports(
    mpi_workers: tuple[Path, subprocess.Popen[bytes]],
):
    reports, mpirun = mpi_workers

    hosts = host_mesh_from_reports(reports, 3, key=str(reports.parent / "job.key"))
    counters = hosts.spawn_procs().spawn("counters", Counter)

    assert list(counters.add.call(3).get(PATIENCE).values()) == [3, 3, 3]
    variables = counters.variables.call().get(PATIENCE).values()
    assert [v["OMPI_COMM_WORLD_RANK"] for v in variables] == ["0", "1", "2"]
    names = [json.loads(path.read_text())["name"] for path in sorted(reports.iterdir())]
    assert names == [f"{socket.gethostname()}_{rank}" for rank in range(3)]

    hosts.shutdown().get(PATIENCE)
    assert mpirun.wait(PATIENCE) == 0


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_workers_end_with_their_mpirun(mpi_workers: tuple[Path, subprocess.Popen[bytes]]):
    reports, mpirun = mpi_workers
    wait_until(lambda: len(list(reports.glob("?.json"))) == 3, timeout=PATIENCE, what="reports")

    mpirun.terminate()
    mpirun.wait(PATIENCE)


def test_workers_that_do_not_report_are_counted(tmp_path: Path):
    (tmp_path / "1.json").write_text('{"address": "ipc:///nowhere"}')
    (tmp_path / "0.json.77").write_text("{")

    with pytest.raises(RuntimeError, match=r"1 of 2 workers have reported .*: ranks 1"):
        host_mesh_from_reports(tmp_path, 2, timeout=0.0)


def test_a_folder_of_another_run_is_refused(tmp_path: Path):
    for rank in range(3):
        (tmp_path / f"{rank}.json").write_text('{"address": "ipc:///nowhere"}')

    with pytest.raises(ValueError, match="3 workers have reported"):
        host_mesh_from_reports(tmp_path, 2)
