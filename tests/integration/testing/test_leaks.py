"""The leak check against real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator

import pytest

from danaus.testing import Leaks, find_leaks, snapshot, wait_until
from danaus.testing._offspring import Process, offspring, offspring_from_ps

SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]

PARENT_OF_ONE = f"""
import subprocess, signal
print(subprocess.Popen({SLEEP!r}).pid, flush=True)
signal.pause()
"""


@pytest.fixture
def family() -> Generator[tuple[subprocess.Popen[str], int]]:
    """A child process and the pid of its own child."""
    command = [sys.executable, "-c", PARENT_OF_ONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent, child
        for pid in (parent.pid, child):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def pids(processes: frozenset[Process] | tuple[Process, ...]) -> set[int]:
    return {process.pid for process in processes}


def test_grandchild_is_found(family: tuple[subprocess.Popen[str], int]):
    parent, child = family

    assert {parent.pid, child} <= pids(offspring())


@pytest.mark.needs_linux
def test_orphan_is_found_by_its_environment(family: tuple[subprocess.Popen[str], int]):
    parent, child = family

    parent.kill()
    parent.wait()

    wait_until(lambda: os.getpid() not in parents_of(child), what="the orphan's adoption")
    assert child in pids(offspring())


def parents_of(pid: int) -> set[int]:
    return {process.parent for process in offspring() if process.pid == pid}


def test_ps_finds_the_same_family(family: tuple[subprocess.Popen[str], int]):
    parent, child = family

    found = pids(offspring_from_ps())

    assert {parent.pid, child} <= found


def test_unreaped_child_is_a_leak_until_it_is_reaped():
    before = snapshot()
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: [p.state for p in offspring() if p.pid == child.pid] == ["Z"])

    leaks = find_leaks(before, grace=0)
    child.wait()

    assert pids(leaks.processes) == {child.pid}
    assert f"process {child.pid} (parent {os.getpid()}, state Z)" in str(leaks)
    assert not find_leaks(before)


def test_kill_ends_and_reaps_what_was_left():
    before = snapshot()
    child = subprocess.Popen(SLEEP)

    find_leaks(before, grace=0).kill()

    assert child.pid not in pids(offspring())
    assert child.wait(10) == 0  # its status was taken by the one who reaped it


def test_kill_spares_a_process_that_took_the_pid_of_a_leak():
    with subprocess.Popen(SLEEP) as child:
        other = Process(child.pid, started="0", parent=os.getpid(), state="S", command="")

        Leaks(processes=(other,)).kill()

        assert child.poll() is None
        child.terminate()
