"""The look for what a job leaves, at things that this process makes itself."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from danaus_cli.demo.remains import (
    Inventory,
    Process,
    Remains,
    find_remains,
    look_around,
    take_inventory,
)

MARK = "DANAUS_TEST_MARK=nobody"

pytestmark = pytest.mark.needs_linux


@pytest.fixture
def folder():
    """A short path, because a socket's may not be long; made after `look_around`, by a test."""
    path = Path(os.environ["TMPDIR"]) / "j"
    yield path
    for file in path.glob("*") if path.exists() else ():
        file.unlink()
    if path.exists():
        path.rmdir()


def bind(path):
    path.parent.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    return listener


def test_a_socket_bound_since_the_beginning_and_its_folder_belong_to_the_job(folder):
    known = look_around()

    with bind(folder / "s"):
        inventory = take_inventory(MARK, known)

    assert inventory.sockets == {str(folder / "s")}
    assert inventory.files == {str(folder)}


def test_a_socket_that_was_there_before_does_not_belong_to_the_job(folder):
    with bind(folder / "s"):
        known = look_around()

        inventory = take_inventory(MARK, known)

    assert inventory.sockets == frozenset()
    assert inventory.files == frozenset()


def test_a_socket_and_a_folder_that_stay_are_remains(folder):
    known = look_around()
    with bind(folder / "s"):
        inventory = take_inventory(MARK, known)

    remains = find_remains(inventory, MARK, known, patience_s=0)

    assert remains.sockets == [str(folder / "s")]
    assert remains.files == [str(folder)]


def test_nothing_remains_once_socket_and_folder_are_gone(folder):
    known = look_around()
    with bind(folder / "s"):
        inventory = take_inventory(MARK, known)
    (folder / "s").unlink()
    folder.rmdir()

    assert not find_remains(inventory, MARK, known, patience_s=0)


def test_a_process_that_lives_remains_with_its_command():
    stat = Path("/proc/self/stat").read_text()
    me = Process(os.getpid(), int(stat.rpartition(")")[2].split()[19]))

    remains = find_remains(Inventory(frozenset({me})), MARK, look_around(), patience_s=0)

    assert len(remains.processes) == 1
    assert remains.processes[0].startswith(f"{os.getpid()} ")
    assert "python" in remains.processes[0]


def test_a_later_process_with_the_same_number_does_not_count():
    other = Process(os.getpid(), 1)

    assert not find_remains(Inventory(frozenset({other})), MARK, look_around(), patience_s=0)


def test_two_inventories_unite():
    first = Inventory(frozenset({Process(1, 1)}), frozenset({"/a"}), frozenset({"/f"}), 1.0)
    second = Inventory(frozenset({Process(2, 1)}), frozenset({"/b"}), frozenset(), 2.0)

    assert first | second == Inventory(
        frozenset({Process(1, 1), Process(2, 1)}), frozenset({"/a", "/b"}), frozenset({"/f"}), 2.0
    )


@pytest.mark.parametrize(
    ("remains", "left"),
    [(Remains(), False), (Remains(waited_s=5.0), False), (Remains(files=["/f"]), True)],
)
def test_remains_are_true_if_anything_is_left(remains, left):
    assert bool(remains) is left
