import os
from typing import Any

from danaus._runtime.call import Call, Taker
from danaus._runtime.outcome import RAISED, VALUE, open_error
from danaus._runtime.setup import SETUP, Setup
from danaus._wire.codec import Parts, loads
from danaus.errors import ActorError
from tests.unit._runtime.threads import Threads


class Runtime:
    """What the bootstrap needs of a process."""

    id = "proc-1"

    def __init__(self) -> None:
        self.replies: list[tuple[int, int, Parts]] = []

    def reply(self, call: Call, status: int, parts: Parts) -> None:
        self.replies.append((call.port, status, parts))


def make() -> tuple[Runtime, Setup]:
    runtime: Any = Runtime()
    return runtime, Setup(runtime)


def question(port: int = 1) -> Call:
    routing = ["proc-1", SETUP, "client", "root", 0, "__ready__", port, 0, b""]
    return Call(routing, Taker(None, -1, [b""]), None)


def test_a_process_without_a_bootstrap_is_ready_at_once():
    runtime, setup = make()

    setup.wait()
    setup.answer(question())

    ((port, status, parts),) = runtime.replies
    assert (port, status, loads(parts)) == (1, VALUE, os.getpid())


def test_those_who_ask_during_the_bootstrap_are_answered_at_its_end():
    runtime, setup = make()
    setup.begin()
    setup.answer(question(1))
    setup.answer(question(2))
    assert runtime.replies == []

    setup.end(None)
    setup.answer(question(3))

    assert [(port, status) for port, status, _ in runtime.replies] == [
        (1, VALUE),
        (2, VALUE),
        (3, VALUE),
    ]


def test_those_who_ask_are_told_why_the_bootstrap_failed():
    runtime, setup = make()
    setup.begin()
    setup.answer(question())

    setup.end(ValueError("no such device"))

    ((_, status, parts),) = runtime.replies
    error = open_error(status, parts, "procs.initialized")
    assert status == RAISED
    assert isinstance(error, ActorError)
    assert isinstance(error, ValueError)
    assert "The bootstrap of process proc-1 failed." in str(error)


def test_actors_wait_for_the_end_of_the_bootstrap():
    _, setup = make()
    setup.begin()
    threads = Threads()
    threads.start(setup.wait)
    assert threads.results == []

    setup.end(None)

    threads.join()
