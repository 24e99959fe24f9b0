"""Ends of the client: nothing is left of what it started, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from danaus.testing import wait_until
from tests.fault.script import INTERRUPTED, Script

Start = Callable[..., Script]

WORK = """
    import sys
    from tests.fault.victims import Owner, Victim
    from danaus.actor import this_host

    if __name__ == "__main__":
        host = this_host()
        victims = host.spawn_procs({"gpus": 3}).spawn("victims", Victim)
        owner = host.spawn_procs().spawn("owner", Owner)
        owner.pids.call_one().get()
        victims.start.call(["sleep", "1000"], True).get()
        data = bytes(1 << 20)
        print("ready", flush=True)
"""

IN_GET = WORK + "        victims.nap.call(1000).get()\n"

IN_SLEEP = WORK + "        import time; time.sleep(1000)\n"

IN_BULK = (
    WORK
    + """
        calls = []
        while True:
            calls.append(victims.echo.call(data))
            del calls[:-50]
"""
)

IN_ASYNC = (
    WORK
    + """
        import asyncio

        async def main():
            await victims.nap.call(1000)

        asyncio.run(main())
"""
)

IN_SPAWN = """
    from tests.fault.victims import Victim
    from danaus.actor import this_host

    if __name__ == "__main__":
        print("ready", flush=True)
        meshes = []
        while True:
            procs = this_host().spawn_procs({"gpus": 8})
            meshes.append(procs.spawn("victims", Victim))
            if len(meshes) > 3:
                meshes.pop(0).pid.call().get()
                procs.stop().get()
"""

PLACES = pytest.mark.parametrize(
    "program",
    [IN_GET, IN_SLEEP, IN_BULK, IN_ASYNC, IN_SPAWN],
    ids=["get", "sleep", "bulk", "async", "spawn"],
)


@PLACES
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_client_that_is_killed(
    script: Start, program: str, number: signal.Signals
):
    """L1: within 5 s."""
    client = script(program)
    assert client.line() == "ready"

    client.signal(number)

    assert client.wait(5) == -number
    client.assert_nothing_left(within=5)


@PLACES
def test_one_press_of_ctrl_c_ends_a_client(script: Start, program: str):
    """L1: within 3 s, with exit code 130, and nothing is left."""
    client = script(program)
    assert client.line() == "ready"
    start = time.monotonic()

    client.signal(signal.SIGINT)

    assert client.wait(20) in INTERRUPTED
    assert time.monotonic() - start < 5  # three, where nothing else runs
    client.assert_nothing_left(within=5)
    assert "KeyboardInterrupt" in client.stderr
    assert "danaus" not in client.stderr.rpartition("KeyboardInterrupt")[2]


def test_ctrl_c_of_a_terminal_reaches_only_the_client(script: Start):
    """It goes to the foreground process group: actors and agents are in others."""
    client = script(
        IN_SLEEP.replace("import time; time.sleep(1000)", "import time\n        try:")
        + """
            time.sleep(1000)
        except KeyboardInterrupt:
            print(list(victims.add.call(1).get(20).values()), flush=True)
"""
    )
    assert client.line() == "ready"

    os.killpg(client.process.pid, signal.SIGINT)

    assert client.line() == "[1, 1, 1]"
    assert client.wait(20) == 0
    client.assert_nothing_left()


def test_a_normal_end_prints_nothing(script: Start):
    """L5: neither by a stop, nor by the end of the program."""
    client = script(
        WORK
        + """
        victims.stop().get()
        host.spawn_procs().stop().get()
