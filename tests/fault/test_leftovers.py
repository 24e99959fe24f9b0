"""What processes start and leave behind: it goes when they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from danaus._proc.system import children_of, is_running, start_time
from danaus.actor import this_host
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.victims import Victim

SLEEP = ["sleep", "10000"]

IGNORE_AND_SLEEP = """
import signal, time
for number in (1, 2, 13, 15):
    signal.signal(number, signal.SIG_IGN)
time.sleep(10000)
"""

STUBBORN = [sys.executable, "-c", IGNORE_AND_SLEEP]

DAEMON = [
    "sh",
    "-c",
    "setsid sh -c 'sleep 10000 & sleep 10000 & wait' </dev/null >/dev/null 2>&1 & sleep 0.2",
]


def gone(pid: int, started: int) -> bool:
    return not is_running(pid, started)


def marked() -> set[int]:
    """Sleepers that were started by this test run's procs."""
    found: set[int] = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                environment = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            mark = f"DANAUS_TEST_RUN={os.environ['DANAUS_TEST_RUN']}".encode()
            if words[:2] == [b"sleep", b"10000"] and mark in environment:
                found.add(int(path.name))
    return found


@pytest.mark.parametrize("own_session", [False, True], ids=["group", "session"])
@pytest.mark.parametrize("command", [SLEEP, STUBBORN], ids=["sleep", "stubborn"])
@pytest.mark.parametrize("how", ["SIGKILL", "exit", "segv"])
def test_what_a_dead_process_had_started_is_gone(
    faults: Faults, command: list[str], own_session: bool, how: str
):
    """L2"""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    pid = victim.start.call_one(command, own_session).get(20)
    started = start_time(pid)

    victim.end.broadcast(how)

    faults.wait()
    wait_until(lambda: gone(pid, started), timeout=5, what="the end of the sleeper")


def test_what_left_its_parent_is_gone_too(faults: Faults):
    """L2: daemons, that is, orphans with a session of their own and children."""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    victim.evaluate.call_one(subprocess.call, DAEMON).get(20)
    wait_until(lambda: len(marked()) == 2)

    victim.end.broadcast("SIGKILL")

    faults.wait()
    wait_until(lambda: not marked(), timeout=5, what="the end of the daemons")


def test_the_end_of_one_process_spares_what_others_have_started(faults: Faults):
    victims = this_host().spawn_procs({"gpus": 2}).spawn("victims", Victim)
    pids = list(victims.start.call(SLEEP, True).get(20).values())
    started = [start_time(pid) for pid in pids]

    victims.slice(gpus=0).end.broadcast("SIGKILL")

    faults.wait()
    wait_until(lambda: gone(pids[0], started[0]), timeout=5)
    assert not gone(pids[1], started[1])


def test_what_a_stopped_process_had_started_is_gone(faults: Faults):
    procs = this_host().spawn_procs()
    victim = procs.spawn("victim", Victim)
    pid = victim.start.call_one(SLEEP, True).get(20)
    started = start_time(pid)

    procs.stop().get(20)

    wait_until(lambda: gone(pid, started), timeout=5, what="the end of the sleeper")


def run_many(count: int) -> list[str]:
    for _ in range(count):
        subprocess.run(["true"], check=True)
    subprocess.run(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.01 & done"], check=True)
    return zombies(os.getpid())


def zombies(pid: int) -> list[str]:
    return [
        state
        for child in children_of(pid)
        if (state := Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]) == "Z"
    ]


def test_many_short_processes_leave_no_zombies(faults: Faults):
    """L4: a thousand of them from endpoints of four processes."""
    victims = this_host().spawn_procs({"gpus": 4}).spawn("victims", Victim)
    zygote = victims.slice(gpus=0).evaluate.call_one(os.getppid).get(20)

    assert list(victims.evaluate.call(run_many, 250).get(60).values()) == [[]] * 4
    wait_until(lambda: not zombies(zygote), timeout=5, what="the zygote to reap orphans")


def test_children_that_nobody_waits_for_are_no_news(faults: Faults):
    """A process whose children die is not taken for dead itself."""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    pids = [victim.start.call_one(["true"], True).get(20) for _ in range(5)]
    pids.append(victim.start.call_one(SLEEP, True).get(20))
    os.kill(pids[-1], signal.SIGKILL)

    assert victim.add.call_one(1).get(20) == 1
    assert not faults
