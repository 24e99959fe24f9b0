"""What Slurm is told."""

import subprocess

import pytest

from danaus._job.slurm_commands import batch_script, environment


def test_an_allocation_around_us_does_not_reach_a_new_job():
    """J3."""
    around = {
        "SLURM_JOB_ID": "7",
        "SLURM_NODELIST": "n1",
        "SBATCH_PARTITION": "x",
        "SLURM_CONF": "/etc/slurm.conf",
        "PATH": "/bin",
        "PMI_RANK": "0",
    }

    assert environment(around) == {"SLURM_CONF": "/etc/slurm.conf", "PATH": "/bin"}


@pytest.mark.parametrize("client", [None, "/data/it's a script.py"])
def test_the_script_is_one_that_the_shell_reads(client: str | None):
    script = batch_script("/opt/my env/bin/python", "/tmp/a b'c", 22222, 2, client)

    checked = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
    assert checked.returncode == 0


def test_workers_of_one_node_have_different_ports():
    assert "22222 + SLURM_LOCALID" in batch_script("python", "/d", 22222, 2, None)
    assert "SLURM_LOCALID" not in batch_script("python", "/d", 0, 2, None)
    assert "SLURM_LOCALID" not in batch_script("python", "/d", 22222, 1, None)
