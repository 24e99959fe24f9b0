from danaus._observe.progress import LatestUpdates, ProgressRow
from danaus._observe.record import STDERR, STDOUT, Pieces, Source

ONE, TWO = Source("host", "p1", 1), Source("host", "p2", 2)


def test_first_state_is_given_out_at_once_and_the_next_after_the_interval():
    updates = LatestUpdates(interval=1.0)

    updates.add(ONE, STDERR, b"1%\r", 5.0)
    assert updates.take_due(5.0) == [Pieces(ONE, STDERR, [b"1%"])]
    updates.add(ONE, STDERR, b"2%\r", 5.1)
    updates.add(ONE, STDERR, b"3%\r", 5.2)

    assert updates.deadline == 6.0
    assert updates.take_due(5.9) == []
    assert updates.take_due(6.0) == [Pieces(ONE, STDERR, [b"3%"])]


def test_state_that_does_not_change_is_given_out_once():
    updates = LatestUpdates(interval=1.0)

    updates.add(ONE, STDERR, b"1%\r", 0.0)
    updates.take_due(0.0)

    assert updates.deadline is None
    assert updates.take_due(100.0) == []


def test_bars_of_all_ranks_are_given_out_together():
    updates = LatestUpdates()

    updates.add(ONE, STDERR, b"1%\r", 0.0)
    updates.add(TWO, STDOUT, b"2%\r", 0.0)

    assert updates.take_due(0.0) == [
        Pieces(ONE, STDERR, [b"1%"]),
        Pieces(TWO, STDOUT, [b"2%"]),
    ]


def test_settled_or_erased_bars_are_not_given_out():
    updates = LatestUpdates()

    updates.add(ONE, STDERR, b"1%\r", 0.0)
    updates.settle(ONE, STDERR)
    updates.add(TWO, STDERR, b"1%\r", 0.0)
    updates.add(TWO, STDERR, b"   \r", 0.0)

    assert updates.deadline is None
    assert updates.flush() == []


def test_row_shows_the_lowest_rank_and_counts_the_others():
    row = ProgressRow()

    row.add(TWO, STDERR, b"20%\r", 0.0)
    row.add(ONE, STDERR, b"10%\r", 0.0)

    assert row.draw(0.0) == (Pieces(ONE, STDERR, [b"10%"]), 1)


def test_row_changes_at_most_once_per_interval():
    row = ProgressRow(interval=0.1)
    row.add(ONE, STDERR, b"1%\r", 0.0)
    row.draw(5.0)
    assert row.deadline is None

    row.add(ONE, STDERR, b"2%\r", 5.01)

    assert row.deadline == 5.1


def test_bar_that_stands_still_gives_way_to_one_that_moves():
    row = ProgressRow(still_after=3.0)
    row.add(ONE, STDERR, b"10%\r", 0.0)

    row.add(TWO, STDERR, b"50%\r", 3.1)

    assert row.draw(3.1) == (Pieces(TWO, STDERR, [b"50%"]), 1)


def test_row_is_empty_when_its_bars_are_settled():
    row = ProgressRow(interval=0.1)
    row.add(ONE, STDERR, b"10%\r", 0.0)
    row.draw(0.0)

    row.settle(ONE, STDERR)

    assert row.deadline == 0.1
    assert row.draw(0.1) is None


def test_row_of_processes_with_and_without_rank_has_an_order():
    row = ProgressRow()
    client = Source("host", "p1", None)

    row.add(ONE, STDERR, b"10%\r", 0.0)
    row.add(client, STDERR, b"20%\r", 0.0)

    assert row.draw(0.0) == (Pieces(client, STDERR, [b"20%"]), 1)


def test_flush_of_the_row_gives_every_bar_once():
    row = ProgressRow()
    row.add(ONE, STDERR, b"10%\r", 0.0)
    row.add(TWO, STDERR, b"20%\r", 0.0)

    assert row.flush() == [Pieces(ONE, STDERR, [b"10%"]), Pieces(TWO, STDERR, [b"20%"])]
    assert row.flush() == []
