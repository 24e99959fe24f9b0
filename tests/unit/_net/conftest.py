import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from danaus._net.reactor import Reactor


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
