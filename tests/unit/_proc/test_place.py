from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus._proc.place import is_elsewhere, make_directory, remove_directory, sweep


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A directory for run-time files, with a short path, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="run-") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


def test_a_directory_is_private_and_lies_among_the_runtime_files(run: Path):
    directory = Path(make_directory())

    assert directory.parent == run
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_within_another_goes_with_it(run: Path):
    outer = make_directory()
    inner = Path(make_directory(outer))
    (inner / "s").touch()
    (inner / "agent.err").touch()

    remove_directory(outer)

    assert inner.parent == Path(outer)
    assert list(run.iterdir()) == []


def test_a_path_that_would_be_too_long_for_a_socket_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    long = tmp_path / ("x" * 150)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))

    directory = make_directory(str(long))
    remove_directory(directory)

    assert len(directory) < 90
    assert not Path(directory).exists()


def test_what_is_not_a_hosts_is_never_removed(run: Path):
    inside, beside = run / "danaus-1", run / "precious"
    for folder in (inside, beside):
        folder.mkdir()
        (folder / "data").touch()
        (folder / "s").touch()

        remove_directory(str(folder))

    assert [path.name for path in inside.iterdir()] == ["data"]
    assert sorted(path.name for path in beside.iterdir()) == ["data", "s"]


def test_a_directory_that_is_gone_already_is_no_fault(run: Path):
    remove_directory(str(run / "danaus-gone"))

    assert list(run.iterdir()) == []


def left_by_a_killed_host(run: Path) -> Path:
    directory = Path(make_directory(str(run)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "s"))
        listener.listen()
    os.utime(directory, (0, 0))
    return directory


def test_sweep_removes_what_nobody_listens_to(run: Path):
    left_by_a_killed_host(run)

    sweep(str(run))

    assert list(run.iterdir()) == []


def test_sweep_spares_hosts_that_live_and_those_that_are_being_made(run: Path):
    living, new, empty = (Path(make_directory(str(run))) for _ in range(3))
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as bound:
        listener.bind(str(living / "s"))
        listener.listen()
        os.utime(living, (0, 0))
        bound.bind(str(new / "s"))
        os.utime(empty, (0, 0))

        sweep(str(run))

        assert sorted(run.iterdir()) == sorted([living, new, empty])


def test_sweep_spares_hosts_of_other_machines_and_other_files(run: Path):
    directory = left_by_a_killed_host(run)
    other = directory.rename(run / f"danaus-zzzz{directory.name[-8:]}")
    mine = left_by_a_killed_host(run).rename(run / "my-danaus-files")
    os.utime(other, (0, 0))

    sweep(str(run))

    assert sorted(run.iterdir()) == sorted([other, mine])


def test_a_directory_of_this_machine_is_not_elsewhere(tmp_path: Path):
    made = make_directory(str(tmp_path))

    assert not is_elsewhere(f"{made}/s")
    assert not is_elsewhere("/run/worker.sock")
    assert not is_elsewhere("/tmp/danaus-mine/s")  # a user's own


def test_a_directory_of_another_machine_is_elsewhere(tmp_path: Path):
    made = Path(make_directory(str(tmp_path)))
    digits = made.name.removeprefix("danaus-")
    other = "0000" if digits[:4] != "0000" else "1111"

    assert is_elsewhere(f"{made.parent}/danaus-{other}{digits[4:]}/s")
