"""A Ray cluster on this machine: several raylets, each a node with resources of its own.

This is also the program that runs it: Ray's threads are no part of the tests.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NODES = 3
"""Nodes with two processors and one ``slot`` each, beside the head with one processor."""

_MARK = "DANAUS_TEST_RAYLETS"
"""Variable of all processes of the cluster, and of what they start."""

_STORE = 80_000_000
"""Bytes of the object store of each node: about the least that Ray takes."""


def is_installed() -> bool:
    """Whether Ray is."""
    return find_spec("ray") is not None


class Raylets:
    """The cluster."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self._process = process
        self._mark = f"{_MARK}={mark}".encode()
        self.address: str = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def groups(self) -> list[str]:
        """Names of the placement groups that there are."""
        assert self._process.stdin is not None
        self._process.stdin.write("groups\n")
        self._process.stdin.flush()
        return self._answer()

    def hosts(self) -> list[int]:
        """Pids of the agents, and zygotes, of hosts that run on it."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                variables = folder.joinpath("environ").read_bytes().split(b"\0")
                agent = b"danaus._entry.host" in folder.joinpath("cmdline").read_bytes()
                if agent and self._mark in variables:
                    found.append(int(folder.name))
        return found


@contextmanager
def ray_cluster(folder: Path) -> Generator[Raylets]:
    """Run it."""
    with (folder / "cluster.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", _MARK: str(folder)},
        )
    with process:
        try:
            yield Raylets(process, str(folder))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    ray: Any = import_module("ray")
    cluster: Any = import_module("ray.cluster_utils").Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "include_dashboard": False,
            "object_store_memory": _STORE,
        },
    )
    for _ in range(NODES):
        cluster.add_node(num_cpus=2, resources={"slot": 1}, object_store_memory=_STORE)
    ray.init(address=cluster.address)
    answer(cluster.address)
    for _ in sys.stdin:
        table = ray.util.placement_group_table()
        answer([group["name"] for group in table.values() if group["state"] != "REMOVED"])
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    _main()
