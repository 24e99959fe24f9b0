"""Jobs on a Slurm cluster: one allocation, a worker on each of its nodes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._job.local import BatchJob
from danaus._job.mesh_name import check_mesh_name, check_node_count
from danaus._job.remote import RemoteJob
from danaus._job.slurm_commands import Slurm, batch_script
from danaus._job.trait import in_batch
from danaus._mesh.workers import attach

if TYPE_CHECKING:
    from danaus._job.squeue import Allocation
    from danaus._job.state import JobState
    from danaus._net.job_key import JobKey

__all__ = ["SlurmJob"]

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SUSPENDED"}
_RUNNING = {"RUNNING", "COMPLETING", "STAGE_OUT"}
_OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "SPECIAL_EXIT",
    "STOPPED",
    "TIMEOUT",
}

_PAUSE = 0.25
"""Seconds between two questions to the scheduler while a job starts; it grows to five."""

_REPORT_PAUSE = 0.05
"""Seconds between two looks for the reports of workers."""

_SHOWN = 2000
"""Characters of what a worker wrote that an error text has."""


class SlurmJob(RemoteJob):
    """Hosts that are nodes of a Slurm cluster, all meshes in one allocation.

    Args:
        meshes: Number of nodes of each host mesh, by its name; nodes are given out in order.
        python_exe: The interpreter on the nodes; Danaus must be installed in it. A relative path
            is looked up on the nodes' PATH.
        slurm_args: Further arguments for sbatch.
        danaus_port: Port of the workers; with several on a node, the next ones for the others.
            0: any free one.
        job_name: Name in the queue.
        ntasks_per_node: Workers of each node; each is a host.
        time_limit: As sbatch's ``--time``.
        partition: As sbatch's.
        log_dir: Folder for the job's files, on a file system that the nodes share with this
            machine; by default ``~/.danaus/slurm``.
        exclusive: Whether nodes are not shared with other jobs.
        gpus_per_node: As sbatch's.
        cpus_per_task: As sbatch's.
        mem: As sbatch's.
        job_start_timeout: Seconds that the job may wait in the queue; None for any time.
        account: As sbatch's.
        qos: As sbatch's.
        out_of_cluster: Whether this client reaches the nodes only through the first of them.
        attach_to: Address through which all hosts are reached, for a tunnel of one's own.

    Raises:
        ValueError: A mesh has no node, or a name that cannot be one.

    Example:
        >>> job = SlurmJob({"trainers": 4}, python_exe="/opt/venv/bin/python", partition="gpu")
        >>> trainers = job.state().trainers
    """

    def __init__(  # noqa: PLR0913, PLR0917  # compatible, and what sbatch has
        self,
        meshes: Mapping[str, int] | None = None,
        python_exe: str = "python",
        slurm_args: Sequence[str] = (),
        danaus_port: int = 22222,
        job_name: str = "danaus_job",
        ntasks_per_node: int = 1,
        time_limit: str | None = None,
        partition: str | None = None,
        log_dir: str | None = None,
        exclusive: bool = True,  # noqa: FBT001, FBT002  # compatible
        gpus_per_node: int | None = None,
        cpus_per_task: int | None = None,
        mem: str | None = None,
        job_start_timeout: float | None = None,
        account: str | None = None,
        qos: str | None = None,
        out_of_cluster: bool = False,  # noqa: FBT001, FBT002  # compatible
        attach_to: str | None = None,
    ) -> None:
        super().__init__()
        self.meshes: dict[str, int] = {}
        self.python_exe = python_exe
        self.port = danaus_port
        self.tasks = ntasks_per_node
        self.exclusive = exclusive
        self.log_dir = os.path.abspath(os.path.expanduser(log_dir or "~/.danaus/slurm"))
        self.start_timeout = job_start_timeout
        self.out_of_cluster = out_of_cluster
        self.attach_to = attach_to
        self._options: dict[str, Any] = {
            "job-name": job_name,
            "time": time_limit,
            "partition": partition,
            "gpus-per-node": gpus_per_node,
            "cpus-per-task": cpus_per_task,
            "mem": mem,
            "account": account,
            "qos": qos,
        }
        self._slurm_args = list(slurm_args)
        self._job_id = ""
        self._folder = ""
        for name, nodes in (meshes or {}).items():
            self.add_mesh(name, nodes)

    def add_mesh(self, name: str, num_nodes: int) -> None:
        """Have a mesh of so many nodes, beside the others.

        Raises:
            TypeError: The number is none.
            ValueError: The name cannot be one, or is taken, or there is no node.
        """
        check_mesh_name(name, list(self.meshes))
        self.meshes[name] = check_node_count(name, num_nodes)

    def share_node(
        self, tasks_per_node: int, gpus_per_task: int | None = None, partition: str | None = None
    ) -> None:
        """Have several hosts on each node, and share nodes with other jobs."""
        self.tasks = tasks_per_node
        self.exclusive = False
        if gpus_per_task is not None:
            self._options["gpus-per-task"] = gpus_per_task
            self._options["gpus-per-node"] = None
        if partition is not None:
            self._options["partition"] = partition

    @property
    def job_id(self) -> str:
        """The scheduler's number of the running job; empty when there is none."""
        return self._job_id

    # what is written down

    def _wish(self) -> dict[str, Any]:
        return {
            "meshes": self.meshes,
            "python_exe": self.python_exe,
            "port": self.port,
            "tasks": self.tasks,
            "exclusive": self.exclusive,
            "options": {k: v for k, v in self._options.items() if v is not None},
            "slurm_args": self._slurm_args,
            "log_dir": self.log_dir,
        }

    def _record(self) -> dict[str, Any]:
        reached = {"out_of_cluster": self.out_of_cluster, "attach_to": self.attach_to}
        job = {"job_id": self._job_id, "folder": self._folder}
        return {**super()._record(), **job, **reached}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        wish = fields["wish"]
        SlurmJob.__init__(
            self,
            {str(name): int(nodes) for name, nodes in wish["meshes"].items()},
            str(wish["python_exe"]),
            list(map(str, wish["slurm_args"])),
            int(wish["port"]),
            ntasks_per_node=int(wish["tasks"]),
            log_dir=str(wish["log_dir"]),
            exclusive=bool(wish["exclusive"]),
            out_of_cluster=bool(fields["out_of_cluster"]),
            attach_to=fields["attach_to"],
        )
        self._options = dict(wish["options"])
        self._job_id = str(fields["job_id"])
        self._folder = str(fields["folder"])
        super()._restore(fields)

    # the life of a job

    def _create(self, client_script: str | None) -> None:
        if client_script is None:
            super()._create(None)
            return
        key = self._key = self._make_key()
        self._run_script(
            client_script,
            BatchJob(self),
            lambda path: self._submit(key, os.path.abspath(path)),
        )

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        self._submit(key, None)
        slurm = Slurm()
        allocation = self._wait_until_running(slurm)
        wanted = sum(self.meshes.values())
        if len(allocation.nodes) != wanted:
            raise RuntimeError(
                f"Slurm job {self._job_id} was given {len(allocation.nodes)} nodes "
                f"({', '.join(allocation.nodes)}) of the {wanted} that it needs; it was cancelled"
            )
        return self._wait_for_workers(slurm)

    def _submit(self, key: JobKey, client_script: str | None) -> None:
        if not self.meshes:
            raise RuntimeError("a SlurmJob needs nodes: call add_mesh(name, num_nodes) first")
        self._check_interpreter()
        slurm = Slurm()
        self._folder = os.path.join(self.log_dir, self.apply_id or "job")
        try:
            os.makedirs(self._folder, mode=0o700)
        except OSError as error:
            raise RuntimeError(
                f"the job's files cannot be written to {self._folder}: {error.strerror}; name "
                "another folder that the nodes share, with log_dir"
            ) from error
        key.save(os.path.join(self._folder, "key"))
        with open(os.path.join(self._folder, "names"), "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in self._names())
        script = batch_script(self.python_exe, self._folder, self.port, self.tasks, client_script)
        options = {
            **self._options,
            "nodes": sum(self.meshes.values()),
            "ntasks-per-node": self.tasks,
            "output": os.path.join(self._folder, "job.log"),
        }
        flags = ["--exclusive"] if self.exclusive else []
        self._job_id = slurm.submit(script, options, [*flags, *self._slurm_args])

    def _check_interpreter(self) -> None:
        """Find a wrong path before the job has waited in the queue for an hour."""
        path = self.python_exe
        if os.path.isabs(path) and not os.access(path, os.X_OK):
            raise RuntimeError(
                f"there is no interpreter at {path} on this machine; python_exe must be the same "
                "path here and on the nodes, or a name on their PATH"
            )
        if not os.path.isabs(path) and os.sep not in path and shutil.which(path) is None:
            raise RuntimeError(f"there is no {path!r} on PATH; set python_exe to an interpreter")

    def _names(self) -> list[str]:
        return [
            f"{mesh}_{i}" for mesh, nodes in self.meshes.items() for i in range(nodes * self.tasks)
        ]

    def _wait_until_running(self, slurm: Slurm) -> Allocation:
        begin = time.monotonic()
        pause = _PAUSE
        while True:
            allocation = slurm.look(self._job_id)
            if allocation is None:
                raise RuntimeError(
                    f"SLURM job {self._job_id} not found in queue: it has ended, or was cancelled"
                    f"{self._words()}"
                )
            if allocation.state in _RUNNING and allocation.nodes:
                return allocation
            if allocation.state in _OVER:
                raise RuntimeError(
                    f"Slurm job {self._job_id} ended before it ran: {allocation.state} "
                    f"{allocation.reason}{self._words()}"
                )
            if allocation.state not in _WAITING | _RUNNING:
                raise RuntimeError(
                    f"Slurm job {self._job_id} is in a state that is not known: "
                    f"{allocation.state}; it was cancelled"
                )
            waited = time.monotonic() - begin
            if self.start_timeout is not None and waited > self.start_timeout:
                why = f" ({allocation.reason})" if allocation.reason else ""
                raise RuntimeError(
                    f"Slurm job {self._job_id} has waited for {waited:.0f} s in the queue, in "
                    f"state {allocation.state}{why}; it was cancelled (job_start_timeout)"
                )
            time.sleep(pause)
            pause = min(5.0, 1.3 * pause)

    def _wait_for_workers(self, slurm: Slurm) -> dict[str, list[str]]:
        """Wait until every worker has written where it is."""
        names = self._names()
        patience: float = _config.get("host_spawn_ready_timeout")
        deadline = time.monotonic() + patience
        look_at = 0.0
        while True:
            addresses = [self._report(i) for i in range(len(names))]
            if all(addresses):
                break
            now = time.monotonic()
            if now > look_at:
                look_at = now + 1.0
                allocation = slurm.look(self._job_id)
                if allocation is None or allocation.state in _OVER:
                    state = allocation.state if allocation is not None else "gone"
                    raise RuntimeError(
                        f"the workers of Slurm job {self._job_id} ended as they started; the job "
                        f"is {state}{self._words()}"
                    )
            if now > deadline:
                missing = [name for name, at in zip(names, addresses, strict=True) if not at]
                raise RuntimeError(
                    f"{len(missing)} of {len(names)} workers of Slurm job {self._job_id} have not "
                    f"reported within {patience:g} s (host_spawn_ready_timeout): "
                    f"{', '.join(missing[:4])}{self._words()}"
                )
            time.sleep(_REPORT_PAUSE)
        found = iter(addresses)
        return {
            mesh: [next(found) for _ in range(nodes * self.tasks)]
            for mesh, nodes in self.meshes.items()
        }

    def _report(self, task: int) -> str:
        try:
            with open(os.path.join(self._folder, f"report.{task}"), encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _state(self) -> JobState:
        if not self._workers:
            # Inside of the job: it was submitted by a client that did not wait for it.
            self._workers = self._wait_for_workers(Slurm())
        gateway = self.attach_to
        if gateway is None and self.out_of_cluster:
            gateway = next(iter(self._workers.values()))[0]
        if gateway is not None:
            attach(gateway, key=self._key)
        return super()._state()

    def _lost(self) -> str | None:
        allocation = Slurm().look(self._job_id) if self._job_id else None
        if allocation is None:
            return f"Slurm job {self._job_id} is not in the queue any more"
        if allocation.state not in _RUNNING:
            return f"Slurm job {self._job_id} is {allocation.state}"
        if len(allocation.nodes) != sum(self.meshes.values()):
            return f"Slurm job {self._job_id} has other nodes: {', '.join(allocation.nodes)}"
        return super()._lost()

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, by host."""
        return {name: self._read(f"worker.{i}.log") for i, name in enumerate(self._names())}

    def _words(self) -> str:
        """What the job has written, for an error text."""
        words = [self._read("job.log"), *self.logs().values()]
        text = "\n".join(dict.fromkeys(word.strip() for word in words if word.strip()))
        return f":\n{text[-_SHOWN:]}" if text else ""

    def _read(self, name: str) -> str:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _end(self) -> None:
        if in_batch():
            return  # the scheduler ends the job when the script has ended
        if self._job_id:
            Slurm().cancel(self._job_id)
            self._job_id = ""
        key = os.path.join(self._folder, "key")
        if self._folder and os.path.exists(key):
            os.unlink(key)
