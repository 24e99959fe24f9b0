import os
import random
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danaus._config.overrides import configured
from danaus._net.link import Link
from danaus._net.reactor import Reactor
from danaus._net.shared import SharedPayload, share, take_parts
from danaus._wire.frame import (
    FLAG_HANDOVER,
    FLAG_SHARED,
    Frame,
    FrameDecoder,
    FrameError,
    encode_head,
    encode_small,
)
from danaus.testing import wait_until

PATIENCE = 5.0


class End:
    """One end of a connection as a link, and what came by it."""

    def __init__(self, reactor: Reactor, sock: socket.socket, *, may_wait: bool = True) -> None:
        self.frames: list[tuple[int, bytes, list[bytes]]] = []
        self.fds: list[int] = []
        self.lost: list[str] = []
        self.on_frame: Callable[[Frame], None] = lambda _frame: None
        self.link = Link(sock, reactor, self._take, self._end, "peer", may_wait=may_wait)

    def _take(self, _link: Link, frame: Frame, fds: list[int]) -> None:
        self.on_frame(frame)
        if frame.flags & FLAG_SHARED:
            parts = [bytes(part) for part in take_parts(frame, fds.pop(0))]
        else:
            parts = [bytes(part) for part in frame.parts if part is not None]
        self.fds += fds
        self.frames.append((frame.kind, frame.routing, parts))

    def _end(self, _link: Link, why: str) -> None:
        self.lost.append(why)

    def close(self) -> None:
        self.link.close()
        for fd in self.fds:
            os.close(fd)


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


def read_frames(sock: socket.socket, count: int, *, chunk: int = 65_536) -> list[Frame]:
    """Read from a raw socket until so many frames have come."""
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while len(frames) < count:
        data = sock.recv(chunk)
        assert data, f"the link ended after {len(frames)} of {count} frames"
        frames += decoder.feed(data)
    return frames


@contextmanager
def queue_limit(nbytes: int) -> Generator[None]:
    with configured(send_queue_bytes=nbytes):
        yield


def small(*parts: bytes) -> SharedPayload:
    return SharedPayload([len(part) for part in parts], list(parts), -1, 0)


# what is sent arrives


def test_small_frames_arrive_in_order_in_both_directions(ends: tuple[End, End]):
    left, right = ends

    for i in range(50):
        assert left.link.send_small(1, b"to the right", b"%d" % i)
        assert right.link.send_small(2, b"to the left", b"%d" % i)

    wait_until(lambda: len(left.frames) == len(right.frames) == 50)
    assert right.frames == [(1, b"to the right", [b"%d" % i]) for i in range(50)]
    assert left.frames == [(2, b"to the left", [b"%d" % i]) for i in range(50)]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 5000), max_size=4), min_size=1, max_size=8))
def test_frames_of_any_parts_arrive_in_order(ends: tuple[End, End], shape: list[list[int]]):
    left, right = ends
    right.frames.clear()
    sent = [[bytes([i % 256]) * n for n in lengths] for i, lengths in enumerate(shape)]

    for parts in sent:
        left.link.send(3, b"r", small(*parts))

    wait_until(lambda: len(right.frames) == len(sent))
    assert [parts for _, _, parts in right.frames] == sent


def test_a_frame_much_larger_than_the_sockets_buffer_arrives(ends: tuple[End, End]):
    left, right = ends
    data = random.Random(1).randbytes(3 << 20)

    left.link.send(1, b"", small(data, b"end"))

    wait_until(lambda: bool(right.frames))
    assert right.frames == [(1, b"", [data, b"end"])]


def test_a_frame_of_more_parts_than_one_write_takes_arrives(ends: tuple[End, End]):
    left, right = ends
    parts = [b"%d" % i for i in range(5000)]

    left.link.send(1, b"", small(*parts))

    wait_until(lambda: bool(right.frames))
    assert right.frames[0][2] == parts


@pytest.mark.needs_linux
def test_large_parts_arrive_in_shared_memory_with_the_small_ones(ends: tuple[End, End]):
    left, right = ends
    parts = [b"pickle", bytes(300_000), b"", b"x" * 262_144, b"small"]

    payload = share(parts)
    left.link.send(1, b"", payload)
    payload.close()

    wait_until(lambda: bool(right.frames))
    assert right.frames[0][2] == parts


