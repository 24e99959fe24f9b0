import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from danaus._net.reactor import Reactor
from tests.unit._net.ends import PATIENCE, End
from tests.unit._net.threads import Make, Pair


@contextmanager
def running(reactor: Reactor) -> Generator[threading.Thread]:
    """Run the reactor's I/O thread for a while."""
    thread = threading.Thread(target=reactor.run, name="io")
    thread.start()
    try:
        yield thread
    finally:
        reactor.close()
        thread.join(5)
        assert not thread.is_alive()


@pytest.fixture
def reactor() -> Generator[Reactor]:
    """A reactor whose I/O thread runs."""
    made = Reactor()
    with running(made):
        yield made
    made.dispose()


@pytest.fixture
def ends(reactor: Reactor) -> Generator[tuple[End, End]]:
    """Two links to each other."""
    left, right = socket.socketpair()
    pair = End(reactor, left), End(reactor, right)
    yield pair
    for end in pair:
        end.close()


@pytest.fixture
def one(reactor: Reactor) -> Generator[tuple[End, socket.socket]]:
    """A link, and the raw socket at its other end, which reads only when the test does."""
    ours, theirs = socket.socketpair()
    for sock in ours, theirs:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    theirs.settimeout(PATIENCE)
    end = End(reactor, ours)
    with theirs:
        yield end, theirs
        end.close()


@pytest.fixture
def pair(reactor: Reactor) -> Generator[Make]:
    made: list[Pair] = []

    def make(call: Callable[[bytes], None]) -> Pair:
        made.append(Pair(reactor, call))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """Errors that threads have reported."""
    errors: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda details: errors.append(details.exc_value))
    return errors
