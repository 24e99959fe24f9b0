from hypothesis import given
from hypothesis import strategies as st

from danaus._observe import merge
from danaus._observe.merge import RankMerger
from danaus._observe.record import STDERR, STDOUT, Source, Stream


def source(rank: int | None) -> Source:
    return Source("host", f"proc{rank}", rank)


@given(
    printed=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([STDOUT, STDERR]), st.sampled_from(["a", "b"]))
    )
)
def test_output_of_each_rank_is_kept_in_order(printed: list[tuple[int, Stream, str]]):
    merger = RankMerger()

    for rank, stream, line in printed:
        merger.add(source(rank), stream, line.encode(), 0.0)
    merged = merger.flush()

    for rank in range(4):
        shown = [(entry.stream, entry.text) for entry in merged if rank in entry.ranks]
        assert shown == [(stream, line) for who, stream, line in printed if who == rank]


@given(order=st.permutations([0, 1, 2, 3]))
def test_line_of_four_ranks_is_shown_once(order: list[int]):
    """O1."""
    merger = RankMerger()

    for rank in order:
        merger.add(source(rank), STDOUT, b"ready", 0.0)

    (entry,) = merger.flush()
    assert (entry.text, entry.ranks, entry.procs, entry.lines) == ("ready", (0, 1, 2, 3), 4, 4)
    assert entry.source == source(order[0])
    assert not entry.similar


def test_line_that_a_rank_repeats_is_repeated():
    merger = RankMerger()

    for rank in (0, 0, 1, 1):
        merger.add(source(rank), STDOUT, b"tick", 0.0)

    assert [(entry.text, entry.ranks) for entry in merger.flush()] == [("tick", (0, 1))] * 2


def test_similar_lines_are_not_merged():
    merger = RankMerger()

    merger.add(source(0), STDOUT, b"rank 0", 0.0)
    merger.add(source(1), STDOUT, b"rank 1", 0.0)

    assert [entry.text for entry in merger.flush()] == ["rank 0", "rank 1"]


def test_processes_without_a_rank_are_counted():
    merger = RankMerger()

    merger.add(Source("a", "x", None), STDOUT, b"up", 0.0)
    merger.add(Source("b", "x", None), STDOUT, b"up", 0.0)

    (entry,) = merger.flush()
    assert (entry.procs, entry.ranks) == (2, ())


def test_lines_wait_for_the_window_after_the_first():
    merger = RankMerger(window=0.1)
    assert merger.deadline is None

    merger.add(source(0), STDOUT, b"a", 7.0)
    merger.add(source(1), STDOUT, b"b", 7.09)

    assert merger.deadline == 7.1
    assert merger.take_due(7.09) == []
    assert [entry.text for entry in merger.take_due(7.1)] == ["a", "b"]
    assert merger.deadline is None
    assert merger.take_due(8.0) == []


def test_flood_is_due_at_once():
    merger = RankMerger(window=100.0)

    for number in range(merge._MAX_LINES):
        merger.add(source(0), STDOUT, b"%d" % number, 1.0)

    assert len(merger.take_due(1.0)) == merge._MAX_LINES


def test_bytes_that_are_no_text_are_replaced():
    merger = RankMerger()

    merger.add(source(0), STDOUT, b"caf\xe9\0", 0.0)

    assert [entry.text for entry in merger.flush()] == ["caf\ufffd\0"]
