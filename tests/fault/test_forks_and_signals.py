"""Forks and signal handlers of users: neither deadlocks nor is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from danaus.actor import this_host
from danaus.testing import wait_until
from tests.fault import forkers
from tests.fault.conftest import Faults
from tests.fault.forkers import AsyncForker, Forker
from tests.fault.script import Script

Start = Callable[..., Script]

WORK = [
    (forkers.fork_many, 100, 100),
    (forkers.pool, 20, [n * n for n in range(20)]),
    (forkers.load, 40, sum(range(40))),
    (forkers.run_shells, 50, 0),
]
NAMES = ["fork", "pool", "loader", "subprocess"]


@pytest.mark.parametrize(("function", "count", "result"), WORK, ids=NAMES)
@pytest.mark.parametrize("kind", [Forker, AsyncForker])
def test_endpoints_may_fork_while_messages_come(
    faults: Faults, kind: type[Forker], function: Any, count: int, result: Any
):
    """L7: again and again, with a neighbour that is called meanwhile."""
    procs = this_host().spawn_procs({"gpus": 2})
    forker, neighbour = procs.spawn("forker", kind), procs.spawn("neighbour", Forker)

    for _ in range(3):
        work = forker.do.call(function, count)
        noise = [neighbour.hum.call(bytes(1000)) for _ in range(200)]
        assert list(work.get(60).values()) == [result] * 2
        noise[-1].get(20)

    assert list(neighbour.hum.call(b"").get(20).values()) == [600_000] * 2
    assert not faults


@pytest.mark.parametrize(("function", "count", "result"), WORK, ids=NAMES)
def test_a_client_may_fork_while_messages_come(
    script: Start, function: Any, count: int, result: Any
):
    """L7"""
    client = script(
        f"""
        import threading
        from danaus.actor import this_host
        from tests.fault import forkers

        if __name__ == "__main__":
            forker = this_host().spawn_procs({{"gpus": 2}}).spawn("forker", forkers.Forker)
            stop = threading.Event()

            def hum():
                while not stop.is_set():
                    forker.hum.call(bytes(1000)).get(30)

            threads = [threading.Thread(target=hum) for _ in range(3)]
            for thread in threads:
                thread.start()
            results = [forkers.{function.__name__}({count}) for _ in range(5)]
            stop.set()
            for thread in threads:
                thread.join()
            print(results == [{result!r}] * 5, len(forker.hum.call(b"").get(30)), flush=True)
        """
    )

    assert client.rest(60) == "True 2\n"
    assert (client.wait(5), client.stderr) == (0, "")
    client.assert_nothing_left()


@pytest.mark.parametrize("kind", [Forker, AsyncForker])
def test_a_child_that_comes_back_from_the_endpoint_ends_there(faults: Faults, kind: type[Forker]):
    """It answers nothing, handles nothing that is queued, and does not wait for ever."""
    forker = this_host().spawn_procs().spawn("forker", kind)
    pid = forker.do.call_one(os.getpid).get(20)

    answers = [forker.fall_through.call_one() for _ in range(5)]

    assert [answer.get(20) for answer in answers] == [pid] * 5
    assert not faults


def test_a_child_may_be_a_client_of_its_own(faults: Faults):
    """It has nothing of its parent's runtime, and makes one when it needs one."""
    forker = this_host().spawn_procs().spawn("forker", Forker)

    assert forker.fork_client.call_one().get(30) == 0
    assert forker.hum.call_one(b"x").get(20) == 1


def test_the_end_of_a_client_is_seen_though_its_child_lives(script: Start):
    """The child holds whatever the client had open."""
    client = script(
        """
        import os, time
        from danaus.actor import this_host
        from tests.fault.forkers import Forker

        if __name__ == "__main__":
            forker = this_host().spawn_procs().spawn("forker", Forker)
            pid = forker.do.call_one(os.getpid).get()
            child = os.fork()
            if child == 0:
                time.sleep(1000)
                os._exit(0)
            print(child, pid, flush=True)
            time.sleep(1000)
        """
    )
    child, pid = map(int, client.line().split())

    client.signal(signal.SIGKILL)
    client.wait(5)

    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), timeout=5)  # noqa: PTH110
    os.kill(child, signal.SIGKILL)
    client.assert_nothing_left()


def test_programs_that_are_executed_inherit_nothing(faults: Faults):
    """Every descriptor of Danaus is closed on exec, in procs and in clients."""
    forker = this_host().spawn_procs().spawn("forker", Forker)

    assert forker.do.call_one(forkers.open_descriptors).get(20) == []
    mine = [path for path in forkers.open_descriptors() if "socket" in path or "memfd" in path]
    assert mine == []


def test_handlers_of_a_client_are_never_replaced(script: Start):
    """L6: and they run while the client waits."""
    client = script(
        """
        import os, signal, threading, time
        from danaus.actor import this_host
        from tests.fault import forkers

        if __name__ == "__main__":
            forkers.set_handlers()
            before = forkers.handlers()
            forker = this_host().spawn_procs({"gpus": 2}).spawn("forker", forkers.Forker)
            work = forker.do.call(time.sleep, 1)
            for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
            work.get()
            print(forkers.handlers() == before, forkers.blocked(), flush=True)
            print(forkers.what_was_caught(), flush=True)
        """
    )

    expected = sorted([signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
    assert client.rest() == f"True []\n{[int(n) for n in expected]}\n"
    assert (client.wait(5), client.stderr) == (0, "")


def test_a_client_has_the_handlers_that_python_sets(script: Start):
    """L6: Danaus adds none."""
    client = script(
        """
        from danaus.actor import this_host
        from tests.fault import forkers

        if __name__ == "__main__":
            before = forkers.handlers()
            forker = this_host().spawn_procs().spawn("forker", forkers.Forker)
            forker.hum.call_one(b"").get()
            print(forkers.handlers() == before, forker.do.call_one(forkers.handlers).get() == before)
            print(forker.do.call_one(forkers.blocked).get(), flush=True)
        """
    )

    assert client.rest() == "True True\n[]\n"


def test_handlers_of_a_bootstrap_stay_and_run(faults: Faults):
    """L6: in a proc, also while an actor is busy."""
    procs = this_host().spawn_procs(bootstrap=forkers.set_handlers)
    forker = procs.spawn("forker", Forker)
    pid = forker.do.call_one(os.getpid).get(20)
    numbers = [signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD]

    for number in numbers:
        os.kill(pid, number)

    wait_until(
        lambda: forker.do.call_one(forkers.what_was_caught).get(20) == sorted(map(int, numbers))
    )
    kept = [line for line in forker.do.call_one(forkers.handlers).get(20) if line.endswith("note")]
    assert len(kept) == 4
    procs.stop().get(20)
    assert not faults


def test_the_own_handlers_of_asyncio_work_in_a_client(script: Start):
    """L6: loop.add_signal_handler, which uses the wake-up descriptor of the interpreter."""
    client = script(
        """
        import asyncio, os, signal
        from danaus.actor import this_host
        from tests.fault.forkers import Forker

        async def main():
            forker = this_host().spawn_procs().spawn("forker", Forker)
            await forker.hum.call_one(b"")
            seen = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, seen.set)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(seen.wait(), 10)
            print(await forker.hum.call_one(b"x"), flush=True)

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )

    assert client.rest() == "1\n"
    assert (client.wait(5), client.stderr) == (0, "")
