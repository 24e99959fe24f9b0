"""Records of Python's logging, in an actor and outside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from danaus._runtime import python_logs
from danaus._runtime.context import Context, current
from danaus.config import configured


class NamedActor:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


@pytest.fixture(autouse=True)
def factory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The factory is installed afresh over Python's own, and taken away."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    monkeypatch.setattr(python_logs, "_installed", False)
    monkeypatch.setattr(python_logs, "existing_runtime", lambda: None)
    python_logs.install()
    yield
    logging.setLogRecordFactory(before)


@pytest.fixture
def actor() -> Iterator[None]:
    token = current.set(Context(cast("Any", NamedActor("the 100% <actor>"))))
    yield
    current.reset(token)


def logged(message: object, *args: object) -> str:
    make = logging.getLogger("test").makeRecord
    return make("test", logging.INFO, "file", 1, message, args, None).getMessage()


def test_message_of_an_actor_begins_with_its_name(actor: None):
    assert logged("hello") == "[actor=the 100% <actor>] hello"


def test_name_is_no_part_of_the_format(actor: None):
    assert logged("%d of %s", 3, "it") == "[actor=the 100% <actor>] 3 of it"


def test_empty_message_stays_empty(actor: None):
    assert logged("") == ""


def test_message_that_is_no_text_is_left_to_its_handler(actor: None):
    error = ValueError("no")

    record = logging.getLogger("test").makeRecord("test", 20, "file", 1, error, (), None)

    assert record.msg is error


def test_message_outside_actors_is_left_alone_where_no_runtime_is():
    assert logged("hello") == "hello"


def test_message_of_a_script_names_the_root(monkeypatch: pytest.MonkeyPatch):
    root = Context(cast("Any", NamedActor("<root>")))
    monkeypatch.setattr(python_logs, "existing_runtime", lambda: SimpleNamespace(root=root))

    assert logged("hello") == "[actor=<root>] hello"


def test_threads_of_a_proc_that_are_no_actor_name_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(python_logs, "existing_runtime", lambda: SimpleNamespace(root=None))

    assert logged("hello") == "hello"


def test_name_is_left_out_on_demand(actor: None):
    with configured(prefix_python_logs_with_actor=False):
        assert logged("hello") == "hello"
        assert python_logs.config.prefix_python_logs_with_actor is False


def test_demand_is_part_of_the_configuration(actor: None):
    with configured(prefix_python_logs_with_actor=True):
        python_logs.config.prefix_python_logs_with_actor = False

        assert logged("hello") == "hello"


def test_demand_must_be_a_bool():
    with pytest.raises(TypeError, match="prefix_python_logs_with_actor"):
        python_logs.config.prefix_python_logs_with_actor = cast("bool", "no")


def test_second_installation_changes_nothing(actor: None):
    python_logs.install()

    assert logged("hello") == "[actor=the 100% <actor>] hello"


def test_record_of_an_earlier_factory_is_kept(actor: None, monkeypatch: pytest.MonkeyPatch):
    class OwnRecord(logging.LogRecord):
        pass

    logging.setLogRecordFactory(OwnRecord)
    monkeypatch.setattr(python_logs, "_installed", False)
    python_logs.install()

    record = logging.getLogger("test").makeRecord("test", 20, "file", 1, "hello", (), None)

    assert type(record) is OwnRecord
    assert record.getMessage() == "[actor=the 100% <actor>] hello"


def test_level_is_that_of_the_root_logger_and_of_the_last_resort(monkeypatch: pytest.MonkeyPatch):
    root = logging.getLogger()
    last = logging.lastResort
    assert last is not None
    before = root.level, last.level
    try:
        python_logs.let_pass(logging.INFO)
        assert (root.level, last.level) == (logging.INFO, logging.INFO)
    finally:
        root.setLevel(before[0])
        last.setLevel(before[1])
