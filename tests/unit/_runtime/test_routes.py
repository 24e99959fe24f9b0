import errno
import os
import socket
import struct
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from danaus._config.overrides import configured
from danaus._net.link import Link
from danaus._net.reactor import Reactor
from danaus._proc.versions import versions
from danaus._runtime import routes as routes_module
from danaus._runtime.routes import Routes
from danaus._wire import kinds
from danaus._wire.frame import Frame, encode_small
from danaus.testing import wait_until

PATIENCE = 5.0

encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode


class Agent:
    """The socket of an agent, whose other side is in the test's hands."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(50)
        self.listener.settimeout(PATIENCE)
        self.accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, list[Any]]:
        """The next connection, and what it wants."""
        sock, _ = self.listener.accept()
        sock.settimeout(PATIENCE)
        self.accepted.append(sock)
        head = sock.recv(8, socket.MSG_WAITALL)
        assert head[:4] == kinds.PREFACE
        body = sock.recv(struct.unpack("<I", head[4:])[0], socket.MSG_WAITALL)
        return sock, decode(body)

    def close(self) -> None:
        self.listener.close()
        for sock in self.accepted:
            sock.close()
        Path(self.address).unlink(missing_ok=True)


class Process:
    """A process's routes, and what they told it."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.frames: list[tuple[int, list[Any]]] = []
        self.dead: list[tuple[str, Any]] = []
        self.lost_agents: list[str] = []
        self.routes = Routes(
            "me", self.reactor, self._on_frame, self._on_dead, lambda a, _: self._on_lost(a)
        )

    def _on_frame(self, _link: Link, frame: Frame, _fds: list[int]) -> None:
        routing = decode(frame.routing)
        if frame.kind == kinds.REFUSED:
            self.routes.bury(routing[0], routing[1])
        else:
            self.frames.append((frame.kind, routing))

    def _on_dead(self, proc: str, report: Any) -> None:
        self.dead.append((proc, report))

    def _on_lost(self, address: str) -> None:
        self.lost_agents.append(address)


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory) -> Generator[Agent]:
    made = Agent(str(tmp_path_factory.mktemp("a") / "s"))
    yield made
    made.close()


