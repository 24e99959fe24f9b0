import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from danaus._net.reactor import Reactor
from danaus._proc import doorway
from danaus._proc.doorway import Doorway, Visit
from danaus._wire import kinds
from danaus._wire.frame import FrameDecoder
from danaus.testing import wait_until

PATIENCE = 5.0

pack = msgspec.msgpack.encode


class Agent:
    """What a doorway needs of an agent."""

    def __init__(self, folder: Path) -> None:
        self.reactor = Reactor()
        self.tombs: dict[str, Any] = {}
        self.known: set[str] = set()
        self.hellos: list[list[Any]] = []
        self.handed_over: list[tuple[str, str]] = []
        self.sockets: list[socket.socket] = []
        self.address = str(folder / "s")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.address)
        self.listener.listen(200)
        agent: Any = self
        self.doorway = Doorway(self.listener, self.address, agent)

    def on_hello(self, visit: Visit, hello: list[Any]) -> None:
        self.sockets.append(visit.sock)
        self.hellos.append(hello)

    def hand_over(self, visit: Visit, source: str, target: str, _address: str) -> bool:
        if target not in self.known:
            return False
        self.sockets.append(visit.sock)
        self.handed_over.append((source, target))
        return True

    def here(self, call: Callable[[], None]) -> None:
        """Run on the agent's thread, and wait until it was."""
        done = threading.Event()
        self.reactor.call_soon(call)
        self.reactor.call_soon(done.set)
        assert done.wait(PATIENCE)

    def connect(self, data: bytes) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE)
        sock.connect(self.address)
        with suppress(BrokenPipeError):  # a stranger is closed before it has written
            sock.sendall(data)
        return sock


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory) -> Generator[Agent]:
    made = Agent(tmp_path_factory.mktemp("d"))
    thread = threading.Thread(target=made.reactor.run)
    thread.start()
    yield made
    made.here(made.doorway.close)
    made.reactor.close()
    thread.join(PATIENCE)
    made.reactor.dispose()
    for sock in made.sockets:
        sock.close()


def preface(wish: object) -> bytes:
    body = pack(wish)
    return kinds.PREFACE + struct.pack("<I", len(body)) + body


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def test_a_client_that_says_hello_is_let_in(agent: Agent):
    with agent.connect(preface(["hello", "client-1", 42])):
        wait_until(lambda: agent.hellos == [["hello", "client-1", 42]])


def test_a_preface_may_come_byte_by_byte(agent: Agent):
    data = preface(["hello", "client-1", 42])

    with agent.connect(data[:1]) as sock:
        for i in range(1, len(data)):
            sock.sendall(data[i : i + 1])
        wait_until(lambda: bool(agent.hellos))


def test_a_dialled_process_gets_the_connection_with_all_that_follows_the_preface(agent: Agent):
    agent.known.add("proc-1")

    with agent.connect(preface(["dial", "client-1", "proc-1"]) + b"first frame"):
        wait_until(lambda: agent.handed_over == [("client-1", "proc-1")])
        received = agent.sockets[0]
        received.setblocking(True)
        assert received.recv(100) == b"first frame"


def test_a_process_that_is_dead_is_refused_with_its_report(agent: Agent):
    agent.tombs["proc-1"] = {"text": "was killed"}

    with agent.connect(preface(["dial", "client-1", "proc-1"])) as sock:
        (frame,) = FrameDecoder().feed(sock.recv(1000))
        assert frame.kind == kinds.REFUSED
        assert msgspec.msgpack.decode(frame.routing) == ["proc-1", {"text": "was killed"}]
        assert is_closed(sock)


def test_a_process_that_is_not_known_yet_gets_its_connections_when_it_is(agent: Agent):
    with (
        agent.connect(preface(["dial", "a", "proc-1"])) as first,
        agent.connect(preface(["dial", "b", "proc-1"])),
    ):
        first.sendall(b"x")
        wait_until(lambda: len(agent.doorway._held.get("proc-1", [])) == 2)
        agent.known.add("proc-1")
        agent.here(lambda: agent.doorway.flush("proc-1"))

    assert sorted(agent.handed_over) == [("a", "proc-1"), ("b", "proc-1")]


