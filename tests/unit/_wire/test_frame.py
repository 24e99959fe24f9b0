import tracemalloc
from itertools import pairwise
from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from danaus._wire import frame as frame_module
from danaus._wire.frame import (
    ALIGN,
    FLAG_HANDOVER,
    FLAG_SHARED,
    IN_SHARED,
    MAX_ROUTING,
    Frame,
    FrameDecoder,
    FrameError,
    encode_head,
    encode_small,
    shared_layout,
)

Plain = tuple[int, int, bytes, list[bytes | None], list[int]]


def plain(frame: Frame) -> Plain:
    """A frame as values that can be compared."""
    parts = [None if part is None else bytes(part) for part in frame.parts]
    return frame.kind, frame.flags, frame.routing, parts, frame.lengths


def encode(frame: Plain) -> bytes:
    kind, flags, routing, parts, lengths = frame
    return encode_head(kind, flags, routing, lengths) + b"".join(filter(None, parts))


@st.composite
def frames(draw: st.DrawFn) -> Plain:
    flags = draw(st.integers(0, FLAG_SHARED + FLAG_HANDOVER))
    parts: list[bytes | None] = []
    lengths: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        if flags & FLAG_SHARED and draw(st.booleans()):
            parts.append(None)
            lengths.append(IN_SHARED | draw(st.integers(0, IN_SHARED - 1)))
        else:
            data = draw(st.binary(max_size=40))
            parts.append(data)
            lengths.append(len(data))
    return draw(st.integers(0, 255)), flags, draw(st.binary(max_size=40)), parts, lengths


def decode(data: bytes, cuts: list[int]) -> list[Plain]:
    decoder = FrameDecoder()
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    received: list[Plain] = []
    for low, high in pairwise(bounds):
        # As a link does it: a view of a buffer that is written over by the next read.
        buffer = bytearray(data[low:high])
        received += map(plain, decoder.feed(memoryview(buffer)))
        buffer[:] = b"\xee" * len(buffer)
    assert decoder.pending == 0
    return received


chunk_bounds = st.lists(st.integers(0, 10_000), max_size=12)


@given(st.lists(frames(), max_size=5), chunk_bounds)
def test_frames_come_back_as_they_were_in_whatever_chunks(sent: list[Plain], cuts: list[int]):
    assert decode(b"".join(map(encode, sent)), cuts) == sent


@given(st.lists(frames(), min_size=1, max_size=3))
def test_frames_come_back_byte_by_byte(sent: list[Plain]):
    data = b"".join(map(encode, sent))

    assert decode(data, list(range(len(data)))) == sent


@given(st.lists(frames(), max_size=4), chunk_bounds, st.sampled_from([1, 30, 60, 100]))
def test_large_frames_that_are_filled_as_they_come_are_no_different(
    sent: list[Plain], cuts: list[int], large: int
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_module, "LARGE", large)

        assert decode(b"".join(map(encode, sent)), cuts) == sent