@pytest.fixture
def process() -> Generator[Process]:
    made = Process()
    thread = threading.Thread(target=made.reactor.run)
    thread.start()
    yield made
    made.routes.close()
    made.reactor.close()
    thread.join(PATIENCE)
    made.reactor.dispose()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask agents about lost processes after milliseconds."""
    monkeypatch.setattr(routes_module, "_TOLD_PAUSE", 0.005)
    monkeypatch.setattr(routes_module, "_PATIENCE", 0.02)


def refuse(sock: socket.socket, proc: str, report: Any) -> None:
    sock.sendall(encode_small(kinds.REFUSED, encode([proc, report]), b""))
    sock.close()


def test_the_first_message_to_a_process_dials_it_by_its_agent(process: Process, agent: Agent):
    link = process.routes.to("proc", agent.address)
    sock, wish = agent.accept()

    assert wish == ["dial", "me", "proc", ""]
    assert link is not None
    assert process.routes.to("proc", agent.address) is link
    link.send_small(1, encode(["hello"]), b"")
    assert sock.recv(100).endswith(encode(["hello"]))


def test_a_dialled_process_answers_by_the_same_link(process: Process, agent: Agent):
    process.routes.to("proc", agent.address)
    sock, _ = agent.accept()

    sock.sendall(encode_small(2, encode(["back"]), b""))

    wait_until(lambda: process.frames == [(2, ["back"])])


def test_a_process_whose_agent_is_gone_is_dead(process: Process, agent: Agent):
    agent.close()

    assert process.routes.to("proc", agent.address) is None
    assert process.routes.to("proc", agent.address) is None

    text = "it is gone with its host's agent"
    report = {"text": text, "cause": agent.address, "host": ""}
    assert process.dead == [("proc", report)]


def test_a_process_without_a_known_way_is_not_dead(process: Process):
    assert process.routes.to("proc", "") is None

    assert process.dead == []


def test_an_address_that_was_learnt_is_a_way(process: Process, agent: Agent):
    process.routes.learn("proc", agent.address)
    process.routes.learn("proc", "")

    assert process.routes.to("proc", "") is not None
    assert process.routes.address_of("proc") == agent.address
    assert agent.accept()[1] == ["dial", "me", "proc", ""]


def test_a_client_does_not_end_with_an_agent_that_knows_the_way_to_it(process: Process):
    process.routes.learn("mesh.0-unique", "tcp://host:1")
    process.routes.learn("client-unique", "tcp://host:1")

    assert process.routes.known_at("tcp://host:1") == ["mesh.0-unique"]


def test_a_proc_reaches_its_owner_by_its_own_agent(process: Process, agent: Agent):
    process.routes.here = agent.address
    process.routes.owner = "client-unique"

    assert process.routes.to("client-unique", "tcp://gone:1") is not None

    assert agent.accept()[1][:3] == ["dial", "me", "client-unique"]


def test_those_who_are_told_of_a_death_may_need_a_link_themselves(
    process: Process, agent: Agent, tmp_path: Path
):
    links: list[Link | None] = []
    process.routes._on_dead = lambda _proc, _report: links.append(
        process.routes.agent(agent.address)
    )

    process.routes.to("proc", str(tmp_path / "nobody"))

    assert agent.accept()[1][0] == "hello"
    assert links[0] is not None


def test_an_agent_is_greeted_once(process: Process, agent: Agent):
    link = process.routes.agent(agent.address)

    assert agent.accept()[1] == ["hello", "me", os.getpid(), versions()]
    assert process.routes.agent(agent.address) is link
    assert process.routes.agent("/nobody/there") is None


def test_beyond_the_limit_messages_go_by_the_agent(process: Process, agent: Agent):
    with configured(direct_links_max=2):
        direct = [process.routes.to(f"proc-{i}", agent.address) for i in range(2)]
        third = process.routes.to("proc-2", agent.address)  # no agent is known yet
        by_agent = process.routes.agent(agent.address)
        fourth = process.routes.to("proc-3", agent.address)

    assert len({*direct, third}) == 3
    assert fourth is by_agent


def test_the_loss_of_an_agent_is_told_and_it_can_be_greeted_again(process: Process, agent: Agent):
    first = process.routes.agent(agent.address)
    agent.accept()[0].close()
    wait_until(lambda: process.lost_agents == [agent.address])

    second = process.routes.agent(agent.address)

    assert second is not None
    assert second is not first


def test_a_process_that_dials_is_answered_by_its_link(process: Process):
    ours, theirs = socket.socketpair()

    process.routes.adopt(ours.detach(), "peer", "", "")

    with theirs:
        link = process.routes.to("peer", "")
        assert link is not None
        link.send_small(1, encode(["hello"]), b"")
        assert theirs.recv(100).endswith(encode(["hello"]))


def test_two_that_dial_each_other_at_once_read_from_both_links(process: Process, agent: Agent):
    dialled = process.routes.to("peer", agent.address)
    ours, theirs = socket.socketpair()
    process.routes.adopt(ours.detach(), "peer", "", "")

    with theirs:
        theirs.sendall(encode_small(2, encode(["by theirs"]), b""))
        wait_until(lambda: process.frames == [(2, ["by theirs"])])
    assert process.routes.to("peer", agent.address) is dialled


@pytest.mark.usefixtures("quick")
def test_an_agent_is_asked_about_a_process_whose_link_has_ended(process: Process, agent: Agent):
    process.routes.to("proc", agent.address)
    agent.accept()[0].close()

    sock, wish = agent.accept()
    refuse(sock, "proc", {"text": "was killed by SIGKILL"})

    assert wish == ["dial", "me", "proc", ""]
    wait_until(lambda: process.dead == [("proc", {"text": "was killed by SIGKILL"})])
    assert process.routes.to("proc", agent.address) is None


@pytest.mark.usefixtures("quick")
def test_a_process_that_lives_is_dialled_again_by_asking(process: Process, agent: Agent):
    first = process.routes.to("proc", agent.address)
    agent.accept()[0].close()

    sock, _ = agent.accept()
    second = process.routes.to("proc", agent.address)

    assert second is not None
    assert second is not first
    second.send_small(1, encode(["again"]), b"")
    assert sock.recv(100).endswith(encode(["again"]))


@pytest.mark.usefixtures("quick")
def test_a_process_of_which_the_agent_knows_nothing_counts_as_dead_in_the_end(
    process: Process, agent: Agent
):
    process.routes.to("proc", agent.address)
    stop = threading.Event()

    def close_all() -> None:
        while not stop.is_set():
            try:
                agent.accept()[0].close()
            except OSError:
                return

    agent.listener.settimeout(0.2)
    thread = threading.Thread(target=close_all)
    thread.start()
    text = f"nobody knows anything of it at {agent.address}"
    wait_until(lambda: process.dead == [("proc", {"text": text})])
    stop.set()
    thread.join(PATIENCE)


@pytest.mark.usefixtures("quick")
def test_asking_goes_on_where_no_descriptor_was_left(
    process: Process, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    open_link = routes_module.open_link
    failures = [1, 1]

    def full(address: str, *rest: Any) -> Link | None:
        if address == agent.address and failures:
            failures.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        return open_link(address, *rest)

    process.routes.to("proc", agent.address)
    monkeypatch.setattr(routes_module, "open_link", full)
    agent.accept()[0].close()

    refuse(agent.accept()[0], "proc", {"text": "was killed"})
    wait_until(lambda: process.dead == [("proc", {"text": "was killed"})])
    assert failures == []


def test_a_death_is_told_once_and_ends_the_link(process: Process, agent: Agent):
    link = process.routes.to("proc", agent.address)
    sock, _ = agent.accept()

    process.routes.bury("proc", {"text": "first"})
    process.routes.bury("proc", {"text": "second"})

    assert process.dead == [("proc", {"text": "first"})]
    assert process.routes.dead["proc"] == {"text": "first"}
    assert sock.recv(100) == b""
    assert link is not None


def test_the_end_of_the_routes_is_no_death(process: Process, agent: Agent):
    process.routes.to("proc", agent.address)
    process.routes.agent(agent.address)
    ends = [agent.accept()[0], agent.accept()[0]]

    process.routes.close()

    assert [end.recv(100) for end in ends] == [b"", b""]
    assert (process.dead, process.lost_agents) == ([], [])


def test_what_lost_links_have_carried_is_counted(process: Process, agent: Agent):
    link = process.routes.to("proc", agent.address)
    assert link is not None
    link.send_small(1, encode(["hello"]), b"")
    agent.accept()

    process.routes.bury("proc", None)

    assert process.routes.retired_bytes[0] == link.bytes_out > 0
