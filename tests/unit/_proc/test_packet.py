import os
import socket
import struct
import threading
from collections.abc import Generator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danaus._proc import packet

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Generator[Ends]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_a_value_comes_back_as_it_was(ends: Ends, value: object):
    packet.send(ends[0], value)

    assert packet.receive(ends[1]) == (value, [])


def test_packets_stay_apart(ends: Ends):
    for i in range(10):
        packet.send(ends[0], ["number", i])

    received = [packet.receive(ends[1]) for _ in range(10)]

    assert received == [(["number", i], []) for i in range(10)]


@pytest.mark.parametrize("count", [1, 3, packet.MAX_DESCRIPTORS])
def test_descriptors_come_with_their_packet(ends: Ends, count: int):
    reader, writer = os.pipe()
    packet.send(ends[0], "before")
    packet.send(ends[0], "with", [writer] * count)
    packet.send(ends[0], "after")
    os.close(writer)

    received = [packet.receive(ends[1]) for _ in range(3)]

    assert [entry and (entry[0], len(entry[1])) for entry in received] == [
        ("before", 0),
        ("with", count),
        ("after", 0),
    ]
    for fd in received[1][1] if received[1] else []:
        os.write(fd, b"x")
        os.close(fd)
    assert os.read(reader, 1000) == b"x" * count
    os.close(reader)


def test_a_packet_larger_than_the_sockets_buffer_arrives(ends: Ends):
    value = {"template": "x" * (2 << 20)}
    reader, writer = os.pipe()
    thread = threading.Thread(target=packet.send, args=(ends[0], value, [writer]))
    thread.start()

    received = packet.receive(ends[1])
    thread.join(5)

    assert received is not None
    assert received[0] == value
    for fd in (reader, writer, *received[1]):
        os.close(fd)


def test_the_end_of_the_peer_is_no_packet(ends: Ends):
    ends[0].close()

    assert packet.receive(ends[1]) is None


@pytest.mark.parametrize("length", [1, 7, 8, 12])
def test_a_packet_that_breaks_off_is_no_packet_and_its_descriptors_are_closed(
    ends: Ends, length: int
):
    # The check for leaks after each test is half of the assertion.
    data = packet.encode("a value", 1)
    with socket.socket() as passed:
        socket.send_fds(ends[0], [data[:length]], [passed.fileno()])
    ends[0].close()

    assert packet.receive(ends[1]) is None


def test_bytes_that_are_no_value_are_refused(ends: Ends):
    ends[0].sendall(struct.pack("<II", 1, 0) + b"\xc1")

    with pytest.raises(msgspec.DecodeError):
        packet.receive(ends[1])
