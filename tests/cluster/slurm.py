"""A real Slurm cluster of several nodes on this machine."""

import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from danaus.testing import wait_until

PATIENCE = 30.0

_CONFIGURATION = """
ClusterName=danaus
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=2
MinJobAge=30
SlurmdTimeout=60
SlurmdParameters=config_overrides
NodeName=n[1-{count}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 CoresPerSocket=4 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def is_installed() -> bool:
    """Whether this machine has Slurm's daemons and munge, and lets us run them."""
    return os.geteuid() == 0 and all(map(_found, ("slurmctld", "slurmd", "munged", "sbatch")))


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm_cluster(folder: Path, count: int = 4) -> Generator[Path]:
    """Run it; gives the path of its configuration, for SLURM_CONF."""
    for name in ("state", "spool", "log", "run"):
        (folder / name).mkdir()
    port = _free_ports(count + 1)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.gethostname(),
            port=port,
            folder=folder,
            count=count,
            first=port + 1,
            last=port + count,
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as stack:
        stack.enter_context(_munge())
        conf = ["-D", "-f", str(configuration)]
        stack.enter_context(_daemon(["slurmctld", *conf], environment, folder))
        for i in range(count):
            stack.enter_context(_daemon(["slurmd", *conf, "-N", f"n{i + 1}"], environment, folder))
        wait_until(lambda: _idle(environment) == count, timeout=PATIENCE, what="all nodes idle")
        yield configuration


def _idle(environment: dict[str, str]) -> int:
    done = subprocess.run(
        ["sinfo", "-N", "-h", "-o", "%T"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split().count("idle")


def _free_ports(count: int) -> int:
    """The first of so many ports in a row."""
    first = 20_000 + os.getpid() % 400 * 50
    while True:
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            first += count
            continue
        return first


@contextmanager
def _munge() -> Generator[None]:
    """Have munge run, which all on this machine share."""
    probe = "munge -n </dev/null | unmunge >/dev/null 2>&1"
    if subprocess.run(["sh", "-c", probe], check=False).returncode == 0:
        yield
        return
    for name in ("/run/munge", "/var/log/munge", "/var/lib/munge"):
        subprocess.run(
            ["install", "-d", "-o", "munge", "-g", "munge", "-m", "755", name], check=True
        )
    daemon = _found("munged")
    assert daemon is not None
    process = subprocess.Popen(
        ["runuser", "-u", "munge", "--", daemon, "-F"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: subprocess.run(["sh", "-c", probe], check=False).returncode == 0,
            timeout=PATIENCE,
            what="munge",
        )
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def _daemon(
    command: list[str], environment: dict[str, str], folder: Path
) -> Generator[subprocess.Popen[bytes]]:
    program = _found(command[0])
    assert program is not None
    with (folder / "log" / f"{command[0]}{command[-1]}.out".replace("/", "_")).open("wb") as out:
        process = subprocess.Popen([program, *command[1:]], env=environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
