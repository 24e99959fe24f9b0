import os
import random
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danaus._net.link import Link
from danaus._net.reactor import Reactor
from danaus._net.shared import SharedPayload, share
from danaus._wire.frame import (
    Frame,
    encode_head,
    encode_small,
)
from danaus.testing import wait_until
from tests.unit._net.ends import PATIENCE, End, queue_limit, read_frames, small


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
