import signal
from typing import Any

import pytest

from danaus._proc.exits import NOT_STARTED, describe_exit, oom_kills


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_named(number: signal.Signals):
    described = describe_exit(int(number))

    assert described["exit"] == number.name
    assert described["code"] is None
    assert f"was killed by {number.name}" in described["text"]
    assert f"sig={int(number)}" in described["text"]


def test_a_signal_without_a_name_is_given_by_its_number():
    assert describe_exit(40)["exit"] == "signal 40"


def test_a_core_dump_does_not_hide_the_signal():
    assert describe_exit(signal.SIGSEGV | 0x80)["exit"] == "SIGSEGV"


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_given(code: int):
    assert describe_exit(code << 8) == {
        "exit": f"exit code {code}",
        "code": code,
        "text": f"it ended with exit code {code}",
    }


def test_the_code_of_a_proc_that_was_not_started_says_so():
    assert "could not be started" in describe_exit(NOT_STARTED << 8)["text"]


@pytest.mark.parametrize(
    ("status", "options", "hint", "absent"),
    [
        (signal.SIGKILL, {}, "may have run out of memory", "the kernel reports"),
        (signal.SIGKILL, {"oom": True}, "the kernel reports", "may have"),
        (signal.SIGTERM, {}, "SIGTERM", "memory"),
    ],
)
def test_want_of_memory_is_named_where_it_may_be_the_cause(
    status: int, options: dict[str, Any], hint: str, absent: str
):
    text = describe_exit(int(status), **options)["text"]

    assert hint in text
    assert absent not in text


def test_kills_for_want_of_memory_are_counted():
    assert oom_kills() >= 0
