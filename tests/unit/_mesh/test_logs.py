"""What the client does with the output that hosts send it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from danaus._mesh.logs import ClientLogs
from danaus._runtime.router import Runtime
from danaus._wire import kinds


class Screen:
    """A standard stream of the client, with what was written to it."""

    terminal = colour = False
    columns = 80

    def __init__(self) -> None:
        self._text = ""
        self._changed = threading.Condition()

    def write(self, text: str) -> None:
        with self._changed:
            self._text += text
            self._changed.notify_all()

    def take_until(self, mark: str) -> str:
        """What was written before the mark, once that is there."""
        with self._changed:
            assert self._changed.wait_for(lambda: mark in self._text, 5)
            before, _, self._text = self._text.partition(mark)
        return before

    def take(self) -> str:
        with self._changed:
            text, self._text = self._text, ""
        return text


class FakeAgentLink:
    """A link to a host, which answers when the test says so."""

    def __init__(self, address: str):
        self.peer = address
        self.lost = False
        self.asked: list[list[int]] = []

    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        assert kind == kinds.LOG_FLUSH
        self.asked.append(msgspec.msgpack.decode(routing))
        return not self.lost


class FakeRuntime:
    """Ports, timers and links to hosts, driven by the test."""

    closed = False

    def __init__(self, *hosts: str):
        self.routes = SimpleNamespace(agents={name: FakeAgentLink(name) for name in hosts})
        self.reactor = self
        self.ports: dict[int, Any] = {}
        self.timers: list[Callable[[], None]] = []

    def new_port(self, collector: Any) -> int:
        port = len(self.ports)
        self.ports[port] = collector
        return port

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def answer(self, host: str) -> None:
        port, index = self.routes.agents[host].asked[-1]
        self.ports[port].on_reply(index, 0, None)


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime("a", "b")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    monkeypatch.setattr("danaus._observe.console.StandardStream", lambda name: screen)
    return screen


@pytest.fixture
def logs(runtime: FakeRuntime) -> Iterator[ClientLogs]:
    logs = ClientLogs(cast("Runtime", runtime))
    yield logs
    assert logs.close()


def line(logs: ClientLogs, rank: int, text: bytes, *, mesh: str = "m", procs: int = 2) -> None:
    source = [mesh, "", "host", 100 + rank, rank, procs]
    logs.on_output(kinds.LOG, ["client", source, 1, [text]])


def end(logs: ClientLogs, rank: int, *, asked_for: bool = True) -> None:
    logs.on_output(kinds.LOG_END, ["client", "m", "host", 100 + rank, asked_for])


def window(logs: ClientLogs, seconds: float | None, mesh: str = "m") -> None:
    logs.on_output(kinds.LOG_WINDOW, ["client", mesh, seconds])


def printed(logs: ClientLogs, screen: Screen) -> str:
    """What is printed by now, without what is still collected."""
    logs.on_output(kinds.LOG, ["client", ["last", "", "host", 1, 0, 1], 1, [b"."]])
    return screen.take_until("[host 1] [0] .\n")


def test_lines_of_a_mesh_are_collected_in_the_window_that_was_set(logs: ClientLogs, screen: Screen):
    window(logs, 600)

    line(logs, 0, b"alike")
    line(logs, 1, b"alike")

    assert printed(logs, screen) == ""
    assert logs.close()
    assert screen.take() == "[2 similar log lines] alike\n"


def test_same_window_from_another_host_ends_nothing(logs: ClientLogs, screen: Screen):
    window(logs, 600)
    line(logs, 0, b"alike")

    window(logs, 600)

    assert printed(logs, screen) == ""


def test_another_window_shows_what_the_first_has_collected(logs: ClientLogs, screen: Screen):
    window(logs, 600)
    line(logs, 0, b"before")

    window(logs, 500)
    line(logs, 0, b"after")

    assert printed(logs, screen) == "[host 100] [0] before\n"


def test_window_is_that_of_its_mesh_alone(logs: ClientLogs, screen: Screen):
    window(logs, 600)

    line(logs, 0, b"at once", mesh="other", procs=1)

    assert printed(logs, screen) == "[host 100] [0] at once\n"


def test_end_of_the_last_proc_shows_what_was_collected(logs: ClientLogs, screen: Screen):
    window(logs, 600)
    line(logs, 0, b"alike")
    line(logs, 1, b"alike")

    end(logs, 0)
    assert printed(logs, screen) == ""
    end(logs, 1)

    assert printed(logs, screen) == "[2 similar log lines] alike\n"


def test_death_of_a_proc_shows_what_was_collected(logs: ClientLogs, screen: Screen):
    window(logs, 600)
    line(logs, 0, b"one")
    line(logs, 1, b"two")

    end(logs, 0, asked_for=False)

    assert "one" in printed(logs, screen)


def test_procs_of_two_hosts_may_have_the_same_pid(logs: ClientLogs, screen: Screen):
    window(logs, 600)
    for host in ("a", "b"):
        logs.on_output(kinds.LOG, ["client", ["m", "", host, 7, 0, 2], 1, [b"alike"]])

    logs.on_output(kinds.LOG_END, ["client", "m", "a", 7, True])

    assert printed(logs, screen) == ""


def test_end_of_what_was_never_shown_is_no_news(logs: ClientLogs):
    end(logs, 0)


# waiting


def test_waiting_ends_when_every_host_has_sent_all(logs: ClientLogs, runtime: FakeRuntime):
    done: list[bool] = []

    logs.when_shown(["a", "b"], lambda: done.append(True))
    runtime.answer("a")
    assert done == []
    runtime.answer("b")

    assert done == [True]


def test_host_whose_link_ends_has_sent_all(logs: ClientLogs, runtime: FakeRuntime):
    done: list[bool] = []

    logs.when_shown(["a", "b"], lambda: done.append(True))
    runtime.answer("b")
    logs.on_agent_lost("a", "it closed the connection")

    assert done == [True]
    assert runtime.ports == {}


def test_host_that_is_gone_already_is_not_waited_for(logs: ClientLogs, runtime: FakeRuntime):
    runtime.routes.agents["a"].lost = True
    done: list[bool] = []

    logs.when_shown(["a", "unknown"], lambda: done.append(True))

    assert done == [True]


def test_waiting_ends_in_any_case(logs: ClientLogs, runtime: FakeRuntime):
    done: list[bool] = []

    logs.when_shown(["a"], lambda: done.append(True))
    for call in runtime.timers:
        call()

    assert done == [True]


def test_flush_tells_that_a_host_did_not_answer_in_time(logs: ClientLogs):
    assert not logs.flush(0.01)
