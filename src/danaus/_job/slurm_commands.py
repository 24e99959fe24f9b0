"""Slurm's commands, and the script of a job."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from danaus._job.squeue import Allocation, parse_json, parse_text

__all__ = ["Slurm", "batch_script", "environment"]

_PATIENCE = 60.0
"""Seconds for a command to answer."""

_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
"""Variables that say where the cluster is; all others of SLURM_ are of the job around us."""

_STARTERS = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "PMI_", "PMIX_")

_NO_SUCH_JOB = "Invalid job id"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """``variables`` without those of an allocation that this process may run in.

    They would pin a new job to it, or break it.
    """
    return {
        name: value
        for name, value in variables.items()
        if name in _KEPT or not name.startswith(_STARTERS)
    }


def batch_script(python: str, folder: str, port: int, tasks: int, client_script: str | None) -> str:
    """The script of a job: a worker for each task, and the client's script if there is one.

    Each worker writes its address to ``report.TASK`` in ``folder``, and what it has to say to
    ``worker.TASK.log``.
    """
    at = f"$(({port} + SLURM_LOCALID))" if port and tasks > 1 else str(port)
    worker = (
        f'name=$(sed -n "$((SLURM_PROCID + 1))p" names); '
        f'exec {shlex.quote(python)} -m danaus_cli worker --address "tcp://*:{at}" --key key '
        '--name "$name" --report "report.$SLURM_PROCID" >"worker.$SLURM_PROCID.log" 2>&1'
    )
    lines = ["#!/bin/bash", f"cd {shlex.quote(folder)} || exit 1"]
    run = f"srun --kill-on-bad-exit=0 --export=ALL bash -c {shlex.quote(worker)}"
    if client_script is None:
        lines.append(run)
    else:
        script = shlex.quote(client_script)
        home = shlex.quote(os.getcwd())
        lines += [
            f"{run} &",
            f"(cd {home} && DANAUS_BATCH_JOB=1 {shlex.quote(python)} {script})",
            "code=$?",
            # The workers end in good order, which neither the end of the script nor that of srun
            # would let them.
            "scancel --quiet --signal=TERM $SLURM_JOB_ID.0; wait",
            "exit $code",
        ]
    return "\n".join(lines) + "\n"


class Slurm:
    """The commands of this machine's Slurm.

    Raises:
        RuntimeError: There are none.
    """

    def __init__(self) -> None:
        missing = [name for name in ("sbatch", "squeue", "scancel") if not shutil.which(name)]
        if missing:
            raise RuntimeError(
                f"there is no {missing[0]} on PATH: run this on a machine of a Slurm cluster, such "
                "as its login node, or load the module that brings Slurm"
            )

    @staticmethod
    def _run(*words: str, data: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            env=environment(os.environ),
        )

    def submit(self, script: str, options: Mapping[str, Any], more: Sequence[str]) -> str:
        """Submit a job; its number.

        Raises:
            RuntimeError: It was not taken.
        """
        flags = [f"--{name}={value}" for name, value in options.items() if value is not None]
        done = self._run("sbatch", "--parsable", *flags, *more, data=script)
        if done.returncode:
            raise RuntimeError(f"Failed to submit SLURM job: {done.stderr.strip()}")
        found = re.match(r"(\d+)", done.stdout.strip())
        if found is None:
            raise RuntimeError(f"Failed to parse job ID from sbatch's answer {done.stdout!r}")
        return found[1]

    def look(self, job: str) -> Allocation | None:
        """What the scheduler says of a job; None when it is not in the queue.

        Raises:
            RuntimeError: The scheduler does not answer.
        """
        done = self._run("squeue", "--json", "--job", job)
        if done.returncode == 0:
            try:
                return parse_json(done.stdout, job)
            except ValueError:
                pass  # a version that writes it otherwise: the text is the same in all
        done = self._run("squeue", "--noheader", "--job", job, "--format", "%T|%N|%r")
        if done.returncode:
            if _NO_SUCH_JOB in done.stderr:
                return None
            raise RuntimeError(f"squeue does not answer: {done.stderr.strip()}")
        return parse_text(done.stdout)

    def cancel(self, job: str) -> None:
        """End a job; one that has ended is as good.

        Raises:
            RuntimeError: It could not be ended.
        """
        done = self._run("scancel", job)
        if done.returncode and _NO_SUCH_JOB not in done.stderr:
            raise RuntimeError(f"scancel {job} failed: {done.stderr.strip()}")
