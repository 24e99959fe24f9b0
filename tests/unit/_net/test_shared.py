import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._net.shared import SharedPayload, share, take_parts
from danaus._wire.codec import set_threshold, threshold
from danaus._wire.frame import FLAG_SHARED, IN_SHARED, Frame, Part

pytestmark = pytest.mark.needs_linux


def receive(payload: SharedPayload) -> Frame:
    """The frame that a receiver of the payload decodes."""
    inline = iter(payload.inline)
    parts: list[Part | None] = [
        None if n & IN_SHARED else bytes(next(inline)) for n in payload.lengths
    ]
    return Frame(1, FLAG_SHARED, b"", parts, payload.lengths)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=6), st.integers(1, 100))
def test_parts_come_back_as_they_were(parts: list[bytes], least: int):
    before = threshold()
    set_threshold(least)
    try:
        payload = share(parts)
    finally:
        set_threshold(before)
    frame = receive(payload)

    if payload.fd < 0:
        received = frame.parts
    else:
        received = take_parts(frame, os.dup(payload.fd))
        payload.close()

    assert [bytes(part or b"") for part in received] == parts


def test_small_parts_need_no_memory():
    payload = share([b"pickle", bytes(1000)])

    assert (payload.fd, payload.nbytes) == (-1, 0)
    assert payload.lengths == [6, 1000]


def test_a_receiver_may_write_and_the_others_do_not_see_it():
    payload = share([b"", b"a" * 300_000])
    frame = receive(payload)
    first, second = (take_parts(frame, os.dup(payload.fd)) for _ in range(2))
    payload.close()

    memoryview(first[1])[0] = ord("b")

    assert bytes(first[1][:2]) == b"ba"
    assert bytes(second[1][:2]) == b"aa"


def test_a_sender_may_change_its_memory_afterwards():
    data = bytearray(b"a" * 300_000)
    payload = share([b"", data])
    data[:] = b"b" * 300_000

    received = take_parts(receive(payload), os.dup(payload.fd))
    payload.close()

    assert bytes(received[1]) == b"a" * 300_000


def test_a_payload_that_is_closed_twice_is_closed_once():
    payload = share([bytes(300_000)])

    payload.close()
    payload.close()

    assert payload.fd == -1


def test_the_memory_lives_as_long_as_what_lies_in_it():
    payload = share([b"", b"a" * 300_000])
    kept = take_parts(receive(payload), os.dup(payload.fd))[1]
    payload.close()

    assert bytes(kept[-5:]) == b"aaaaa"