"""
    )

    assert client.rest() == "ready\n"
    assert (client.wait(5), client.stderr) == (0, "")
    client.assert_nothing_left()


def test_a_program_without_a_main_guard_does_not_start_itself_again(script: Start):
    """L9: procs do not run the program."""
    client = script(
        """
        import os
        from danaus.actor import Actor, endpoint, this_host

        print("once", flush=True)

        class Counter(Actor):
            def __init__(self):
                self.value = 0

            @endpoint
            def add(self, n):
                self.value += n
                return self.value, os.getpid()

        counters = this_host().spawn_procs({"gpus": 4}).spawn("counters", Counter)
        values = counters.add.call(2).get().values()
        print([value for value, _ in values], len({pid for _, pid in values}), flush=True)
        """
    )

    assert client.rest() == "once\n[2, 2, 2, 2] 4\n"
    assert (client.wait(5), client.stderr) == (0, "")
    client.assert_nothing_left()


def test_a_program_without_a_main_guard_may_exec_its_procs(script: Start):
    """L9: also where they have an interpreter of their own."""
    client = script(
        """
        from danaus.actor import Actor, endpoint, this_host

        print("once", flush=True)

        class Counter(Actor):
            @endpoint
            def add(self, n):
                return n + 1

        procs = this_host().spawn_procs({"gpus": 2}, env={"PYTHONHASHSEED": "1"})
        print(list(procs.spawn("counters", Counter).add.call(2).get().values()), flush=True)
        """
    )

    assert client.rest() == "once\n[3, 3]\n"
    assert (client.wait(5), client.stderr) == (0, "")


@pytest.mark.parametrize("times", [1, 2])
def test_exec_and_exit_in_the_client_leave_nothing(script: Start, times: int):
    """A client that becomes another program, or ends without its hooks, has ended as a client."""
    end = "os._exit(7)" if times == 1 else "os.execvp('sh', ['sh', '-c', 'exit 7'])"
    client = script(WORK + f"        import os; {end}\n")

    assert client.rest() == "ready\n"
    assert client.wait(5) == 7
    client.assert_nothing_left()


def test_clients_at_a_time_do_not_meddle(script: Start):
    """The end of one is nothing to the others."""
    first, second = (
        script(IN_SLEEP),
        script(
            WORK
            + """
        import time
        while True:
            print(list(victims.add.call(1).get(20).values()), flush=True)
            time.sleep(0.05)
"""
        ),
    )
    assert (first.line(), second.line()) == ("ready", "ready")

    first.signal(signal.SIGKILL)
    first.wait(5)
    after = [second.line() for _ in range(20)]

    assert after[-1] == str([int(after[-1].strip("[]").split(",")[0])] * 3)
    second.signal(signal.SIGINT)
    assert second.wait(20) in INTERRUPTED


def test_a_long_path_for_temporary_files_is_no_obstacle(script: Start, tmp_path: Path):
    """L8: sockets have short paths, whatever TMPDIR and XDG_RUNTIME_DIR say."""
    long = tmp_path / ("x" * 75) / ("y" * 75)
    long.mkdir(parents=True)
    client = script(WORK, env={"TMPDIR": str(long), "XDG_RUNTIME_DIR": str(long)})

    assert client.rest() == "ready\n"
    assert (client.wait(5), client.stderr) == (0, "")
    assert list(long.iterdir()) == []


def test_homes_may_be_shared_by_hosts(script: Start, tmp_path: Path):
    """L8: HOME and TMPDIR on a network file system, with two clients on it at once."""
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": None}
    clients = [script(WORK, env=env) for _ in range(2)]

    assert [client.rest() for client in clients] == ["ready\n"] * 2
    assert [client.wait(5) for client in clients] == [0, 0]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("danaus")]


def test_a_directory_of_a_killed_host_is_removed_by_a_later_one(script: Start, tmp_path: Path):
    """Where agent, zygote and client were all killed at once, nobody else could."""
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    client = script(
        """
        import time
        from danaus.actor import this_host
        this_host().spawn_procs({"gpus": 2}).initialized.get()
        print("ready", flush=True)
        time.sleep(1000)
        """,
        env=env,
    )
    assert client.line() == "ready"
    (directory,) = tmp_path.glob("danaus-*")
    agent = subprocess.run(
        ["pgrep", "-f", str(directory)], capture_output=True, text=True, check=True
    ).stdout.split()
    for pid in map(int, [client.process.pid, *agent]):
        os.kill(pid, signal.SIGSTOP)
    for pid in map(int, [client.process.pid, *agent]):
        os.kill(pid, signal.SIGKILL)
    client.wait(5)
    assert directory.exists()
    os.utime(directory, (0, 0))

    later = script(WORK, env=env)

    assert later.rest() == "ready\n"
    assert list(tmp_path.glob("danaus-*")) == []


def test_an_interrupt_while_the_host_starts_leaves_nothing(script: Start):
    """L1: at any moment of the first milliseconds."""
    for delay in (0, 0.02, 0.05, 0.1, 0.2, 0.4):
        client = script(
            """
            import danaus.actor
            print("ready", flush=True)
            procs = danaus.actor.this_host().spawn_procs({"gpus": 2})
            procs.initialized.get()
            print("up", flush=True)
            danaus.actor.shutdown_context().get()
            """
        )
        assert client.line() == "ready"
        deadline = time.monotonic() + delay
        wait_until(lambda at=deadline: time.monotonic() >= at)

        client.signal(signal.SIGINT)

        assert client.wait(20) in (*INTERRUPTED, 0)
        client.assert_nothing_left()
