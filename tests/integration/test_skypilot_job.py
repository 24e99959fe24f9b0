"""SkyPilotJob with real workers on a cloud of this machine: each node has an address of its own.

The task's own script is run for each node, as SkyPilot would. The seam to the real library is in
tests/skypilot/test_library.py.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from danaus._job.skypilot_calls import GONE
from danaus.job import SkyPilotJob
from tests.integration.remote_actors import call_all

PATIENCE = 20.0


class Cloud:
    """What SkyPilot's library does, with processes for nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[subprocess.Popen[str]]] = {}

    def launch(
        self, config: dict[str, Any], cluster: str, *, idle_minutes: int | None, down: bool
    ) -> int:
        assert idle_minutes is None
        self.nodes[cluster] = []
        for rank in range(config["num_nodes"]):
            # Nodes have all their addresses to themselves; these share a machine.
            script = config["run"].replace("tcp://*:", f"tcp://{self.address(rank)}:")
            self.nodes[cluster].append(
                subprocess.Popen(
                    ["bash", "-c", script],
                    env={**os.environ, **config["secrets"], "SKYPILOT_NODE_RANK": str(rank)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return 1

    @staticmethod
    def address(rank: int) -> str:
        return f"127.0.0.{rank + 1}"

    def addresses(self, cluster: str) -> list[tuple[str, str]]:
        return [(self.address(i), self.address(i)) for i in range(len(self.nodes[cluster]))]

    def state(self, cluster: str) -> str:
        return "UP" if cluster in self.nodes else GONE

    def has_ended(self, cluster: str, number: int | None) -> bool:
        return all(node.poll() is not None for node in self.nodes[cluster])

    def logs(self, cluster: str, number: int | None) -> str:
        # Read to their end: the workers that are asked for have ended.
        return "".join(node.stdout.read() for node in self.nodes[cluster] if node.stdout)

    def down(self, cluster: str) -> None:
        for node in self.nodes.pop(cluster, []):
            node.send_signal(signal.SIGTERM)
            node.wait(PATIENCE)
            assert node.stdout is not None
            node.stdout.close()


class Job(SkyPilotJob):
    cloud = Cloud()

    def _sky(self) -> Any:
        return self.cloud


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Generator[Cloud]:
    made = Cloud()
    monkeypatch.setattr(Job, "cloud", made)
    yield made
    for cluster in list(made.nodes):
        made.down(cluster)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def make(port: int, python: str = sys.executable) -> Job:
    return Job({"trainers": 2, "loaders": 1}, danaus_port=port, python_exe=python)


def test_a_job_provides_its_meshes_and_its_end_is_that_of_the_cluster(cloud: Cloud):
    job = make(free_port())

    assert call_all(job) == [5] * 4 + [6]
    assert list(cloud.nodes) == [job.cluster]

    job.kill()
    assert cloud.nodes == {}
    job.kill()


def test_the_next_client_finds_the_cluster_and_its_workers(cloud: Cloud, tmp_path: Path):
    path, port = tmp_path / "job.json", free_port()
    first = make(port)
    assert call_all(first, path) == [5] * 4 + [6]

    second = make(port)
    assert call_all(second, path) == [5] * 4 + [6]
    assert second.apply_id == first.apply_id

    second.kill()
    assert cloud.nodes == {}
    assert not path.exists()


def test_a_cluster_that_somebody_has_deleted_is_launched_anew(cloud: Cloud, tmp_path: Path):
    path, port = tmp_path / "job.json", free_port()
    first = make(port)
    call_all(first, path)
    cloud.down(first.cluster)

    second = make(port)
    assert call_all(second, path) == [5] * 4 + [6]

    assert second.apply_id != first.apply_id
    second.kill()


def test_workers_that_cannot_start_are_told_with_their_words_and_the_cluster_is_deleted(
    cloud: Cloud,
):
    job = make(free_port(), python="/nowhere/python")

    with pytest.raises(RuntimeError, match=r"ended as they started.*/nowhere/python"):
        job.apply()

    assert cloud.nodes == {}


def test_what_the_workers_wrote_names_the_hosts_of_the_meshes(cloud: Cloud):
    job = make(free_port())
    call_all(job)
    nodes = cloud.nodes[job.cluster]
    for node in nodes:
        node.send_signal(signal.SIGTERM)
        node.wait(PATIENCE)

    words = job.logs()[job.cluster]

    assert [f'"name": "{name}"' in words for name in ("trainers_0", "trainers_1", "loaders_0")] == [
        True
    ] * 3
    job.kill()