@pytest.mark.needs_linux
def test_shared_memory_with_more_small_parts_than_one_write_takes_arrives(ends: tuple[End, End]):
    left, right = ends
    parts = [bytes(300_000), *(b"%d" % i for i in range(5000))]

    payload = share(parts)
    left.link.send(1, b"", payload)
    payload.close()

    wait_until(lambda: bool(right.frames))
    assert right.frames[0][2] == parts


def test_a_connection_can_be_handed_over(ends: tuple[End, End]):
    left, right = ends
    mine, theirs = socket.socketpair()

    with mine:
        with theirs:
            left.link.send(1, b"take this", small(), theirs.fileno())
        wait_until(lambda: bool(right.fds))
        with socket.socket(fileno=right.fds.pop()) as received:
            received.send(b"hello")
        assert mine.recv(10) == b"hello"


@pytest.mark.needs_linux
def test_a_received_frame_is_forwarded_as_it_is(reactor: Reactor, ends: tuple[End, End]):
    left, right = ends
    onward, target = (End(reactor, sock) for sock in socket.socketpair())

    def forward(_link: Link, frame: Frame, fds: list[int]) -> None:
        onward.link.forward(frame, fds)
        for fd in fds:
            os.close(fd)

    right.link._on_frame = forward
    payload = share([b"pickle", bytes(300_000), b"x"])
    left.link.send(9, b"routing", payload)
    payload.close()

    wait_until(lambda: bool(target.frames))
    assert target.frames == [(9, b"routing", [b"pickle", bytes(300_000), b"x"])]
    onward.close()
    target.close()


def test_frames_of_many_threads_are_not_mixed(one: tuple[End, socket.socket]):
    end, raw = one

    def work(thread: int) -> None:
        for i in range(100):
            end.link.send(thread, b"%d" % i, small(bytes([thread]) * 500, bytes([thread]) * 500))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    frames = read_frames(raw, 400, chunk=777)
    for thread in threads:
        thread.join(PATIENCE)

    for n in range(4):
        own = [frame for frame in frames if frame.kind == n]
        assert [frame.routing for frame in own] == [b"%d" % i for i in range(100)]
        assert {bytes(part or b"") for frame in own for part in frame.parts} == {bytes([n]) * 500}


def test_a_link_counts_what_it_carries(ends: tuple[End, End]):
    left, right = ends

    left.link.send_small(1, b"", b"body")
    left.link.send(1, b"", small(b"a", b"b"))

    wait_until(lambda: len(right.frames) == 2)
    size = len(encode_small(1, b"", b"body")) + len(encode_head(1, 0, b"", [1, 1])) + 2
    assert (left.link.frames_out, left.link.bytes_out) == (2, size)
    assert (right.link.frames_in, right.link.bytes_in) == (2, size)


# a peer that does not read


def test_what_the_socket_does_not_take_is_sent_when_there_is_room(one: tuple[End, socket.socket]):
    end, raw = one

    for i in range(200):
        assert end.link.send_small(1, b"%d" % i, bytes(1000))
    assert end.link.queued > 100_000

    frames = read_frames(raw, 200, chunk=1013)
    assert [frame.routing for frame in frames] == [b"%d" % i for i in range(200)]
    wait_until(lambda: end.link.queued == 0)


def test_a_sender_waits_while_too_much_is_queued(one: tuple[End, socket.socket]):
    end, raw = one
    count = 400
    sent: list[bool] = []

    def work() -> None:
        sent.extend(end.link.send_small(1, b"", bytes(1000)) for _ in range(count))

    with queue_limit(20_000):
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: end.link.queued > 20_000)
        held = end.link.queued

        read_frames(raw, count)
        thread.join(PATIENCE)

    assert held < 40_000  # one message over the limit, and not the rest of them
    assert sent == [True] * count


def test_a_sender_that_waits_is_told_when_the_peer_is_lost(one: tuple[End, socket.socket]):
    end, raw = one
    sent: list[bool] = []

    def work() -> None:
        while not sent or sent[-1]:
            sent.append(end.link.send_small(1, b"", bytes(1000)))

    with queue_limit(20_000):
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: end.link.queued > 20_000)
        raw.close()
        thread.join(PATIENCE)

    assert not thread.is_alive()
    assert sent[-1] is False


