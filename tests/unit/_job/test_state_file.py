from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from danaus._job import state_file
from danaus._job.state_file import FORMAT, StateFileError, locate, locked

RECORD = {"format": FORMAT, "job": "danaus.job:LocalJob", "apply_id": None, "fields": {}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".danaus"


def test_the_default_path_is_a_relative_link_to_the_context_default(folder: Path):
    file = state_file.write(state_file.DEFAULT_PATH, RECORD)

    assert (folder / "job_state.json").readlink() == Path("default/state.json")
    assert Path(file) == folder / "default" / "state.json"
    assert state_file.read(file) == RECORD


def test_the_name_of_the_reference_means_the_same_file(folder: Path):
    assert locate(".danaus/job_state.pkl") == locate(".danaus/job_state.json")
    assert state_file.write(".danaus/job_state.pkl", RECORD) == locate(state_file.DEFAULT_PATH)
    assert not (folder / "job_state.pkl").exists()


def test_a_link_to_another_context_is_followed_and_left_as_it_is(folder: Path):
    (folder / "big").mkdir(parents=True)
    (folder / "job_state.json").symlink_to("big/state.json")

    state_file.write(state_file.DEFAULT_PATH, RECORD)

    assert (folder / "big" / "state.json").is_file()
    assert (folder / "job_state.json").readlink() == Path("big/state.json")


def test_a_plain_file_in_place_of_the_link_becomes_the_context_default(folder: Path):
    folder.mkdir()
    (folder / "job_state.json").write_bytes(state_file.serialize(RECORD))

    file = locate(state_file.DEFAULT_PATH)

    assert state_file.read(file) == RECORD
    assert (folder / "job_state.json").readlink() == Path("default/state.json")


def test_any_other_path_is_used_as_it_is_and_its_folders_are_made(tmp_path: Path):
    path = tmp_path / "a" / "b" / "job.json"

    assert state_file.write(path, RECORD) == str(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["job.json"]


def test_a_state_file_is_readable_by_its_user_only(tmp_path: Path):
    path = tmp_path / "job.json"
    path.write_text("old")
    path.chmod(0o644)

    state_file.write(path, RECORD)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "job.json"
    state_file.write(path, RECORD)

    with pytest.raises(TypeError):
        state_file.write(path, {"format": FORMAT, "fields": object()})

    assert state_file.read(str(path)) == RECORD
    assert [entry.name for entry in tmp_path.iterdir()] == ["job.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is damaged"),
        (b"\x80\x04\x95", "it is damaged"),
        (b'{"format": 1, "job"', "it is damaged"),
        (b"[" * 100_000, "it is damaged"),
        (b"[1, 2]", "it is no state file"),
        (b"{}", "it is no state file"),
        (b'{"format": 99}', "it has format 99; this version of danaus reads 1"),
    ],
)
def test_a_file_that_holds_no_job_says_why(tmp_path: Path, content: bytes, why: str):
    path = tmp_path / "job.json"
    path.write_bytes(content)

    with pytest.raises(StateFileError, match=why):
        state_file.read(str(path))


@pytest.mark.needs_root
def test_a_file_of_another_user_is_not_read(tmp_path: Path):
    path = Path(state_file.write(tmp_path / "job.json", RECORD))
    os.chown(path, 12345, 12345)

    with pytest.raises(StateFileError, match=r"another user \(uid 12345\)"):
        state_file.read(str(path))


def test_a_missing_file_is_not_found(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        state_file.read(str(tmp_path / "job.json"))


def test_removing_a_file_twice_is_as_once(tmp_path: Path):
    file = state_file.write(tmp_path / "job.json", RECORD)

    state_file.remove(file)
    state_file.remove(file)

    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_kept_beside(tmp_path: Path):
    path = tmp_path / "job.json"
    path.write_text("half")

    aside = state_file.set_aside(str(path))

    assert Path(aside).read_text() == "half"
    assert not path.exists()


def test_a_lock_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path):
    with locked(str(tmp_path / "context" / "state.json")):
        assert list((tmp_path / "context").iterdir()) == []
