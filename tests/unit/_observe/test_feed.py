from danaus._observe.aggregate import Aggregator
from danaus._observe.feed import OutputFeed
from danaus._observe.merge import RankMerger
from danaus._observe.record import STDERR, STDOUT, Entry, Merged, Merger, Pieces, Source

ONE, TWO = Source("host", "p1", 1), Source("host", "p2", 2)


def feed(*, rewrites: bool, merger: Merger | None = None) -> OutputFeed:
    return OutputFeed(lambda _: rewrites, merger)


def test_output_passes_at_once_without_a_merger():
    plain = feed(rewrites=True)
    output = Pieces(ONE, STDOUT, [b"a", b"1%\r"])

    assert list(plain.receive(output, 0.0)) == [output]
    assert plain.deadline is None
    assert list(plain.take_due(9.0)) == []
    assert list(plain.flush(9.0)) == []


def test_merged_line_is_never_shown_raw_too():
    """O1."""
    merging = feed(rewrites=True, merger=RankMerger(0.1))

    assert list(merging.receive(Pieces(ONE, STDOUT, [b"a"]), 0.0)) == []
    assert list(merging.receive(Pieces(TWO, STDOUT, [b"a"]), 0.0)) == []
    assert merging.deadline == 0.1
    (entry,) = merging.take_due(0.1)

    assert isinstance(entry, Merged)
    assert entry.ranks == (1, 2)


def test_output_that_comes_after_the_deadline_takes_what_is_due_along():
    merging = feed(rewrites=False, merger=RankMerger(0.1))
    merging.receive(Pieces(ONE, STDOUT, [b"a"]), 0.0)

    entries = merging.receive(Pieces(ONE, STDOUT, [b"b"]), 0.2)

    assert [entry.text for entry in entries if isinstance(entry, Merged)] == ["a", "b"]


def test_progress_goes_past_the_merger_to_a_row_that_is_rewritten():
    merging = feed(rewrites=True, merger=RankMerger())

    entries = merging.receive(Pieces(ONE, STDERR, [b"1%\r", b"2%\r"]), 0.0)

    assert list(entries) == [Pieces(ONE, STDERR, [b"2%\r"])]
    assert merging.deadline is None


def test_line_erases_the_bar_in_the_row_once():
    merging = feed(rewrites=True, merger=RankMerger())
    merging.receive(Pieces(ONE, STDERR, [b"1%\r"]), 0.0)

    assert list(merging.receive(Pieces(ONE, STDERR, [b"done"]), 0.0)) == [
        Pieces(ONE, STDERR, [b"\r"])
    ]
    assert list(merging.receive(Pieces(ONE, STDERR, [b"more"]), 0.0)) == []


def test_progress_without_a_row_is_a_line_at_most_once_a_second():
    plain = feed(rewrites=False)
    shown: list[Entry] = []

    for step in range(10):
        shown += plain.receive(Pieces(ONE, STDERR, [b"%d%%\r" % step]), step / 10)
    assert shown == [Pieces(ONE, STDERR, [b"0%"])]

    assert plain.deadline == 1.0
    assert list(plain.take_due(1.0)) == [Pieces(ONE, STDERR, [b"9%"])]
    assert plain.deadline is None


def test_line_replaces_progress_that_was_not_shown():
    plain = feed(rewrites=False)
    plain.receive(Pieces(ONE, STDERR, [b"1%\r"]), 0.0)
    plain.receive(Pieces(ONE, STDERR, [b"2%\r"]), 0.1)

    assert list(plain.receive(Pieces(ONE, STDERR, [b"3%\r", b"done"]), 0.2)) == [
        Pieces(ONE, STDERR, [b"done"])
    ]
    assert plain.deadline is None


def test_flush_gives_the_latest_progress():
    plain = feed(rewrites=False)
    plain.receive(Pieces(ONE, STDERR, [b"1%\r"]), 0.0)
    plain.receive(Pieces(ONE, STDERR, [b"2%\r"]), 0.1)

    assert list(plain.flush(0.1)) == [Pieces(ONE, STDERR, [b"2%"])]


def test_progress_is_merged_where_no_row_is_rewritten():
    merging = feed(rewrites=False, merger=RankMerger())

    for source in (ONE, TWO):
        assert list(merging.receive(Pieces(source, STDERR, [b"1%\r", b"2%\r"]), 0.0)) == []

    (entry,) = merging.flush(0.0)
    assert isinstance(entry, Merged)
    assert (entry.text, entry.ranks) == ("2%", (1, 2))


def test_bar_that_moves_adds_one_line_to_each_window():
    merging = feed(rewrites=False, merger=Aggregator(window=5.0))

    for step in range(50):
        shown = merging.receive(Pieces(ONE, STDERR, [b"%d%%\r" % step]), step / 10)
        assert list(shown) == []

    assert [entry.lines for entry in merging.take_due(5.0) if isinstance(entry, Merged)] == [2]


def test_another_merger_loses_nothing():
    merging = feed(rewrites=False, merger=RankMerger())
    merging.receive(Pieces(ONE, STDOUT, [b"a"]), 0.0)

    collected = merging.use(None, 0.0)

    assert [entry.text for entry in collected if isinstance(entry, Merged)] == ["a"]
    output = Pieces(ONE, STDOUT, [b"b"])
    assert list(merging.receive(output, 0.0)) == [output]
