"""Jobs: hosts that are provisioned together, shared by clients, and ended together.

Example:
    >>> from danaus.job import ProcessJob
    >>> job = ProcessJob({"trainers": 4, "loaders": 1})
    >>> hosts = job.state()
    >>> trainers = hosts.trainers.spawn_procs(per_host={"procs": 1})
    >>> job.kill()
"""

from danaus._job.kubernetes import ImageSpec, KubeConfig, KubernetesJob
from danaus._job.local import BatchJob, LocalJob
from danaus._job.process import ProcessJob
from danaus._job.ray import RayJob
from danaus._job.remote import RemoteJob, worker_command
from danaus._job.skypilot import SkyPilotJob
from danaus._job.slurm import SlurmJob
from danaus._job.ssh import SSHJob
from danaus._job.state import JobState
from danaus._job.trait import JobTrait, job_load, job_loads
from danaus._net.job_key import JobKey

__all__ = [
    "BatchJob",
    "ImageSpec",
    "JobKey",
    "JobState",
    "JobTrait",
    "KubeConfig",
    "KubernetesJob",
    "LocalJob",
    "ProcessJob",
    "RayJob",
    "RemoteJob",
    "SSHJob",
    "SkyPilotJob",
    "SlurmJob",
    "job_load",
    "job_loads",
    "worker_command",
]
