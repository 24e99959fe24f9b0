from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._observe.lines import HOLD, MAX_LINE, TRUNCATED, LineSplitter, TailBuffer, is_update

SHORT = 8  # bytes of a line in the properties, so that truncation is common

text = st.lists(
    st.sampled_from(
        [b"a", b"bc", b"\n", b"\n", b"\r", b"\r\n", b"\0", b" ", "é€😀".encode(), b"\xff"]
    )
).map(b"".join)


def pieces_of(data: bytes, cuts: list[int], *, max_line: int = MAX_LINE) -> list[bytes]:
    splitter = LineSplitter(max_line=max_line)
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    chunks = [data[low:high] for low, high in pairwise(bounds)]
    return [piece for chunk in chunks for piece in splitter.feed(chunk, 0.0)] + splitter.flush()


def rows_of(data: bytes) -> list[bytes]:
    """What a terminal of endless width shows: the definition that the splitter is checked with."""
    pieces: list[bytes] = []
    rows = data.split(b"\n")
    for number, row in enumerate(rows):
        states = [state for state in row.split(b"\r") if state]
        pieces += [state + b"\r" for state in states[:-1]]
        if states or number < len(rows) - 1:
            pieces.append(states[-1] if states else b"")
    return pieces


@given(data=text, cuts=st.lists(st.integers(0, 1000)))
def test_chunks_do_not_matter(data: bytes, cuts: list[int]):
    assert pieces_of(data, cuts, max_line=SHORT) == pieces_of(data, [], max_line=SHORT)


@given(data=text, cuts=st.lists(st.integers(0, 1000)))
def test_pieces_are_what_a_terminal_shows(data: bytes, cuts: list[int]):
    assert pieces_of(data, cuts) == rows_of(data)


@given(data=st.binary(), cuts=st.lists(st.integers(0, 1000)))
def test_any_bytes_are_accepted(data: bytes, cuts: list[int]):
    assert pieces_of(data, cuts) == rows_of(data)


@given(
    chunks=st.lists(text.map(lambda data: data.replace(b"\r", b""))), ages=st.lists(st.floats(0, 1))
)
def test_no_byte_is_lost_or_doubled_when_lines_are_given_out_unfinished(
    chunks: list[bytes], ages: list[float]
):
    splitter = LineSplitter()
    now = 0.0
    pieces: list[bytes] = []
    for number, chunk in enumerate(chunks):
        now += ages[number] if number < len(ages) else 0.0
        pieces += splitter.take_partial(now) + splitter.feed(chunk, now)
    pieces += splitter.flush()

    assert b"".join(pieces) == b"".join(chunks).replace(b"\n", b"")


@given(states=st.lists(st.sampled_from([b"10%", b"20%", b"done"]), min_size=1))
def test_looking_at_a_bar_early_changes_no_line(states: list[bytes]):
    splitter = LineSplitter()
    lines: list[bytes] = []
    for number, state in enumerate(states):
        pieces = splitter.feed(b"\r" + state, float(number)) + splitter.take_partial(number + HOLD)
        lines += [piece for piece in pieces if not is_update(piece)]
    lines += splitter.feed(b"\nnext\n", 100.0)

    assert lines == [states[-1], b"next"]


@given(data=text, cuts=st.lists(st.integers(0, 1000)))
def test_no_piece_is_longer_than_the_limit(data: bytes, cuts: list[int]):
    longest = SHORT + len(TRUNCATED)

    pieces = pieces_of(data, cuts, max_line=SHORT)

    assert all(len(piece.rstrip(b"\r")) <= longest for piece in pieces)


def test_line_of_200_kb_is_cut_and_the_next_line_is_whole():
    """O3."""
    splitter = LineSplitter()

    pieces = [
        piece
        for chunk in [b"x" * 65_536, b"x" * 65_536, b"x" * 70_000, b"\nnext\n"]
        for piece in splitter.feed(chunk, 0.0)
    ]

    assert pieces == [b"x" * MAX_LINE + TRUNCATED, b"next"]


