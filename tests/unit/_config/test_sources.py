from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from danaus._config.keys import KEYS
from danaus._config.sources import read_below_runtime, read_environment, read_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return tmp_path / "danaus" / "config.toml"


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_without_file_and_environment_every_key_has_its_default(tmp_path: Path) -> None:
    values = read_below_runtime({"XDG_CONFIG_HOME": str(tmp_path)})

    assert values == {key.name: key.default for key in KEYS.values()}


def test_the_file_in_the_home_directory_is_read(config_file: Path) -> None:
    write(config_file, 'stop_actor_timeout = "120s"\ntail_log_lines = 7\n')

    values = read_below_runtime({"XDG_CONFIG_HOME": str(config_file.parent.parent)})

    assert values["stop_actor_timeout"] == "2m"
    assert values["tail_log_lines"] == 7


def test_the_environment_is_stronger_than_the_file(config_file: Path) -> None:
    path = write(config_file, "tail_log_lines = 7\nmax_cast_fanout = 4\n")

    values = read_below_runtime({"DANAUS_CONFIG": path, "DANAUS_TAIL_LOG_LINES": "8"})

    assert (values["tail_log_lines"], values["max_cast_fanout"]) == (8, 4)


def test_a_named_file_takes_the_place_of_the_one_in_the_home_directory(config_file: Path) -> None:
    write(config_file, "tail_log_lines = 7\n")
    named = write(config_file.with_name("other.toml"), "max_cast_fanout = 4\n")

    values = read_below_runtime(
        {"XDG_CONFIG_HOME": str(config_file.parent.parent), "DANAUS_CONFIG": named}
    )

    assert (values["tail_log_lines"], values["max_cast_fanout"]) == (100, 4)


def test_an_empty_file_name_means_no_file(config_file: Path) -> None:
    write(config_file, "tail_log_lines = 7\n")

    values = read_below_runtime(
        {"XDG_CONFIG_HOME": str(config_file.parent.parent), "DANAUS_CONFIG": ""}
    )

    assert values["tail_log_lines"] == 100


def test_tables_of_other_parts_are_left_alone(config_file: Path) -> None:
    path = write(config_file, 'default_encoding = "json"\n[hosts.trainers]\naddresses = ["a:1"]\n')

    assert read_file(path, must_exist=True) == {"default_encoding": "Json"}


def test_a_file_that_is_named_and_missing_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "none.toml")

    with pytest.raises(ValueError, match=r"none\.toml': there is no such file.*DANAUS_CONFIG"):
        read_file(path, must_exist=True)


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read") as caught:
        read_file(str(tmp_path), must_exist=False)

    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error", "problem"),
    [
        (b"tail_log_lines = ", ValueError, "not valid TOML"),
        (b"\xff\xfe", ValueError, "not valid TOML"),
        (b"tail_log_line = 7", ValueError, "Did you mean 'tail_log_lines'"),
        (b"tail_log_lines = -7", ValueError, "expected an int from 0"),
        (b'tail_log_lines = "7"', TypeError, "expected an int from 0"),
        (b'cleanup_timeout = "3"', TypeError, "Invalid duration format '3'"),
        (b"[tail_log_lines]", TypeError, "got a value of type dict"),
    ],
)
def test_a_bad_file_is_named_with_its_problem(
    config_file: Path, content: bytes, error: type[Exception], problem: str
) -> None:
    path = write(config_file, "")
    config_file.write_bytes(content)

    with pytest.raises(error) as caught:
        read_file(path, must_exist=True)

    assert str(caught.value).startswith(f"config file {path!r}")
    assert problem in str(caught.value)


def test_an_empty_variable_sets_nothing() -> None:
    assert read_environment({"DANAUS_TAIL_LOG_LINES": ""}) == {}


@pytest.mark.parametrize(
    ("variable", "text", "error"),
    [
        ("DANAUS_TAIL_LOG_LINES", "many", ValueError),
        ("DANAUS_PREFIX_WITH_RANK", "maybe", ValueError),
        ("DANAUS_CLEANUP_TIMEOUT", "3", TypeError),
        ("DANAUS_DEFAULT_TRANSPORT", "pigeon", ValueError),
    ],
)
def test_a_bad_variable_is_named(variable: str, text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^environment variable {variable}: .*{text}"):
        read_environment({variable: text})
