"""Anywhere: the same program on this machine, by ssh, on Slurm, on Kubernetes and on Ray.

Only the line that makes the job differs. Every host counts the words of its share of a text, and
the client adds the counts up.

Run it: python examples/anywhere.py
        python examples/anywhere.py ssh node1 node2
        python examples/anywhere.py slurm
        python examples/anywhere.py kubernetes IMAGE
        python examples/anywhere.py ray

Options of a cluster (interpreter, partition, namespace) are arguments of its job: see docs/howto.
"""

from __future__ import annotations

import sys
from collections import Counter

from danaus.actor import Actor, current_rank, endpoint
from danaus.job import (
    ImageSpec,
    JobTrait,
    KubeConfig,
    KubernetesJob,
    ProcessJob,
    RayJob,
    SlurmJob,
    SSHJob,
)

TEXT = "the quick brown fox jumps over the lazy dog and the dog does not mind the fox " * 50


class Reader(Actor):
    """Counts words of a share of the text."""

    def __init__(self, text: str) -> None:
        rank = current_rank()
        readers = len(rank.extent) and rank.extent.nelements
        self.words = text.split()[rank.rank :: readers]

    @endpoint
    def count(self) -> dict[str, int]:
        return dict(Counter(self.words))


def make_job(where: str, names: list[str]) -> JobTrait:
    """The line that differs."""
    if where == "ssh":
        job = SSHJob(sys.executable, danaus_port=0)
        job.add_mesh("readers", names)
        return job
    if where == "slurm":
        return SlurmJob({"readers": 2}, sys.executable, danaus_port=0)
    if where == "kubernetes":
        pods = KubernetesJob("default", 120, KubeConfig.from_path("~/.kube/config"))
        pods.add_mesh("readers", 2, image_spec=ImageSpec(names[0]))
        return pods
    if where == "ray":
        return RayJob({"readers": 2})
    return ProcessJob({"readers": 2})


def count_words(job: JobTrait) -> None:
    """The program: it knows nothing of where it runs."""
    hosts = job.state(cached_path=None).readers
    readers = hosts.spawn_procs(per_host={"procs": 2}).spawn("readers", Reader, TEXT)

    total: Counter[str] = Counter()
    for counts in readers.count.call().get().values():
        total.update(counts)
    print(f"{len(hosts)} hosts, {len(readers)} readers: {total.most_common(3)}")

    job.kill()


if __name__ == "__main__":
    where, *names = sys.argv[1:] or ["here"]
    count_words(make_job(where, names))