def test_long_line_is_cut_before_a_character_that_does_not_fit():
    line = b"x" * (MAX_LINE - 2) + "€€".encode() + b"\n"

    assert LineSplitter().feed(line, 0.0) == [b"x" * (MAX_LINE - 2) + TRUNCATED]


@pytest.mark.parametrize("data", [b"x" * MAX_LINE + b"\n", b"x" * MAX_LINE + b"\r\n"])
def test_line_as_long_as_the_limit_is_not_cut(data: bytes):
    assert LineSplitter().feed(data, 0.0) == [b"x" * MAX_LINE]


@pytest.mark.parametrize("start", [b"", b"\r"])
def test_memory_is_bounded_for_a_line_without_end(start: bytes):
    splitter = LineSplitter()
    splitter.feed(start, 0.0)

    for _ in range(100):
        splitter.feed(b"x" * 65_536, 0.0)

    assert len(splitter._held) <= MAX_LINE + 1


def test_unfinished_line_appears_without_waiting_for_more():
    """O3."""
    splitter = LineSplitter()
    splitter.feed(b"password: ", 5.0)

    assert splitter.take_partial(5.1) == []
    assert splitter.deadline == 5.0 + HOLD
    assert splitter.take_partial(5.0 + HOLD) == [b"password: "]
    assert splitter.deadline is None
    assert splitter.take_partial(9.0) == []


def test_clock_of_an_unfinished_line_starts_at_its_first_byte():
    splitter = LineSplitter()

    splitter.feed(b".", 1.0)
    splitter.feed(b".", 1.0 + HOLD / 2)

    assert splitter.deadline == 1.0 + HOLD


def test_finished_lines_leave_no_deadline():
    splitter = LineSplitter()

    splitter.feed(b"one\ntw", 0.0)
    splitter.feed(b"o\n", 0.0)

    assert splitter.deadline is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_end_of_a_line_that_was_given_out_makes_no_empty_line(end: bytes):
    splitter = LineSplitter()
    splitter.feed(b"loading", 0.0)
    splitter.take_partial(1.0)

    assert splitter.feed(end + b"\n", 1.0) == [b""]


def test_rest_of_a_line_that_was_given_out_is_a_line():
    splitter = LineSplitter()
    splitter.feed(b"loading", 0.0)
    splitter.take_partial(1.0)

    assert splitter.feed(b" done\n", 1.0) == [b" done"]


def test_rest_of_a_long_line_that_was_given_out_is_dropped():
    splitter = LineSplitter(max_line=4)
    splitter.feed(b"abcdef", 0.0)

    assert splitter.take_partial(1.0) == [b"abcd" + TRUNCATED]
    assert splitter.feed(b"ghi", 1.0) == []
    assert splitter.deadline is None
    assert splitter.feed(b"jkl\nnext\n", 1.0) == [b"next"]


def test_half_a_character_is_held_back():
    splitter = LineSplitter()
    euro = "€".encode()
    splitter.feed(b"5 " + euro[:2], 0.0)

    assert splitter.take_partial(1.0) == [b"5 "]
    assert splitter.deadline is None
    splitter.feed(euro[2:], 1.0)
    assert splitter.take_partial(2.0) == [euro]


def test_bytes_that_are_no_character_are_given_out_at_the_end():
    splitter = LineSplitter()
    splitter.feed(b"\xe2\x82", 0.0)

    assert splitter.take_partial(1.0) == []
    assert splitter.flush() == [b"\xe2\x82"]


def test_bar_that_writes_its_carriage_return_first_is_shown_at_each_step():
    splitter = LineSplitter()
    shown: list[bytes] = []
    for step, now in [(b"\r10%", 0.0), (b"\r20%", 1.0), (b"\n", 2.0)]:
        shown += splitter.feed(step, now)
        shown += splitter.take_partial(now + 0.5)

    assert shown == [b"10%\r", b"20%\r", b"20%"]


