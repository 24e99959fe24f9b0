"""Deaths of an agent or a zygote: all that they watched over ends, and owners are told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from danaus._proc.system import is_running, start_time
from danaus.actor import SupervisionError, this_host
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.script import Script
from tests.fault.victims import Victim


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def gone(pids: list[int]) -> bool:
    return not any(is_running(pid, start_time(pid)) for pid in pids)


class Host:
    """This machine's host, with all its processes."""

    def __init__(self) -> None:
        self.victims = this_host().spawn_procs({"gpus": 3}).spawn("victims", Victim)
        self.procs = list(self.victims.pid.call().get(20).values())
        self.zygote = parent_of(self.procs[0])
        self.agent = parent_of(self.zygote)
        # With sessions of their own, they belong to no process group that ends.
        self.sleepers = list(self.victims.start.call(["sleep", "1000"], True).get(20).values())

    @property
    def all(self) -> list[int]:
        return [*self.procs, *self.sleepers, self.zygote]


@pytest.mark.parametrize("which", ["agent", "zygote"])
def test_the_death_of_a_host_ends_all_of_it_and_owners_are_told(faults: Faults, which: str):
    host = Host()
    pending = host.victims.nap.call(1000)

    os.kill(getattr(host, which), signal.SIGKILL)

    with pytest.raises(SupervisionError) as caught:
        pending.get(20)
    words = {"agent": "gone with its host's agent", "zygote": "the zygote of its host has died"}
    assert words[which] in str(caught.value)
    assert words[which] in faults.wait().report()
    wait_until(lambda: gone(host.all), timeout=5, what="the end of the host's processes")
    with pytest.raises(SupervisionError):
        host.victims.pid.call().get(20)


def test_a_host_that_died_is_one_fault(faults: Faults):
    """However many ranks and meshes there were on it."""
    host = Host()
    more = this_host().spawn_procs({"gpus": 2}).spawn("more", Victim)
    more.pid.call().get(20)

    os.kill(host.agent, signal.SIGKILL)

    faults.wait()
    with pytest.raises(SupervisionError):
        more.pid.call().get(20)
    assert len(faults) == 1


def test_the_host_of_a_script_is_started_anew_after_its_death(faults: Faults):
    host = Host()
    os.kill(host.agent, signal.SIGKILL)
    faults.wait()

    again = this_host().spawn_procs().spawn("again", Victim)

    assert again.add.call_one(1).get(20) == 1


def test_an_agent_that_is_told_to_end_ends_its_procs_in_order(faults: Faults):
    """SIGTERM: as a scheduler sends it."""
    host = Host()

    os.kill(host.agent, signal.SIGTERM)

    wait_until(lambda: gone([*host.all, host.agent]), timeout=10, what="the end of the host")


def test_an_agent_that_cannot_start_says_why(script: Callable[..., Script], tmp_path: Path):
    """Its last words reach the client within seconds."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import sys\nif '_entry.host' in ' '.join(sys.orig_argv): sys.exit('no licence found')\n"
    )
    client = script(
        """
        import os, sys
        os.environ["PYTHONPATH"] = sys.argv[1] + os.pathsep + os.environ["PYTHONPATH"]
        from danaus.actor import this_host
        from tests.fault.victims import Victim
        print(this_host().spawn_procs().spawn("victim", Victim).pid.call_one().get(20))
        """,
        str(tmp_path / "broken"),
    )

    assert client.rest() == ""
    assert client.wait(20) == 1
    assert "no licence found" in client.stderr
