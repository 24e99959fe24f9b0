import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._wire import tree_frames
from danaus._wire.tree_frames import (
    Batch,
    Branch,
    Numbers,
    decode_batch,
    encode_batch,
    rank_runs,
)

bodies = st.lists(st.binary(max_size=6) | st.just(bytes(5000)), min_size=1, max_size=3)
replies = st.tuples(st.integers(0, 2), bodies.map(tuple))


@given(st.dictionaries(st.integers(0, 50), replies), st.sets(st.integers(0, 50)))
def test_a_batch_comes_up_as_it_was_sent(
    entries: dict[int, tuple[int, tuple[bytes, ...]]], lost: set[int]
):
    batch = Batch("root|7", 3, 2, True, list(entries.items()), sorted(lost))  # a field

    routing, parts = encode_batch(batch)
    back = decode_batch(routing, [bytes(part) for part in parts])

    assert back._replace(entries=[]) == batch._replace(entries=[])
    assert {rank: (status, tuple(body)) for rank, (status, body) in back.entries} == entries


def test_equal_replies_travel_once():
    nothing = (0, (b"N.",))
    few = encode_batch(Batch("c", 1, 1, True, [(0, nothing)], []))
    many = encode_batch(Batch("c", 1, 1, True, [(r, nothing) for r in range(100_000)], []))

    assert len(many[1]) == 1
    assert len(many[1][0]) <= len(few[1][0]) + 4


def test_more_parts_than_a_frame_counts_are_packed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tree_frames, "MOST_PARTS", 4)
    entries = [(rank, (0, (bytes([rank]) * 5000,))) for rank in range(8)]

    routing, parts = encode_batch(Batch("c", 1, 1, True, entries, []))

    assert len(parts) == 4
    assert [(rank, bytes(body[0])) for rank, (_, body) in decode_batch(routing, parts).entries] == [
        (rank, body[0]) for rank, (_, body) in entries
    ]


def test_a_batch_with_missing_parts_is_refused():
    entries = [(0, (0, (bytes(5000), bytes(5000))))]
    routing, parts = encode_batch(Batch("c", 1, 1, True, entries, []))

    with pytest.raises(ValueError, match="names more"):
        decode_batch(routing, parts[:-1])


@given(st.binary(max_size=60))
def test_what_is_no_batch_is_refused_and_not_half_read(data: bytes):
    routing, _ = encode_batch(Batch("c", 1, 1, True, [], []))

    try:
        batch = decode_batch(routing, [data])
    except (msgspec.MsgspecError, ValueError):
        return
    assert encode_batch(batch)[1]  # it was one by chance


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 3)), st.integers(0, 3))
def test_numbers_are_those_that_were_given(exceptions: dict[int, int], usual: int):
    numbers = Numbers.with_exceptions(usual, exceptions.items())
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(numbers), type=Numbers)

    assert [back.of(rank) for rank in range(42)] == [
        exceptions.get(rank, usual) for rank in range(42)
    ]


@given(st.sets(st.integers(0, 60)))
def test_runs_are_the_ranks(ranks: set[int]):
    runs = rank_runs(sorted(ranks))

    assert [r for first, count in runs for r in range(first, first + count)] == sorted(ranks)


def test_a_branch_is_itself_after_a_journey():
    leaf = Branch("tcp://b:1", [2], ["p2"], [])
    branch = Branch("tcp://a:1", [0, 1], ["p0", "p1"], [leaf])

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(branch), type=Branch) == branch