def test_a_large_frame_is_in_memory_once():
    size = 64 << 20
    data = encode((1, 0, b"", [b"pickle", bytes(size)], [6, size]))
    decoder = FrameDecoder()
    received: list[Frame] = []
    tracemalloc.start()
    try:
        for position in range(0, len(data), 1 << 14):
            received = decoder.feed(memoryview(data)[position : position + (1 << 14)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(received[0].parts[1] or b"") == size
    assert peak < 1.2 * size


@given(st.integers(0, 255), st.binary(max_size=300), st.binary(max_size=300))
def test_a_small_frame_is_encoded_as_any_other(kind: int, routing: bytes, body: bytes):
    assert encode_small(kind, routing, body) == encode((kind, 0, routing, [body], [len(body)]))


@given(st.lists(frames(), max_size=4), chunk_bounds)
@example([(7, 0, b"", [b""], [0])], [])
@example([(7, 0, b"r", [b"b"], [1]), (7, 0, b"", [], []), (7, 0, b"r", [b"b"], [1])], [18])
def test_the_unrolled_path_gives_what_the_general_one_gives(sent: list[Plain], cuts: list[int]):
    class General(FrameDecoder):
        """Takes every frame by the general path."""

        def _small_ones(self, view: memoryview, size: int, frames: list[Frame]) -> int:
            return 0

    data = b"".join(map(encode, sent))
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    unrolled, general = FrameDecoder(), General()

    for low, high in pairwise(bounds):
        chunk = data[low:high]
        assert list(map(plain, unrolled.feed(chunk))) == list(map(plain, general.feed(chunk)))
        assert unrolled.pending == general.pending


def test_the_pickle_is_read_only_and_its_buffers_are_writable():
    (frame,) = FrameDecoder().feed(encode((1, 0, b"", [b"pickle", b"array"], [6, 5])))

    assert [type(part) for part in frame.parts] == [bytes, bytearray]


@pytest.mark.parametrize(("flags", "count"), [(0, 0), (FLAG_SHARED, 1), (FLAG_HANDOVER, 1), (3, 2)])
def test_a_frame_says_how_many_descriptors_come_with_it(flags: int, count: int):
    (frame,) = FrameDecoder().feed(encode_head(1, flags, b"", []))

    assert frame.descriptors == count


def test_an_unknown_flag_is_refused():
    with pytest.raises(FrameError, match="flags 0x4"):
        FrameDecoder().feed(pack("<BBHI", 1, 4, 0, 0))


def test_a_routing_part_over_the_limit_is_refused_by_its_header_alone():
    with pytest.raises(FrameError, match=f"routing of {MAX_ROUTING + 1} bytes"):
        FrameDecoder().feed(pack("<BBHI", 1, 0, 1, MAX_ROUTING + 1))


def test_a_part_in_shared_memory_is_refused_where_no_memory_comes():
    with pytest.raises(FrameError, match="brings none"):
        FrameDecoder().feed(encode_head(1, 0, b"", [IN_SHARED | 5]))


@given(st.binary(max_size=200), chunk_bounds)
def test_any_bytes_are_frames_or_refused(data: bytes, cuts: list[int]):
    decoder = FrameDecoder()
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    consumed = 0

    for low, high in pairwise(bounds):
        try:
            received = decoder.feed(data[low:high])
        except FrameError:
            return
        consumed += sum(len(encode(plain(frame))) for frame in received)
        assert consumed + decoder.pending == high


@given(
    kind=st.integers(0, 255),
    flags=st.integers(0, 3),
    count=st.integers(0, 65_535),
    routing=st.integers(0, 1 << 32),
    lengths=st.lists(st.integers(0, (1 << 64) - 1), max_size=3),
)
def test_no_more_is_allocated_than_was_received(
    kind: int, flags: int, count: int, routing: int, lengths: list[int]
):
    # What a header promises is not believed: memory grows with what has come, nothing else.
    data = pack("<BBHI", kind, flags, count, routing % (1 << 32))
    data += b"".join(pack("<Q", length) for length in lengths)
    decoder = FrameDecoder()

    tracemalloc.start()
    try:
        decoder.feed(data)
    except FrameError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 16_384


def test_a_frame_of_nothing_but_empty_parts_costs_a_constant_times_its_length():
    data = encode_head(1, 0, b"", [0] * 5_000)

    tracemalloc.start()
    try:
        FrameDecoder().feed(data)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 20 * len(data)  # an empty bytearray of Python is seven times the 8 bytes here


def test_a_large_frame_in_small_chunks_is_put_together_once():
    # Were it parsed anew with each chunk, this would take minutes.
    size, chunk = 8 << 20, 4096
    data = encode_head(1, 0, b"routing", [0, size]) + bytes(size)
    decoder = FrameDecoder()
    received: list[Frame] = []

    for start in range(0, len(data), chunk):
        received += decoder.feed(memoryview(data)[start : start + chunk])

    assert [len(part or b"") for frame in received for part in frame.parts] == [0, size]


@given(st.lists(st.integers(0, 1 << 40), max_size=20))
def test_parts_in_shared_memory_are_aligned_and_do_not_overlap(lengths: list[int]):
    offsets, total = shared_layout(lengths)

    assert all(offset % ALIGN == 0 for offset in offsets)
    ends = [offset + length for offset, length in zip(offsets, lengths, strict=True)]
    limits = [*offsets, total][1:]
    assert all(end <= limit for end, limit in zip(ends, limits, strict=True))
    assert total <= sum(lengths) + ALIGN * len(lengths)
