"""What forks: in a client, in endpoints, alone and by multiprocessing."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any

from danaus.actor import Actor, endpoint

# Forking beside threads is what is tested here, whatever newer interpreters say to it.
warnings.filterwarnings("ignore", message=".*multi-threaded.*", category=DeprecationWarning)


def fork_many(count: int) -> int:
    """Fork children that do a little, and wait for each; returns how many did well."""
    good = 0
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if sum(range(i)) == i * (i - 1) // 2 else 1)
        good += os.waitpid(pid, 0)[1] == 0
    return good


def square(n: int) -> int:
    return n * n


def pool(count: int) -> list[int]:
    """A pool of forked workers."""
    with multiprocessing.get_context("fork").Pool(4) as workers:
        return workers.map(square, range(count))


def load(batches: int) -> int:
    """A data loader: forked workers, a queue each way, and a thread that takes from them."""
    fork = multiprocessing.get_context("fork")
    wishes, results = fork.Queue(), fork.Queue()
    workers = [fork.Process(target=_work, args=(wishes, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    taken: queue.Queue[int] = queue.Queue()
    taker = threading.Thread(target=_take, args=(results, taken, batches))
    taker.start()
    for i in range(batches):
        wishes.put(i)
    total = sum(taken.get(timeout=30) for _ in range(batches))
    for _ in workers:
        wishes.put(None)
    taker.join()
    for worker in workers:
        worker.join(30)
    return total


def _work(wishes: Any, results: Any) -> None:
    for i in iter(wishes.get, None):
        results.put(bytes(10_000) + bytes([i % 256]))


def _take(results: Any, taken: queue.Queue[int], batches: int) -> None:
    for _ in range(batches):
        taken.put(results.get()[-1])


def run_shells(count: int) -> int:
    return sum(subprocess.run(["true"], check=True).returncode for _ in range(count))


class Forker(Actor):
    """Forks while messages come."""

    def __init__(self) -> None:
        self.noise = 0

    @endpoint
    def do(self, function: Any, *args: Any) -> Any:
        return function(*args)

    @endpoint
    def hum(self, data: bytes) -> int:
        self.noise += len(data)
        return self.noise

    @endpoint
    def fall_through(self) -> int:
        """The child comes back from the endpoint, as if it were the actor."""
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return os.getpid()

    @endpoint
    def fork_client(self) -> int:
        """The child is a client of its own."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                from danaus.actor import shutdown_context, this_host

                forker = this_host().spawn_procs().spawn("forker", Forker)
                code = forker.hum.call_one(b"abc").get(20) - 3
                shutdown_context().get(20)
            finally:
                os._exit(code)
        return os.waitpid(pid, 0)[1]


class AsyncForker(Actor):
    """The same on an event loop."""

    @endpoint
    async def do(self, function: Any, *args: Any) -> Any:
        return function(*args)

    @endpoint
    async def fall_through(self) -> int:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)  # noqa: ASYNC222  # it ends at once
        return os.getpid()


caught: list[int] = []


def set_handlers() -> None:
    """A bootstrap: handlers of the user."""
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, note)


def note(number: int, _frame: object) -> None:
    caught.append(number)


def handlers() -> list[str]:
    """What handles each signal, by name."""
    numbers = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
    return [
        f"{number} {getattr(signal.getsignal(number), '__name__', signal.getsignal(number))}"
        for number in numbers
    ]


def blocked() -> list[int]:
    """Signals that this thread does not get."""
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def what_was_caught() -> list[int]:
    return sorted(set(caught))


def open_descriptors() -> list[str]:
    """What the descriptors beside the standard ones refer to, in a program that is executed."""
    program = (
        "import os\nfor n in os.listdir('/proc/self/fd'):\n"
        "    if int(n) > 2:\n        try: print(os.readlink(f'/proc/self/fd/{n}'))\n"
        "        except OSError: pass"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True, close_fds=False)
    return result.stdout.splitlines()
