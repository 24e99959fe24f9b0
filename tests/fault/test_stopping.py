"""Stopping in good order: what runs before the end, what holds it up, and what does not."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from danaus._runtime import process
from danaus.actor import (
    Actor,
    SupervisionError,
    context,
    endpoint,
    shutdown_context,
    this_host,
)
from danaus.config import configured
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.victims import Victim, sleep


class Tidy(Actor):
    """Notes in a file what happens to it."""

    def __init__(self, notes: str, mood: str = "") -> None:
        self.notes = Path(notes)
        self.mood = mood
        self.owned: Any = None

    def note(self, text: str) -> None:
        with self.notes.open("a") as file:
            file.write(text + "\n")

    @endpoint
    def work(self, seconds: float, text: str) -> str:
        sleep(seconds)
        self.note(text)
        return text

    @endpoint
    def own(self) -> int:
        self.owned = this_host().spawn_procs().spawn("owned", Tidy, str(self.notes))
        return self.owned.pid.call_one().get(20)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    @endpoint
    def fail(self) -> None:
        raise ValueError("broken")

    @endpoint
    def exit(self) -> None:
        os._exit(1)

    def __cleanup__(self, exc: Exception | None) -> None:
        self.note(f"cleanup {exc!r}")
        if self.mood == "hang":
            sleep(1000)
        if self.mood == "raise":
            raise RuntimeError("cannot tidy up")


class AsyncTidy(Actor):
    """The same, async."""

    def __init__(self, notes: str, mood: str = "") -> None:
        self.notes = Path(notes)
        self.mood = mood

    @endpoint
    async def pid(self) -> int:
        return os.getpid()

    @endpoint
    async def fail(self) -> None:
        raise ValueError("broken")

    async def __cleanup__(self, exc: Exception | None) -> None:
        import asyncio

        with self.notes.open("a") as file:
            file.write(f"cleanup {exc!r}\n")
        if self.mood == "hang":
            await asyncio.sleep(1000)
        if self.mood == "block":
            sleep(1000)
        if self.mood == "raise":
            raise RuntimeError("cannot tidy up")


class ServesForEver(Actor):
    """Its constructor never returns."""

    def __init__(self, notes: str) -> None:
        self.notes = Path(notes)
        self.notes.write_text("started\n")
        while True:
            sleep(0.05)

    @endpoint
    def pid(self) -> int:
        return os.getpid()

    def __cleanup__(self, exc: Exception | None) -> None:
        with self.notes.open("a") as file:
            file.write(f"cleanup {type(exc).__name__}\n")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


BOTH = pytest.mark.parametrize("kind", [Tidy, AsyncTidy])
WHOLE = pytest.mark.parametrize("whole", [False, True], ids=["actors", "procs"])


@BOTH
@WHOLE
def test_cleanup_runs_once_when_all_is_in_order(
    faults: Faults, notes: Path, kind: type[Tidy], whole: bool
):
    procs = this_host().spawn_procs()
    tidy = procs.spawn("tidy", kind, str(notes))
    tidy.pid.call_one().get(20)

    if not whole:
        tidy.stop().get(20)
    procs.stop().get(20)

    assert notes.read_text() == "cleanup None\n"
    assert not faults


@BOTH
def test_cleanup_is_told_what_the_actor_failed_of(faults: Faults, notes: Path, kind: type[Tidy]):
    tidy = this_host().spawn_procs().spawn("tidy", kind, str(notes))

    tidy.fail.broadcast()

    faults.wait()
    wait_until(lambda: notes.exists() and notes.read_text(), what="the clean-up")
    assert notes.read_text() == "cleanup ValueError('broken')\n"


def test_cleanup_does_not_run_when_the_process_dies(faults: Faults, notes: Path):
    tidy = this_host().spawn_procs().spawn("tidy", Tidy, str(notes))

    tidy.exit.broadcast()

    faults.wait()
    assert not notes.exists()


def test_what_an_actor_owns_is_cleaned_up_before_it(faults: Faults, notes: Path):
    procs = this_host().spawn_procs()
    tidy = procs.spawn("tidy", Tidy, str(notes))
    inner = tidy.own.call_one().get(20)

    tidy.work.call_one(0, "last").get(20)
    tidy.stop().get(20)

    assert notes.read_text() == "last\ncleanup None\ncleanup None\n"
    wait_until(lambda: not Path(f"/proc/{inner}").exists(), timeout=5)
    assert not faults


@pytest.mark.parametrize(
    ("kind", "mood"), [(Tidy, "hang"), (AsyncTidy, "hang"), (AsyncTidy, "block")]
)
@WHOLE
def test_a_cleanup_that_hangs_does_not_hold_the_stop_up(
    faults: Faults, notes: Path, kind: type[Tidy], mood: str, whole: bool
):
    """Time-boxed by cleanup_timeout, whether it gives way or not."""
    with configured(cleanup_timeout="500ms"):
        procs = this_host().spawn_procs()
        tidy = procs.spawn("tidy", kind, str(notes), mood)
        tidy.pid.call_one().get(20)

        start = time.monotonic()
        (procs if whole else tidy).stop().get(20)

        assert 0.4 < time.monotonic() - start < 4
        assert notes.read_text() == "cleanup None\n"
        procs.stop().get(20)
    assert not faults


@BOTH
def test_a_cleanup_that_raises_is_a_failure(faults: Faults, notes: Path, kind: type[Tidy]):
    tidy = this_host().spawn_procs().spawn("tidy", kind, str(notes), "raise")
    tidy.pid.call_one().get(20)

    tidy.stop().get(20)

    assert "cannot tidy up" in faults.wait().report()
    assert notes.read_text() == "cleanup None\n"


def test_what_is_queued_is_handled_before_the_end(faults: Faults, notes: Path):
    """Stop of a proc with queued work."""
    procs = this_host().spawn_procs()
    tidy = procs.spawn("tidy", Tidy, str(notes))
    answers = [tidy.work.call_one(0.05, str(i)) for i in range(20)]

    procs.stop().get(20)

    assert [answer.get(5) for answer in answers] == [str(i) for i in range(20)]
    assert notes.read_text().splitlines() == [*map(str, range(20)), "cleanup None"]


def test_an_actor_that_does_not_end_in_time_is_given_up(faults: Faults):
    with configured(stop_actor_timeout="500ms"):
        procs = this_host().spawn_procs()
        victim, neighbour = procs.spawn("victim", Victim), procs.spawn("neighbour", Victim)
        pending = victim.nap.call_one(1000)
        queued = victim.add.call_one(1)
        neighbour.pid.call_one().get(20)

        start = time.monotonic()
        victim.stop().get(20)

        assert 0.4 < time.monotonic() - start < 4
        with pytest.raises(SupervisionError, match="stopped"):
            queued.get(20)
        with pytest.raises(SupervisionError, match="stopped"):
            victim.add.call_one(1).get(20)
        assert neighbour.add.call_one(1).get(20) == 1
    assert not pending.done


def test_a_process_that_does_not_end_in_time_is_killed(faults: Faults):
    """L3: signals are ignored, the thread never ends, and children do the same."""
    with configured(process_exit_timeout="1s"):
        procs = this_host().spawn_procs(bootstrap=ignore_signals)
        victim = procs.spawn("victim", Victim)
        stubborn = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(1000)"
        pids = [
            victim.pid.call_one().get(20),
            victim.start.call_one([sys.executable, "-c", stubborn], False).get(20),
            victim.evaluate.call_one(fork_sleeper).get(20),
        ]
        victim.nap.broadcast(1000)

        start = time.monotonic()
        procs.stop().get(20)

        assert time.monotonic() - start < 8
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), timeout=5)
    assert not faults


def ignore_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def fork_sleeper() -> int:
    pid = os.fork()
    if pid == 0:
        sleep(1000)
        os._exit(0)
    return pid


def test_a_constructor_that_never_returns_does_not_hold_the_stop_up(faults: Faults, notes: Path):
    """E6: calls can time out, stop works, and the clean-up is asked for."""
    with configured(stop_actor_timeout="500ms", process_exit_timeout="1s"):
        procs = this_host().spawn_procs()
        server = procs.spawn("server", ServesForEver, str(notes))
        with pytest.raises(TimeoutError):
            server.pid.call_one().get(1)

        start = time.monotonic()
        server.stop().get(20)
        procs.stop().get(20)

        assert time.monotonic() - start < 8
    assert notes.read_text() == "started\ncleanup TimeoutError\n"
    assert not faults


def test_stop_is_the_same_twice_and_from_two_threads(faults: Faults):
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)

    futures = [victims.stop(), victims.stop(), procs.stop(), procs.stop()]

    assert [future.get(20) for future in futures] == [None] * 4
    procs.stop().get(20)
    victims.stop().get(20)


def test_references_after_stop_say_so(faults: Faults):
    procs = this_host().spawn_procs()
    stopped, ended = procs.spawn("stopped", Victim), procs.spawn("ended", Victim)
    ended.pid.call_one().get(20)
    stopped.stop().get(20)

    with pytest.raises(SupervisionError, match=r"stopped\.add.*stopped by client"):
        stopped.add.call_one(1).get(20)
    procs.stop().get(20)

    with pytest.raises(SupervisionError, match="stopped due to proc mesh shutdown"):
        ended.add.call_one(1).get(20)
    with pytest.raises(RuntimeError, match="`ProcMesh` has already been stopped"):
        procs.initialized.get(20)
    with pytest.raises(RuntimeError, match="`ProcMesh` has already been stopped"):
        procs.spawn("late", Victim).initialized.get(20)
    assert not faults


def test_calls_in_flight_at_a_stop_are_answered_or_fail(faults: Faults):
    """None of them hangs."""
    procs = this_host().spawn_procs({"gpus": 2})
    victims = procs.spawn("victims", Victim)
    calls = [victims.add.call(1) for _ in range(200)]

    procs.stop().get(20)

    outcomes = [call.exception(10) for call in calls]
    assert all(error is None or isinstance(error, SupervisionError) for error in outcomes)


def test_globals_are_finalised_when_a_process_is_stopped(tmp_path: Path, faults: Faults):
    """The interpreter ends in good order: __del__ of globals and atexit hooks run."""
    procs = this_host().spawn_procs()
    victim = procs.spawn("victim", Victim)
    victim.evaluate.call_one(leave_traces, str(tmp_path)).get(20)

    procs.stop().get(20)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["atexit", "del"]


class Trace:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.open = open

    def __del__(self) -> None:
        self.open(self.path, "w").close()


def leave_traces(folder: str) -> None:
    import atexit

    import tests.fault.victims as module

    atexit.register((Path(folder) / "atexit").touch)
    module.trace = Trace(Path(folder) / "del")  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_cycles_of_start_and_stop_leave_nothing_behind(faults: Faults):
    """L5: 200 of them; descriptors, threads and processes stay flat."""

    def cycle() -> None:
        procs = this_host().spawn_procs({"gpus": 2})
        victims = procs.spawn("victims", Victim)
        assert list(victims.add.call(1).get(20).values()) == [1, 1]
        procs.stop().get(20)

    def counts(pid: int) -> tuple[int, int]:
        return len([*Path(f"/proc/{pid}/fd").iterdir()]), len(
            [*Path(f"/proc/{pid}/task").iterdir()]
        )

    for _ in range(5):
        cycle()
    lasting = this_host().spawn_procs().spawn("lasting", Victim)
    zygote = lasting.evaluate.call_one(os.getppid).get(20)
    agent = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    before = [counts(pid) for pid in (os.getpid(), agent, zygote)]

    for _ in range(200):
        cycle()

    wait_until(
        lambda: [counts(pid) for pid in (os.getpid(), agent, zygote)] <= before,
        what=f"as few descriptors and threads as before: {before}",
    )


def test_a_context_that_was_shut_down_can_be_made_again(faults: Faults):
    first = this_host().spawn_procs().spawn("first", Victim)
    assert first.add.call_one(1).get(20) == 1

    shutdown_context().get(20)
    shutdown_context().get(20)

    again = this_host().spawn_procs().spawn("again", Victim)
    assert again.add.call_one(1).get(20) == 1
    with pytest.raises(SupervisionError):
        first.add.call_one(1).get(20)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf"), float("-inf"), 1e300])
def test_a_wrong_time_for_the_hosts_to_end_ends_nothing(timeout: float, faults: Faults):
    victim = this_host().spawn_procs().spawn("victim", Victim)

    with pytest.raises(ValueError, match="host_timeout must be a finite number"):
        shutdown_context(host_timeout=timeout)

    assert victim.add.call_one(1).get(20) == 1


@pytest.mark.parametrize("timeout", [0, 20.0])
def test_the_time_for_the_hosts_to_end_may_be_given(timeout: float, faults: Faults):
    victim = this_host().spawn_procs().spawn("victim", Victim)
    assert victim.add.call_one(1).get(20) == 1

    assert shutdown_context(host_timeout=timeout).get(20) is None

    with pytest.raises(SupervisionError):
        victim.add.call_one(1).get(20)


def test_a_client_that_another_thread_is_making_is_used_and_ended_once_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
):
    shutdown_context().get(20)
    entered, release = Event(), Event()

    def hold(_made: object) -> None:
        entered.set()
        assert release.wait(20)

    monkeypatch.setattr(process, "_boot_hooks", [*process._boot_hooks, hold])
    with ThreadPoolExecutor(2) as pool:
        made = pool.submit(context)
        assert entered.wait(20)
        assert process.existing_runtime() is None  # nobody uses one that is half made
        ended = pool.submit(lambda: shutdown_context().get(20))
        release.set()

        assert made.result(20).actor_instance.name == "root"
        assert ended.result(20) is None
    assert process.existing_runtime() is None
