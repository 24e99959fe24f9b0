import os
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danaus._net.reactor import Reactor
from danaus._net.shared import take_parts
from danaus._wire.frame import (
    FLAG_HANDOVER,
    FLAG_SHARED,
    Frame,
    FrameError,
    encode_head,
    encode_small,
)
from danaus.testing import wait_until
from tests.unit._net.ends import End, small


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=8, max_size=300))
def test_any_bytes_are_frames_or_the_end_of_the_link(reactor: Reactor, data: bytes):
    ours, theirs = socket.socketpair()
    end = End(reactor, ours)

    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        wait_until(lambda: bool(end.lost))

    assert len(end.lost) == 1
    end.close()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff" * 8, "flags 0xff"),
        (encode_head(1, FLAG_SHARED, b"", []), "1 descriptors are missing"),
        (encode_head(1, FLAG_SHARED | FLAG_HANDOVER, b"", []), "2 descriptors are missing"),
    ],
)
def test_what_is_no_frame_ends_the_link_and_says_why(
    one: tuple[End, socket.socket], data: bytes, why: str
):
    end, raw = one

    raw.sendall(encode_small(1, b"", b"good") + data)

    wait_until(lambda: bool(end.lost))
    assert end.lost[0].startswith("the peer sent what is no frame: ")
    assert why in end.lost[0]


@pytest.mark.needs_linux
@pytest.mark.parametrize(
    ("lengths", "size"), [([1 << 63 | 100], 50), ([1 << 63 | 1 << 62], 50), ([1 << 63], 0)]
)
def test_shared_memory_smaller_than_its_frame_says_ends_the_link(
    one: tuple[End, socket.socket], lengths: list[int], size: int
):
    end, raw = one
    memory = os.memfd_create("test")
    os.ftruncate(memory, size)

    socket.send_fds(raw, [encode_head(1, FLAG_SHARED, b"", lengths)], [memory])
    os.close(memory)

    wait_until(lambda: bool(end.lost))
    assert "shared memory" in end.lost[0]


def test_a_descriptor_that_is_no_memory_ends_the_link(
    one: tuple[End, socket.socket], monkeypatch: pytest.MonkeyPatch
):
    end, raw = one
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda details: errors.append(details.exc_value))

    socket.send_fds(raw, [encode_head(1, FLAG_SHARED, b"", [1 << 63 | 5])], [raw.fileno()])

    wait_until(lambda: bool(end.lost))
    assert "shared memory" in end.lost[0]


def test_descriptors_that_belong_to_no_frame_are_closed_with_the_link(
    one: tuple[End, socket.socket],
):
    # The check for leaks after each test is half of the assertion.
    end, raw = one

    socket.send_fds(raw, [encode_small(1, b"", b"")], [raw.fileno(), raw.fileno()])

    wait_until(lambda: bool(end.lost))
    assert "belong to no frame" in end.lost[0]


def test_a_frame_that_cannot_be_handled_ends_its_link_and_no_other(
    reactor: Reactor,
    ends: tuple[End, End],
    one: tuple[End, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
):
    left, right = ends
    end, raw = one
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda details: errors.append(details.exc_value))

    def fail(_frame: Frame) -> None:
        raise ValueError("of the handler")

    end.on_frame = fail
    raw.sendall(encode_small(1, b"", b""))
    wait_until(lambda: bool(end.lost) and bool(errors))
    left.link.send_small(1, b"", b"on")

    wait_until(lambda: bool(right.frames))
    assert end.lost == ["a frame of the peer could not be handled: ValueError('of the handler')"]
    assert [str(error) for error in errors] == ["of the handler"]
    del reactor


@pytest.mark.needs_linux
def test_a_descriptor_for_which_there_is_no_room_ends_the_link(ends: tuple[End, End]):
    import resource

    left, right = ends
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reader, writer = os.pipe()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(reader, writer) + 1, hard))
    try:
        left.link.send(1, b"", small(), reader)
        wait_until(lambda: bool(right.lost))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(reader)
        os.close(writer)

    assert "ulimit -n" in right.lost[0]


def test_a_link_shows_its_peer_and_its_state(ends: tuple[End, End]):
    left, _ = ends
    assert repr(left.link) == "<LocalLink to peer up>"

    left.link.close()

    assert repr(left.link) == "<LocalLink to peer lost>"


def test_frames_are_refused_when_the_memory_is_of_no_part():
    memory = os.open(os.devnull, os.O_RDONLY)

    with pytest.raises(FrameError, match="no part"):
        take_parts(Frame(1, FLAG_SHARED, b"", [b"x"], [1]), memory)