def test_bar_that_writes_its_carriage_return_last_is_shown_at_each_step():
    splitter = LineSplitter()
    shown: list[bytes] = []
    for step, now in [(b"10%\r", 0.0), (b"20%\r", 1.0), (b"\n", 2.0)]:
        shown += splitter.feed(step, now)
        shown += splitter.take_partial(now + 0.5)

    assert shown == [b"10%\r", b"20%\r", b"20%"]


def test_state_of_a_bar_that_grew_after_it_was_shown_is_shown_again():
    splitter = LineSplitter()
    splitter.feed(b"\r##", 0.0)

    assert splitter.take_partial(1.0) == [b"##\r"]
    splitter.feed(b"##", 1.0)
    assert splitter.take_partial(2.0) == [b"####\r"]


def test_state_of_a_bar_that_grew_after_it_was_shown_is_an_update_when_it_is_complete():
    splitter = LineSplitter()
    splitter.feed(b"\r##", 0.0)
    splitter.take_partial(1.0)

    assert splitter.feed(b"##\r", 1.0) == []
    assert splitter.feed(b"#", 1.0) == [b"####\r"]


def test_unfinished_line_after_a_bar_is_a_line():
    splitter = LineSplitter()

    assert splitter.feed(b"\r10%\nname: ", 0.0) == [b"10%"]
    assert splitter.take_partial(1.0) == [b"name: "]


def test_flush_gives_the_last_state_of_a_bar_as_a_line():
    splitter = LineSplitter()
    splitter.feed(b"\r99%", 0.0)
    splitter.take_partial(1.0)

    assert splitter.flush() == [b"99%"]
    assert splitter.flush() == []


def test_splitter_is_new_after_flush():
    splitter = LineSplitter(max_line=4)
    splitter.feed(b"\rabcdef", 0.0)
    splitter.flush()

    assert splitter.deadline is None
    assert splitter.feed(b"a\nb", 0.0) == [b"a"]


@given(
    batches=st.lists(st.lists(st.sampled_from([b"", b"one", b"three", b"1%\r", b"2%\r"]))),
    max_lines=st.integers(0, 4),
    max_bytes=st.integers(5, 12),
)
def test_tail_is_the_end_of_what_a_terminal_shows(
    batches: list[list[bytes]], max_lines: int, max_bytes: int
):
    tail = TailBuffer(max_lines, max_bytes=max_bytes)
    for batch in batches:
        tail.extend(batch)

    every = [piece for batch in batches for piece in batch]
    shown = [piece for piece in every[:-1] if not is_update(piece)] + every[-1:]
    kept = tail.lines()
    ends = [[line.rstrip(b"\r") for line in shown[start:]] for start in range(len(shown) + 1)]
    assert kept in ends
    assert len(kept) <= max_lines
    assert sum(map(len, kept)) <= max_bytes


def test_tail_keeps_the_last_lines():
    tail = TailBuffer(3)

    tail.extend([b"%d" % number for number in range(10)])
    tail.extend([b"last"])

    assert tail.lines() == [b"8", b"9", b"last"]


def test_tail_drops_the_oldest_lines_beyond_its_bytes():
    tail = TailBuffer(100, max_bytes=10)

    tail.extend([b"aaaa", b"bbbb"])
    tail.extend([b"cccc"])

    assert tail.lines() == [b"bbbb", b"cccc"]


def test_tail_replaces_an_update_by_what_follows_it():
    tail = TailBuffer(10)

    tail.extend([b"start", b"1%\r"])
    tail.extend([b"2%\r"])
    tail.extend([b"done"])

    assert tail.lines() == [b"start", b"done"]


def test_flood_of_updates_pushes_no_line_out_of_the_tail():
    tail = TailBuffer(2)

    tail.extend([b"error", *[b"%d%%\r" % step for step in range(100)]])

    assert tail.lines() == [b"error", b"99%"]
