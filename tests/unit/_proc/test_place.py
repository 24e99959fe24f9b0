from __future__ import annotations

import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from danaus._proc.place import make_directory, remove_directory


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
