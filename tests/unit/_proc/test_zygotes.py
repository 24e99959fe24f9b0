import os
import socket
import threading
from collections.abc import Generator
from typing import Any

import pytest

from danaus._net.reactor import Reactor
from danaus._proc import packet
from danaus._proc.zygotes import Zygotes


class Agent:
    """What the zygotes of an agent report to; its loop runs when the test says so."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.reports: list[list[Any]] = []
        self.lost: list[int] = []
        ours, self.zygote = socket.socketpair()
        self.zygotes = Zygotes(ours, self.reactor, self.reports.append, self.lost.append)

    def step(self) -> None:
        """Handle what has come."""
        self.reactor._step(0)

    def request(self) -> tuple[Any, list[int]]:
        """The next request, as the zygote gets it."""
        received = packet.receive(self.zygote)
        assert received is not None
        return received


@pytest.fixture
def agent() -> Generator[Agent]:
    made = Agent()
    yield made
    made.zygote.close()
    made.zygotes.close()
    made.reactor.dispose()


def pipe_ends(count: int) -> list[int]:
    """Write ends whose read ends are closed."""
    fds: list[int] = []
    for _ in range(count):
        reader, writer = os.pipe()
        os.close(reader)
        fds.append(writer)
    return fds


def closed(fds: list[int]) -> bool:
    for fd in fds:
        try:
            os.fstat(fd)
        except OSError:
            continue
        return False
    return True


def test_the_plain_zygote_is_ready_at_once(agent: Agent):
    answers: list[tuple[int, str | None]] = []

    agent.zygotes.when_ready((), lambda *answer: answers.append(answer))

    assert answers == [(0, None)]


def test_a_spawn_is_passed_on_with_its_descriptors_which_are_closed_here(agent: Agent):
    fds = pipe_ends(3)

    agent.zygotes.spawn(0, {"cwd": "/"}, [["p", {}]], fds)

    request, received = agent.request()
    assert request == ["spawn", {"cwd": "/"}, [["p", {}]]]
    assert len(received) == 3
    assert closed(sorted({*fds} - {*received}))
    for fd in received:
        os.close(fd)


def test_a_signal_goes_to_the_zygote_of_the_proc(agent: Agent):
    agent.zygotes.signal(0, "p", 9)
    agent.zygotes.signal(-1, "never started", 9)

    assert [agent.request()[0] for _ in range(2)] == [
        ["signal", "p", 9],
        ["signal", "never started", 9],
    ]


def test_reports_are_passed_on_in_order(agent: Agent):
    packet.send(agent.zygote, ["up", "p", 4711])
    packet.send(agent.zygote, ["exit", "p", 4711, 9])

    agent.step()
    agent.step()

    assert agent.reports == [["up", "p", 4711], ["exit", "p", 4711, 9]]


def branch(agent: Agent, answers: list[tuple[int, str | None]]) -> socket.socket:
    """Ask for a zygote with modules; the socket of that zygote."""
    agent.zygotes.when_ready(("torch",), lambda *answer: answers.append(answer))
    request, (fd,) = agent.request()
    assert request == ["branch", ["torch"]]
    return socket.socket(fileno=fd)


def test_a_zygote_with_modules_is_made_once_and_waited_for(agent: Agent):
    answers: list[tuple[int, str | None]] = []
    with branch(agent, answers) as zygote:
        agent.zygotes.when_ready(("torch",), lambda *answer: answers.append(answer))
        assert answers == []

        packet.send(zygote, ["branched", None])
        agent.step()

        assert answers == [(1, None), (1, None)]
        agent.zygotes.when_ready(("torch",), lambda *answer: answers.append(answer))
        assert answers[2:] == [(1, None)]


def test_a_preload_that_fails_is_told_to_all_who_ask(agent: Agent):
    answers: list[tuple[int, str | None]] = []
    with branch(agent, answers) as zygote:
        packet.send(zygote, ["branched", "no module named torch"])
        agent.step()
        agent.zygotes.when_ready(("torch",), lambda *answer: answers.append(answer))

    assert answers == [(-1, "no module named torch")] * 2


def test_a_zygote_with_modules_that_dies_is_told_and_replaced(agent: Agent):
    answers: list[tuple[int, str | None]] = []
    branch(agent, answers).close()
    agent.step()

    assert answers == [(-1, "the process that preloads ended")]
    assert agent.lost == [1]
    with branch(agent, answers) as zygote:
        packet.send(zygote, ["branched", None])
        agent.step()
    assert answers[1:] == [(2, None)]


def test_the_loss_of_the_plain_zygote_is_told(agent: Agent):
    agent.zygote.close()

    agent.step()

    assert agent.lost == [0]


def test_what_is_asked_of_a_zygote_that_is_gone_closes_its_descriptors(agent: Agent):
    agent.zygote.close()
    fds = pipe_ends(3)

    agent.zygotes.spawn(0, {}, [["p", {}]], fds)

    assert closed(fds)


def test_a_zygote_that_does_not_read_keeps_nobody_waiting(agent: Agent):
    template = {"text": "x" * 100_000}
    count = 20
    for i in range(count):
        agent.zygotes.spawn(0, template, [[str(i), {}]], pipe_ends(3))

    thread = threading.Thread(target=agent.reactor.run)
    thread.start()
    requests = [agent.request() for _ in range(count)]
    agent.reactor.close()
    thread.join(5)

    for i, (request, fds) in enumerate(requests):
        assert request == ["spawn", template, [[str(i), {}]]]
        assert len(fds) == 3
        for fd in fds:
            os.close(fd)


def test_what_was_not_passed_on_is_closed_at_the_end(agent: Agent):
    # The check for leaks after each test is the assertion.
    for i in range(20):
        agent.zygotes.spawn(0, {"text": "x" * 100_000}, [[str(i), {}]], pipe_ends(3))
