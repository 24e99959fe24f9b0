"""The fallbacks of what only Linux has, forced: the same programs work and leave nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.fault.script import INTERRUPTED, Script

Start = Callable[..., Script]

PORTABLE = {"DANAUS_PORTABLE": "1"}

PROGRAM = """
    import os, signal, sys, threading, time
    import danaus.actor
    from danaus._proc.system import NATIVE
    from danaus.actor import SupervisionError, this_host
    from tests.fault.victims import Victim

    assert not NATIVE

    if __name__ == "__main__":
        danaus.actor.unhandled_fault_hook = lambda failure: None
        host = this_host()
        procs = host.spawn_procs({"gpus": 3})
        victims = procs.spawn("victims", Victim)
"""


def test_calls_large_messages_and_many_at_once_work(script: Start):
    client = script(
        PROGRAM
        + """
        data = os.urandom(3 << 20)
        print([value == data for value in victims.echo.call(data).get(20).values()], flush=True)
        calls = [victims.add.call(1) for _ in range(500)]
        print(list(calls[-1].get(20).values()), flush=True)
        threads = [threading.Thread(target=lambda: victims.add.call(1).get(20)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(list(victims.add.call(1).get(20).values()), flush=True)
        other = host.spawn_procs(env={"PYTHONHASHSEED": "1"}).spawn("other", Victim)
        print(other.add.call_one(5).get(20), flush=True)
        """,
        env=PORTABLE,
    )

    assert client.rest() == "[True, True, True]\n[500, 500, 500]\n[509, 509, 509]\n5\n"
    assert (client.wait(5), client.stderr) == (0, "")
    client.assert_nothing_left()


def test_deaths_stops_and_respawns_work(script: Start):
    client = script(
        PROGRAM
        + """
        pids = list(victims.pid.call().get(20).values())
        pending = victims.slice(gpus=1).nap.call_one(1000)
        victims.slice(gpus=1).start.call_one(["sleep", "1000"], False)
        os.kill(pids[1], signal.SIGKILL)
        try:
            pending.get(20)
        except SupervisionError as error:
            print(error.failure.exit, error.failure.ranks, flush=True)
        procs.respawn(1).get(20)
        print(list(victims.add.call(1).get(20).values()), flush=True)
        procs.stop().get(20)
        """,
        env=PORTABLE,
    )

    assert client.rest() == "SIGKILL [1]\n[1, 1, 1]\n"
    assert (client.wait(5), client.stderr) == (0, "")
    client.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_client_that_is_ended(script: Start, number: signal.Signals):
    """By the ends of links alone; what has a session of its own needs Linux."""
    client = script(
        PROGRAM
        + """
        victims.start.call(["sleep", "1000"], False).get(20)
        print("ready", flush=True)
        victims.nap.call(1000).get()
        """,
        env=PORTABLE,
    )
    assert client.line() == "ready"

    client.signal(number)

    assert client.wait(20) in (-number, *INTERRUPTED)
    client.assert_nothing_left()


@pytest.mark.parametrize("which", ["agent", "zygote"])
def test_nothing_is_left_of_a_host_that_dies(script: Start, which: str):
    client = script(
        PROGRAM
        + f"""
        zygote = victims.slice(gpus=0).evaluate.call_one(os.getppid).get(20)
        agent = int(open(f"/proc/{{zygote}}/stat").read().rpartition(")")[2].split()[1])
        pending = victims.nap.call(1000)
        os.kill({which}, signal.SIGKILL)
        print(type(pending.exception(20)).__name__, flush=True)
        """,
        env=PORTABLE,
    )

    assert client.rest() == "SupervisionError\n"
    assert client.wait(10) == 0
    client.assert_nothing_left()