def test_a_link_that_may_not_wait_queues_without_end(reactor: Reactor):
    ours, theirs = socket.socketpair()
    end = End(reactor, ours, may_wait=False)

    with theirs, queue_limit(1000):
        for _ in range(50):
            end.link.send_small(1, b"", bytes(100_000))
        assert end.link.queued > 1_000_000
        end.close()


def test_the_driving_thread_never_waits_for_room(reactor: Reactor, one: tuple[End, socket.socket]):
    end, raw = one
    done = threading.Event()

    def answer(_frame: Frame) -> None:
        for _ in range(200):
            end.link.send_small(2, b"", bytes(1000))
        done.set()

    end.on_frame = answer
    with queue_limit(10_000):
        raw.sendall(encode_small(1, b"", b""))
        assert done.wait(PATIENCE)

    assert len(read_frames(raw, 200)) == 200


def test_what_is_queued_does_not_change_with_the_senders_memory(one: tuple[End, socket.socket]):
    end, raw = one
    data = bytearray(b"a" * 100_000)

    end.link.send(1, b"", SharedPayload([len(data)], [memoryview(data)], -1, 0))
    data[:] = b"b" * 100_000

    (frame,) = read_frames(raw, 1)
    assert frame.parts == [b"a" * 100_000]


def test_descriptors_that_had_to_queue_arrive_with_their_frames(ends: tuple[End, End]):
    left, right = ends
    blocker = bytes(8 << 20)
    numbers = list(range(20))

    left.link.send(0, b"", small(blocker))
    for number in numbers:
        reader, writer = os.pipe()
        os.write(writer, bytes([number]))
        left.link.send(1, bytes([number]), small(), reader)
        os.close(reader)
        os.close(writer)

    wait_until(lambda: len(right.frames) == 1 + len(numbers))
    assert [os.read(fd, 10) for fd in right.fds] == [bytes([number]) for number in numbers]


def test_flushing_waits_until_the_queue_is_written(one: tuple[End, socket.socket]):
    end, raw = one
    for _ in range(100):
        end.link.send_small(1, b"", bytes(1000))

    assert not end.link.flush(0.01)
    thread = threading.Thread(target=read_frames, args=(raw, 100))
    thread.start()
    assert end.link.flush(PATIENCE)
    thread.join(PATIENCE)


# the end of a link


def test_the_end_of_the_peer_is_told_once_after_what_it_sent(
    reactor: Reactor, ends: tuple[End, End]
):
    left, right = ends
    for _ in range(100):
        left.link.send_small(1, b"", bytes(1000))
    assert left.link.flush(PATIENCE)

    left.link.close()

    wait_until(lambda: bool(right.lost))
    assert len(right.frames) == 100
    assert right.lost == ["the peer closed the connection"]
    assert right.link.lost
    del reactor


def test_closing_a_link_is_no_loss_and_twice_is_once(ends: tuple[End, End]):
    left, right = ends

    left.link.close()
    left.link.close()

    wait_until(lambda: bool(right.lost))
    assert left.lost == []


def test_a_lost_link_sends_no_more(ends: tuple[End, End]):
    left, right = ends
    left.link.close()
    wait_until(lambda: bool(right.lost))

    for link in left.link, right.link:
        assert not link.send_small(1, b"", b"")
        assert not link.send(1, b"", small(b""))
        assert link.flush(0)


def test_sending_to_a_peer_that_is_gone_ends_in_the_loss_of_the_link(
    one: tuple[End, socket.socket],
):
    end, raw = one
    raw.close()

    wait_until(lambda: not end.link.send_small(1, b"", bytes(1000)))
    wait_until(lambda: len(end.lost) == 1)


def test_queued_descriptors_are_closed_with_the_link(one: tuple[End, socket.socket]):
    # The check for leaks after each test is the assertion.
    end, _raw = one
    end.link.send(1, b"", small(bytes(200_000)))

    for _ in range(5):
        reader, writer = os.pipe()
        end.link.send(1, b"", small(), reader)
        os.close(reader)
        os.close(writer)

    end.link.close()


# a peer that sends garbage


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
    assert repr(left.link) == "<Link to peer up>"

    left.link.close()

    assert repr(left.link) == "<Link to peer lost>"


def test_frames_are_refused_when_the_memory_is_of_no_part():
    memory = os.open(os.devnull, os.O_RDONLY)

    with pytest.raises(FrameError, match="no part"):
        take_parts(Frame(1, FLAG_SHARED, b"", [b"x"], [1]), memory)
