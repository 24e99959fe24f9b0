import os
from typing import Any

import pytest

from danaus._net.shared import share
from danaus._runtime.call import Call, Taker
from danaus._wire.frame import FLAG_SHARED, IN_SHARED, Frame, FrameError, Part


def shared_message(nbytes: int = 300_000) -> tuple[Frame, int]:
    """A received frame with a large part in shared memory, and the memory's descriptor."""
    payload = share([b"pickle", b"x" * nbytes])
    inline = iter(payload.inline)
    parts: list[Part | None] = [
        None if n & IN_SHARED else bytes(next(inline)) for n in payload.lengths
    ]
    return Frame(1, FLAG_SHARED, b"", parts, payload.lengths), payload.fd


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_small_message_has_its_parts_and_no_memory():
    taker = Taker(None, -1, [b"pickle"])

    assert taker.nbytes == 0
    assert taker() == [b"pickle"]


def test_a_message_is_taken_once():
    taker = Taker(None, -1, [b"pickle"])
    taker()

    assert list(taker()) == []


@pytest.mark.needs_linux
def test_a_large_message_is_mapped_when_it_is_taken_and_its_descriptor_closed():
    frame, fd = shared_message()
    taker = Taker(frame, fd, None)
    assert is_open(fd)

    parts = taker()

    assert [bytes(part) for part in parts] == [b"pickle", b"x" * 300_000]
    assert not is_open(fd)
    assert list(taker()) == []


@pytest.mark.needs_linux
def test_a_large_message_says_how_much_memory_came_with_it():
    frame, fd = shared_message(300_001)

    assert Taker(frame, fd, None).nbytes == 300_032  # to the next cache line


@pytest.mark.needs_linux
def test_a_message_that_nobody_takes_closes_its_descriptor():
    frame, fd = shared_message()
    taker = Taker(frame, fd, None)

    del taker

    assert not is_open(fd)


@pytest.mark.needs_linux
def test_a_message_whose_memory_is_too_small_is_an_error_and_its_descriptor_closed():
    frame, fd = shared_message()
    os.ftruncate(fd, 100)

    with pytest.raises(FrameError, match="smaller than the frame says"):
        Taker(frame, fd, None)()
    assert not is_open(fd)


def test_a_call_has_what_its_routing_says():
    take: Any = Taker(None, -1, [b""])

    call = Call(["to", "actor", "from", "root", 7, "step", 3, 2, b"extent"], take, None)

    assert (call.actor, call.source, call.source_actor) == ("actor", "from", "root")
    assert (call.method, call.port, call.rank, call.extent) == ("step", 3, 2, b"extent")
    assert call.take is take