def test_of_very_many_connections_for_nobody_the_first_are_refused_for_the_last(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorway, "_MOST_HELD", 2)
    with (
        agent.connect(preface(["dial", "a", "proc-1"])) as first,
        agent.connect(preface(["dial", "b", "proc-1"])),
    ):
        wait_until(lambda: len(agent.doorway._held.get("proc-1", [])) == 2)
        with agent.connect(preface(["dial", "c", "proc-2"])):
            (frame,) = FrameDecoder().feed(first.recv(1000))
            wait_until(lambda: len(agent.doorway._held.get("proc-2", [])) == 1)

    assert (frame.kind, agent.doorway._holding) == (kinds.REFUSED, 1)


def test_a_process_that_never_comes_is_refused_after_a_while(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorway, "_HOLD", 0.01)

    with agent.connect(preface(["dial", "a", "proc-1"])) as sock:
        (frame,) = FrameDecoder().feed(sock.recv(1000))
        assert msgspec.msgpack.decode(frame.routing) == ["proc-1", None]


def test_a_preface_that_does_not_come_in_time_is_not_waited_for(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorway, "_PATIENCE", 0.01)

    with agent.connect(kinds.PREFACE) as sock:
        assert is_closed(sock)


nested = b"\x91" * 4000 + b"\x90"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"DAN2" + bytes(8),
        kinds.PREFACE + struct.pack("<I", 0),
        kinds.PREFACE + struct.pack("<I", 4097) + bytes(4097),
        kinds.PREFACE + struct.pack("<I", 0xFFFFFFFF),
        kinds.PREFACE + struct.pack("<I", len(nested)) + nested,
        kinds.PREFACE + struct.pack("<I", 1) + b"\xc1",
        *map(preface, [None, 1, "hello", [], ["hello"], ["hello", 1], ["hello", ["x"]]]),
        *map(preface, [["dial"], ["dial", "a"], ["dial", "a", ["b"]], ["dial", {}, "b"]]),
        *map(preface, [{0: "hello", 1: "x"}, ["other", "a", "b"], [["dial"], "a", "b"]]),
    ],
)
def test_what_is_no_preface_is_closed_and_the_next_is_served(agent: Agent, data: bytes):
    with agent.connect(data) as sock:
        assert is_closed(sock)
    with agent.connect(preface(["hello", "client-1"])):
        wait_until(lambda: agent.hellos == [["hello", "client-1"]])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.booleans())
@example(b"", True)
def test_any_bytes_are_closed_or_served(agent: Agent, data: bytes, framed: bool):
    if framed:
        data = kinds.PREFACE + struct.pack("<I", len(data)) + data

    with agent.connect(data) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert is_closed(sock)


def test_a_visitor_that_leaves_is_forgotten(agent: Agent):
    agent.connect(kinds.PREFACE).close()
    agent.connect(preface(["hello", "c"])).close()

    wait_until(lambda: bool(agent.hellos))
    wait_until(lambda: not agent.doorway._entrances[0]._visitors)


def test_many_silent_visitors_keep_nobody_out(agent: Agent):
    silent = [agent.connect(b"") for _ in range(100)]

    with agent.connect(preface(["hello", "client-1"])):
        wait_until(lambda: bool(agent.hellos))
    for sock in silent:
        sock.close()


def test_another_user_is_closed_before_a_byte_is_read(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorway, "peer_credentials", lambda _sock: (1, os.getuid() + 1))

    with agent.connect(preface(["hello", "stranger"])) as sock:
        assert is_closed(sock)
    assert agent.hellos == []


class Full:
    """A listener in a process that has no descriptor left."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener = listener
        self._left = times
        self.asked = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        if self._left:
            self._left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def test_a_lack_of_descriptors_is_waited_out_without_spinning(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorway, "_PAUSE", 0.02)
    full = Full(agent.listener, times=3)
    agent.doorway._entrances[0]._listener = full  # type: ignore[assignment]

    with agent.connect(preface(["hello", "client-1"])):
        wait_until(lambda: bool(agent.hellos))

    assert full.asked == 4


def test_closing_removes_the_socket_and_its_directory(tmp_path: Path):
    folder = tmp_path / "danaus-run"
    folder.mkdir()
    made = Agent(folder)
    (folder / "agent.err").touch()

    made.doorway.close()
    made.reactor.dispose()

    assert not folder.exists()


def test_closing_lets_go_of_those_who_wait(agent: Agent):
    with agent.connect(preface(["dial", "a", "proc-1"])) as held, agent.connect(b"D") as visitor:
        wait_until(
            lambda: bool(agent.doorway._held) and bool(agent.doorway._entrances[0]._visitors)
        )
        agent.here(agent.doorway.close)

        assert held.recv(1000)  # it is refused
        assert is_closed(held)
        assert is_closed(visitor)
