from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._observe import aggregate
from danaus._observe.aggregate import Aggregator
from danaus._observe.record import STDERR, STDOUT, Source, Stream

lines = st.one_of(
    st.sampled_from([b"step 1", b"step 2", b"done", b"", b"a long line about alice", b"\xff\0"]),
    st.binary(max_size=12).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"")),
)


def source(rank: int) -> Source:
    return Source("host", f"proc{rank}", rank)


def shown(aggregator: Aggregator) -> list[tuple[int, str]]:
    return [(entry.lines, entry.text) for entry in aggregator.flush()]


@given(printed=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([STDOUT, STDERR]), lines)))
def test_every_line_is_counted_once(printed: list[tuple[int, Stream, bytes]]):
    aggregator = Aggregator()

    for rank, stream, line in printed:
        aggregator.add(source(rank), stream, line, 0.0)

    counts: Counter[int] = Counter()
    for entry in aggregator.flush():
        counts[entry.stream] += entry.lines
    assert counts == Counter(stream for _, stream, _ in printed)


@given(printed=st.lists(st.tuples(st.integers(0, 3), lines)))
def test_equal_lines_are_in_one_group(printed: list[tuple[int, bytes]]):
    aggregator = Aggregator()

    for rank, line in printed:
        aggregator.add(source(rank), STDOUT, line, 0.0)

    whole = [entry.text for entry in aggregator.flush() if "<<" not in entry.text]
    assert len(whole) == len(set(whole))


def test_line_that_ranks_print_alike_is_shown_once_with_its_count():
    """O1."""
    aggregator = Aggregator()

    for rank in (2, 0, 3, 1):
        for _ in range(5):
            aggregator.add(source(rank), STDOUT, b"ready", 0.0)

    (entry,) = aggregator.flush()
    assert (entry.lines, entry.text, entry.ranks, entry.procs) == (20, "ready", (0, 1, 2, 3), 4)
    assert entry.source == source(2)
    assert entry.similar


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ([b"loss of 0", b"loss of 1.5e-3"], [(2, "loss of <<0, 1.5e-3>>")]),
        ([b"at 0xdeadbeef", b"at 0xfeed"], [(2, "at <<0xdeadbeef, 0xfeed>>")]),
        ([b"hello from node-a.", b"hello from node-b."], [(2, "hello from node-<<a, b>>.")]),
        ([b"hello alice", b"hello bob"], [(1, "hello alice"), (1, "hello bob")]),
        ([b"x 1", b"hello", b"x 2", b"hello"], [(2, "x <<1, 2>>"), (2, "hello")]),
    ],
)
def test_similar_lines_are_merged(printed: list[bytes], expected: list[tuple[int, str]]):
    aggregator = Aggregator()

    for rank, line in enumerate(printed):
        aggregator.add(source(rank), STDOUT, line, 0.0)

    assert shown(aggregator) == expected


def test_line_near_a_group_is_found_again_by_its_numbers():
    aggregator = Aggregator()

    for line in (b"node-a finished step 1", b"node-b finished step 1", b"node-b finished step 2"):
        aggregator.add(source(0), STDOUT, line, 0.0)

    assert shown(aggregator) == [(3, "node-<<a, b>> finished step <<1, 2>>")]


def test_streams_are_kept_apart():
    aggregator = Aggregator()

    aggregator.add(source(0), STDOUT, b"hello", 0.0)
    aggregator.add(source(0), STDERR, b"hello", 0.0)

    assert [(entry.stream, entry.lines) for entry in aggregator.flush()] == [(1, 1), (2, 1)]


def test_hole_of_more_lines_than_samples_is_open():
    aggregator = Aggregator()

    for rank in range(9):
        aggregator.add(source(rank), STDOUT, b"rank %d" % rank, 0.0)

    assert shown(aggregator) == [(9, "rank <<0, 1, 2, 3, 4, 5, 6, 7, ...>>")]


def test_lines_wait_for_the_window_after_the_first():
    aggregator = Aggregator(window=3.0)
    assert aggregator.deadline is None

    aggregator.add(source(0), STDOUT, b"a", 10.0)
    aggregator.add(source(0), STDOUT, b"a", 12.9)

    assert aggregator.deadline == 13.0
    assert aggregator.take_due(12.9) == []
    assert [entry.lines for entry in aggregator.take_due(13.0)] == [2]
    assert aggregator.deadline is None


def test_new_window_counts_for_what_is_collected():
    aggregator = Aggregator(window=100.0)
    aggregator.add(source(0), STDOUT, b"a", 10.0)

    aggregator.window = 2.0

    assert aggregator.deadline == 12.0


def test_flood_of_different_lines_is_due_at_once():
    aggregator = Aggregator(window=100.0)

    count = 2 * aggregate._MAX_GROUPS  # some of them are merged
    for number in range(count):
        name = f"{number:020b}".replace("0", "x ").replace("1", "y ")
        aggregator.add(source(0), STDOUT, name.encode(), 1.0)

    assert aggregator.deadline == 1.0
    assert sum(entry.lines for entry in aggregator.take_due(1.0)) == count


def test_flood_of_near_lines_stops_being_compared():
    aggregator = Aggregator()
    name = "".join("abcdefghij"[number % 10] for number in range(300))

    for start in range(len(name) - 8):
        line = f"{name[start : start + 8]} {'z' * start} "
        for turn in range(20):
            aggregator.add(source(0), STDOUT, (line + "q" * turn).encode(), 0.0)

    assert aggregator._budget == 0
    assert sum(entry.lines for entry in aggregator.flush()) == 20 * (len(name) - 8)


def test_lines_that_differ_in_numbers_are_merged_without_comparisons():
    aggregator = Aggregator()
    aggregator._budget, aggregator._budget_at = 0, 0.0

    for step in range(3):
        aggregator.add(source(0), STDOUT, b"step %d" % step, 0.0)

    assert shown(aggregator) == [(3, "step <<0, 1, 2>>")]


def test_comparisons_are_paid_anew_each_second():
    aggregator = Aggregator(window=100.0)
    aggregator.add(source(0), STDOUT, b"hello from node-a.", 0.0)
    aggregator._budget, aggregator._budget_at = 0, 0.0

    aggregator.add(source(0), STDOUT, b"hello from node-b.", 0.9)
    aggregator.add(source(0), STDOUT, b"hello from node-c.", 1.0)

    assert sorted(lines for lines, _ in shown(aggregator)) == [1, 2]
