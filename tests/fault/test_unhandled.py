"""Failures that nobody handles: what becomes of the program."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.fault.script import Script

Start = Callable[..., Script]

PROGRAM = """
    import atexit, signal, sys, time
    import danaus.actor
    from danaus.actor import this_host
    from tests.fault.victims import Owner, Victim

    def hook(failure):
        print("hook", failure.mesh_name, failure.ranks, flush=True)

    if __name__ == "__main__":
        atexit.register(lambda: print("atexit", flush=True))
        {before}
        procs = this_host().spawn_procs({{"gpus": 2}})
        victims = procs.spawn("victims", Victim)
        others = [procs.spawn(f"others{{i}}", Victim) for i in range(3)]
        victims.pid.call().get()
        victims.slice(gpus=1).end.broadcast("SIGKILL")
        {wait}
"""


def program(wait: str, before: str = "") -> str:
    return PROGRAM.format(before=before, wait=wait)


@pytest.mark.parametrize(
    "wait",
    [
        "time.sleep(1000)",
        "victims.slice(gpus=0).nap.call_one(1000).get()",
        "import asyncio; asyncio.run(asyncio.sleep(1000))",
        "import threading; threading.Event().wait()",
        "import subprocess; subprocess.run(['sleep', '1000'])",
        "while True: pass",
    ],
    ids=["sleep", "get", "asyncio", "lock", "subprocess", "busy"],
)
def test_the_program_ends_with_code_1_wherever_it_is(script: Start, wait: str):
    """atexit hooks run, stderr says what died, and nothing is left."""
    client = script(program(wait))
    start = time.monotonic()

    assert client.rest() == "atexit\n"
    assert client.wait(5) == 1
    assert time.monotonic() - start < 15
    assert "Unhandled danaus error on the root actor" in client.stderr
    assert "SIGKILL" in client.stderr
    assert client.stderr.count("Unhandled danaus error") == 1
    client.assert_nothing_left()


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: print('user', flush=True)"])
@pytest.mark.parametrize("wait", ["time.sleep(1000)", "victims.slice(gpus=0).nap.call(1000).get()"])
def test_handlers_of_the_user_are_left_alone(script: Start, handler: str, wait: str):
    """Also a program that ignores Ctrl-C, as one in the background of a shell does, ends."""
    client = script(program(wait, f"signal.signal(signal.SIGINT, {handler})"))

    assert client.rest() == "atexit\n"
    assert client.wait(5) == 1
    client.assert_nothing_left()


def test_a_hook_of_the_user_is_called_once_and_drops_the_failure(script: Start):
    client = script(program("time.sleep(0.5)", "danaus.actor.unhandled_fault_hook = hook"))

    lines = client.rest().splitlines()

    assert lines == ["hook victims [1]", "atexit"]
    assert (client.wait(5), client.stderr) == (0, "")


def test_a_hook_that_exits_gives_the_code(script: Start):
    client = script(
        program("time.sleep(1000)", "danaus.actor.unhandled_fault_hook = lambda f: sys.exit(7)")
    )

    assert client.rest() == "atexit\n"
    assert client.wait(5) == 7


def test_a_hook_that_raises_counts_as_one_that_does_not_handle(script: Start):
    client = script(
        program("time.sleep(1000)", "danaus.actor.unhandled_fault_hook = lambda f: 1 / 0")
    )

    assert client.rest() == "atexit\n"
    assert client.wait(5) == 1
    assert "unhandled_fault_hook raised ZeroDivisionError" in client.stderr
    assert "SIGKILL" in client.stderr


def test_a_failure_after_the_end_of_the_main_thread_is_heard(script: Start):
    """The program's last line is over, a thread of it goes on."""
    client = script(
        program(
            "threading = __import__('threading'); threading.Thread(target=linger).start()"
        ).replace(
            'if __name__ == "__main__":',
            "def linger():\n        for _ in range(200):\n            time.sleep(0.05)\n\n"
            '    if __name__ == "__main__":',
        )
    )

    assert client.rest() == "atexit\n"
    assert client.wait(5) == 1
    client.assert_nothing_left()


def test_an_exception_of_the_program_comes_before_what_follows_from_it(script: Start):
    """The call's own error is what the program ends with, the fault does not hide it."""
    client = script(
        program("victims.add.call(1).get()", "danaus.actor.unhandled_fault_hook = hook")
    )

    client.rest()

    assert client.wait(5) == 1
    assert "SupervisionError" in client.stderr
