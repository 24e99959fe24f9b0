"""The leak check: what it sees, what it forgives, and what it says."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus.testing import LeakError, Leaks, find_leaks, leak_check, snapshot
from danaus.testing._offspring import Process, offspring_from_table, parse_proc, parse_ps


@pytest.fixture
def runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def open_pipe() -> Generator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def process(pid: int, parent: int) -> Process:
    return Process(pid, started="1", parent=parent, state="S", command="proc")


def test_nothing_new_is_no_leak_and_takes_no_time():
    leaks = find_leaks(snapshot(), grace=1000)

    assert not leaks
    assert str(leaks) == "nothing left behind"


def test_open_descriptor_is_found_with_what_it_refers_to():
    before = snapshot()
    left, right = socket.socketpair()
    with left, right:
        leaks = find_leaks(before, grace=0)

        assert {fd for fd, _ in leaks.fds} == {left.fileno(), right.fileno()}
        assert f"descriptor {left.fileno()}: socket:[" in str(leaks)


def test_descriptor_that_took_the_number_of_a_closed_one_is_found(open_pipe: tuple[int, int]):
    before = snapshot()
    with Path(os.devnull).open("rb") as null:
        spare = os.dup(open_pipe[0])
        os.dup2(null.fileno(), open_pipe[0])
        leaks = find_leaks(before, grace=0)
        os.dup2(spare, open_pipe[0])
        os.close(spare)

    assert (open_pipe[0], "/dev/null") in leaks.fds


def test_descriptor_held_by_unreachable_objects_only_is_no_leak():
    class Cycle:
        def __init__(self, fd: int) -> None:
            self.fd = fd
            self.me = self

        def __del__(self) -> None:
            os.close(self.fd)

    before = snapshot()
    Cycle(os.open(os.devnull, os.O_RDONLY))

    assert not find_leaks(before, grace=0)


def test_running_thread_is_found_by_name_and_is_gone_within_the_grace():
    before = snapshot()
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="io")
    thread.start()
    found = find_leaks(before, ignore=["fds"], grace=0)
    end.set()

    assert found.threads == ("io",)
    assert not find_leaks(before)


def test_files_of_the_runtime_are_found_and_others_are_not(runtime_dir: Path):
    before = snapshot()
    runtime_dir.joinpath("danaus-1", "agent").mkdir(parents=True)
    runtime_dir.joinpath("somebody-else").touch()

    leaks = find_leaks(before, grace=0)

    assert leaks.files == (f"{runtime_dir}/danaus-1", f"{runtime_dir}/danaus-1/agent")


def test_ignored_kind_is_forgiven(runtime_dir: Path):
    before = snapshot()
    runtime_dir.joinpath("danaus-1").mkdir()

    assert not find_leaks(before, ignore=["files"], grace=0)


def test_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no kind 'sockets'. Kinds are processes, fds"):
        find_leaks(snapshot(), ignore=["sockets"])


def test_leak_check_raises_what_the_block_left(runtime_dir: Path):
    with pytest.raises(LeakError, match=r"left behind:\n  file .*danaus-1") as caught:  # noqa: SIM117
        with leak_check(grace=0):
            runtime_dir.joinpath("danaus-1").mkdir()

    assert caught.value.leaks.files == (str(runtime_dir / "danaus-1"),)


def test_leak_check_lets_an_exception_of_the_block_through(runtime_dir: Path):
    with pytest.raises(KeyError), leak_check(grace=0):  # noqa: PT012  # the leak, then the error
        runtime_dir.joinpath("danaus-1").mkdir()
        raise KeyError("mine")


def test_leak_error_survives_pickling():
    error = LeakError(Leaks(processes=(process(7, 1),), threads=("io",)))

    copy = pickle.loads(pickle.dumps(error))

    assert copy.leaks == error.leaks
    assert str(copy) == str(error)


def test_offspring_includes_grandchildren_and_no_strangers():
    table = [process(2, 1), process(3, 2), process(4, 3), process(5, 1)]

    assert {found.pid for found in offspring_from_table(table, root=2)} == {3, 4}


def test_process_is_the_same_only_with_the_same_start_time():
    first = Process(7, started="100", parent=1, state="S", command="a")

    assert first == Process(7, started="100", parent=2, state="Z", command="b")
    assert first != Process(7, started="101", parent=1, state="S", command="a")


def test_process_whose_name_holds_spaces_and_parentheses_is_parsed():
    stat = "7 (my (odd) name) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 0 0"

    parsed = parse_proc(7, stat)

    assert (parsed.pid, parsed.parent, parsed.state, parsed.started) == (7, 3, "S", "4711")
    assert parsed.command == "my (odd) name"


def test_listing_of_ps_is_parsed():
    text = (
        "    1     0 Ss   Mon Dec  1 02:31:00 2026 /sbin/launchd\n"
        "  77     1 Z+   Mon Dec  1 02:31:07 2026 (python -m x)\n"
    )

    parsed = list(parse_ps(text))

    assert [(found.pid, found.parent, found.state) for found in parsed] == [
        (1, 0, "S"),
        (77, 1, "Z"),
    ]
    assert parsed[1].started == "Mon Dec 1 02:31:07 2026"
    assert parsed[1].command == "(python -m x)"
