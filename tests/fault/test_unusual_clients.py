"""Scripts in surroundings that scripts seldom have."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fault.script import Script

pytestmark = pytest.mark.needs_linux

DAEMON = """
import os, sys
from pathlib import Path
for fd in {closed}: os.close(fd)
from danaus.actor import Actor, endpoint, this_host
class Adder(Actor):
    @endpoint
    def add(self, n):
        return n + 1
procs = this_host().spawn_procs(per_host={{"gpus": 2}})
Path(sys.argv[1]).write_text(str(list(procs.spawn("adder", Adder).add.call(1).get(20).values())))
"""

INTERRUPTED = """
import asyncio, time
from danaus.actor import Actor, endpoint, this_host
class Sleeper(Actor):
    @endpoint
    def sleep(self):
        print("sleeping", flush=True)
        time.sleep(1000)
async def main():
    async with this_host().spawn_procs() as procs:
        await procs.spawn("sleeper", Sleeper).sleep.call()
asyncio.run(main())
"""


STOPPED = """
import os, signal, sys
from danaus.actor import Actor, endpoint, shutdown_context, this_host
class Process(Actor):
    @endpoint
    def zygote(self):
        return os.getppid()
victim = this_host().spawn_procs().spawn("process", Process).zygote.call_one().get(20)
if sys.argv[1] == "agent":
    with open(f"/proc/{victim}/stat") as file:
        victim = int(file.read().rpartition(")")[2].split()[1])
os.kill(victim, signal.SIGSTOP)
if sys.argv[2] == "shutdown":
    shutdown_context().get(20)
"""


@pytest.mark.parametrize("victim", ["agent", "zygote"])
@pytest.mark.parametrize("how", ["exit", "shutdown"])
def test_what_somebody_has_stopped_ends_with_the_script_all_the_same(
    victim: str, how: str, tmp_path: Path
) -> None:
    """L1."""
    script = Script(tmp_path / "script", STOPPED, victim, how)
    try:
        assert script.wait(20) == 0, script.stderr
        script.assert_nothing_left()
    finally:
        script.end()


@pytest.mark.parametrize("closed", [(0,), (1, 2), (0, 1, 2)])
def test_a_daemon_without_standard_streams(closed: tuple[int, ...], tmp_path: Path) -> None:
    answer = tmp_path / "answer"

    script = [sys.executable, "-c", DAEMON.format(closed=closed), str(answer)]
    subprocess.run(script, check=True, timeout=40)

    assert answer.read_text() == "[2, 2]"


def test_ctrl_c_in_a_block_whose_actors_are_busy_ends_soon() -> None:
    """L1: three seconds, one press."""
    script = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=-1, stderr=-1, text=True)
    assert script.stdout is not None
    assert "sleeping" in script.stdout.readline()

    began = time.monotonic()
    script.send_signal(signal.SIGINT)
    _, errors = script.communicate(timeout=20)

    assert time.monotonic() - began < 3
    assert script.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
