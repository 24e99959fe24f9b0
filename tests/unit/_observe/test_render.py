import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._observe.record import STDERR, STDOUT, Entry, Merged, Pieces, Source, Stream
from danaus._observe.render import LogRenderer, compact_ranks

CLIENT = Source("host", "solo", None)


class FakeSink:
    """Records what is written; `screen` applies it as a terminal would."""

    columns = 40

    def __init__(self, *, terminal: bool = False, colour: bool = False):
        self.terminal = terminal
        self.colour = colour
        self.writes: list[str] = []

    def write(self, text: str) -> None:
        self.writes.append(text)

    def text(self) -> str:
        return "".join(self.writes)

    def screen(self) -> list[str]:
        rows = [""]
        column = 0
        for token in re.findall(r"\x1b\[K|.", self.text(), re.DOTALL):
            if token == "\n":
                rows.append("")
                column = 0
            elif token == "\r":
                column = 0
            elif token == "\x1b[K":
                rows[-1] = rows[-1][:column]
            else:
                rows[-1] = rows[-1][:column] + token + rows[-1][column + 1 :]
                column += 1
        return rows


def source(rank: int) -> Source:
    return Source("host", f"proc{rank}", rank)


def out(rank: int, *pieces: bytes, stream: Stream = STDOUT) -> Pieces:
    return Pieces(source(rank), stream, pieces)


def merged(*ranks: int, lines: int | None = None, similar: bool = False) -> Merged:
    count = len(ranks) if lines is None else lines
    return Merged(STDOUT, source(ranks[0]), ranks, len(ranks), count, "hello", similar)


def rendered(*entries: Entry, colour: bool = False, prefix_with_rank: bool = True) -> str:
    sink = FakeSink(colour=colour)
    LogRenderer(sink, FakeSink(), prefix_with_rank=prefix_with_rank).write(entries, 0.0)
    return sink.text()


def test_line_is_prefixed_with_its_process_and_its_rank():
    assert rendered(out(3, b"one", b"")) == "[host proc3] [3] one\n[host proc3] [3] \n"


def test_prefix_without_rank_when_it_is_not_wanted_or_not_there():
    entries = [out(3, b"one"), Pieces(CLIENT, STDOUT, [b"two"])]

    assert rendered(entries[0], prefix_with_rank=False) == "[host proc3] one\n"
    assert rendered(entries[1]) == "[host solo] two\n"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (merged(1), "[host proc1] [1] hello\n"),
        (merged(1, similar=True), "[host proc1] [1] hello\n"),
        (merged(0, 1, 2, 5), "[4 procs] [0-2,5] hello\n"),
        (merged(0, 1, lines=7, similar=True), "[7 similar log lines] hello\n"),
    ],
)
def test_merged_line_shows_how_many_it_stands_for(entry: Merged, text: str):
    assert rendered(entry) == text


def test_name_of_the_mesh_stands_in_the_prefix_of_one_line_and_of_a_merged_one():
    named = Source("host", "4711", 0, "trainers")
    pair = Merged(STDOUT, named, (0, 1), 2, 2, "hello", similar=False)

    assert rendered(Pieces(named, STDOUT, [b"one"])) == "[host trainers 4711] [0] one\n"
    assert rendered(pair) == "[2 procs of trainers] [0-1] hello\n"


def test_count_of_similar_lines_is_yellow_where_colour_is_allowed():
    text = rendered(merged(0, 1, similar=True), colour=True)

    assert text == "\x1b[33m[2 similar log lines]\x1b[0m hello\n"


def test_merged_line_without_ranks_shows_the_processes_only():
    entry = merged(0, 1)

    assert rendered(entry, prefix_with_rank=False) == "[2 procs] hello\n"
    assert rendered(entry._replace(ranks=())) == "[2 procs] hello\n"


def test_batch_is_one_write_to_each_stream():
    stdout, stderr = FakeSink(), FakeSink()
    renderer = LogRenderer(stdout, stderr)

    renderer.write([out(0, b"a", b"b"), out(1, b"c"), out(0, b"e", stream=STDERR)], 0.0)

    assert stdout.writes == ["[host proc0] [0] a\n[host proc0] [0] b\n[host proc1] [1] c\n"]
    assert stderr.writes == ["[host proc0] [0] e\n"]


def test_nothing_is_written_for_nothing():
    stdout = FakeSink(terminal=True)
    renderer = LogRenderer(stdout, stdout)

    renderer.write([], 0.0)
    renderer.tick(1.0)
    renderer.close(2.0)

    assert stdout.writes == []
    assert renderer.deadline is None


@given(lines=st.lists(st.binary().map(lambda data: re.sub(rb"[\r\n]", b"", data)), min_size=1))
@pytest.mark.parametrize("terminal", [False, True])
def test_any_bytes_make_one_line_each(terminal: bool, lines: list[bytes]):
    """O3."""
    sink = FakeSink(terminal=terminal)

    LogRenderer(sink, sink).write([out(0, *lines)], 0.0)

    rows = sink.text().split("\n")
    assert len(rows) == len(lines) + 1
    assert all(row.startswith("[host proc0] [0] ") for row in rows[:-1])


def test_bytes_that_are_no_text_are_replaced():
    assert rendered(out(0, b"caf\xe9\0")) == "[host proc0] [0] caf\ufffd\0\n"


def test_output_that_is_not_for_a_terminal_is_left_as_it_is():
    assert rendered(out(0, b"\x1b[A\x1b[31mred")) == "[host proc0] [0] \x1b[A\x1b[31mred\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"up\x1b[A and clear\x1b[2J", "up and clear"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;never ended", ""),
        (b"\x1b(0\x1b7\x1bMline", "line"),
        (b"nul\0 shift\x0e", "nul\u2400 shift\u240e"),
        ("\x9b2Jc1".encode(), "2Jc1"),
        (b"tab\tbell\x07", "tab\tbell\x07"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"\x1b[31mred", "\x1b[31mred\x1b[0m"),
    ],
)
def test_line_cannot_disorder_the_terminal(line: bytes, shown: str):
    sink = FakeSink(terminal=True)

    LogRenderer(sink, sink).write([out(0, line)], 0.0)

    assert sink.text() == f"[host proc0] [0] {shown}\n"


def test_progress_on_a_terminal_is_rewritten_in_place():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)

    renderer.write([out(0, b"10%\r")], 0.0)
    renderer.write([out(0, b"20%\r")], 1.0)

    assert sink.screen() == ["[host proc0] [0] 20%"]


def test_fast_progress_is_drawn_when_it_is_due():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)
    renderer.write([out(0, b"10%\r")], 1.0)

    renderer.write([out(0, b"20%\r")], 1.01)
    assert sink.screen() == ["[host proc0] [0] 10%"]
    assert renderer.deadline == 1.1
    renderer.tick(1.1)

    assert sink.screen() == ["[host proc0] [0] 20%"]


def test_finished_bar_becomes_a_line():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)

    renderer.write([out(0, b"10%\r")], 0.0)
    renderer.write([out(0, b"100%", b"next")], 0.01)

    assert sink.screen() == ["[host proc0] [0] 100%", "[host proc0] [0] next", ""]


def test_erased_bar_leaves_no_trace():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)

    renderer.write([out(0, b"10%\r")], 0.0)
    renderer.write([out(0, b"    \r")], 1.0)

    assert sink.screen() == [""]


def test_row_gives_way_to_lines_of_the_other_stream():
    screen = FakeSink(terminal=True)  # both streams are the same terminal
    renderer = LogRenderer(screen, screen)

    renderer.write([out(0, b"10%\r", stream=STDERR)], 0.0)
    renderer.write([out(1, b"line")], 0.01)

    assert screen.screen() == ["[host proc1] [1] line", "[host proc0] [0] 10%"]


def test_row_stays_below_a_merged_line_that_was_collected_before():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)
    renderer.write([out(0, b"10%\r")], 0.0)

    renderer.write([merged(0, 1)], 1.0)

    assert sink.screen() == ["[2 procs] [0-1] hello", "[host proc0] [0] 10%"]


def test_row_stays_when_lines_go_elsewhere():
    stdout, stderr = FakeSink(), FakeSink(terminal=True)
    renderer = LogRenderer(stdout, stderr)
    renderer.write([out(0, b"10%\r", stream=STDERR)], 0.0)

    renderer.write([out(1, b"line")], 0.01)

    assert stdout.text() == "[host proc1] [1] line\n"
    assert len(stderr.writes) == 1


def test_row_is_cut_to_the_width_of_the_terminal():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)

    renderer.write([out(0, b"x" * 100 + b"\r"), out(1, b"y\r")], 0.0)

    (row,) = sink.screen()
    assert row == "[host proc0] [0] ".ljust(26, "x") + " (and 1 more)"
    assert len(row) == FakeSink.columns - 1


def test_wide_characters_count_twice_in_the_row():
    sink = FakeSink(terminal=True)

    LogRenderer(sink, sink).write([out(0, "日".encode() * 100 + b"\r")], 0.0)

    assert sink.screen() == ["[host proc0] [0] " + "日" * 11]


def test_colours_are_taken_from_the_row():
    sink = FakeSink(terminal=True)

    LogRenderer(sink, sink).write([out(0, b"\x1b[32m10%\x1b[0m\r")], 0.0)

    assert sink.screen() == ["[host proc0] [0] 10%"]


def test_close_leaves_the_last_state_of_every_bar_as_a_line():
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)
    renderer.write([out(0, b"10%\r"), out(1, b"20%\r")], 0.0)

    renderer.close(0.01)

    assert sink.screen() == ["[host proc0] [0] 10%", "[host proc1] [1] 20%", ""]


def test_progress_elsewhere_is_a_line():
    assert rendered(out(0, b"10%\r", b"done")) == "[host proc0] [0] 10%\n[host proc0] [0] done\n"


ranks = st.integers(0, 7)
pieces = st.sampled_from([b"line", b"other line", b"10%\r", b"20% of it\r", b"  \r", b""])


@given(printed=st.lists(st.tuples(ranks, st.sampled_from([STDOUT, STDERR]), pieces)))
def test_bars_of_eight_ranks_tear_no_line(printed: list[tuple[int, Stream, bytes]]):
    """O3."""
    sink = FakeSink(terminal=True)
    renderer = LogRenderer(sink, sink)

    for turn, (rank, stream, piece) in enumerate(printed):
        renderer.write([out(rank, piece, stream=stream)], turn * 0.03)

    *lines, row = sink.screen()
    assert lines == [
        f"[host proc{rank}] [{rank}] {piece.decode()}"
        for rank, _, piece in printed
        if not piece.endswith(b"\r")
    ]
    assert re.fullmatch(r"|\[host proc(\d)\] \[\1\] (10%|20% of it)( \(and \d+ more\))?", row)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2], "0-2"),
        ([0, 2, 3, 9], "0,2-3,9"),
        ([1, 1, 2], "1-2"),
        (list(range(0, 20, 2)), "0,2,4,6,8,10,12,14,..."),
    ],
)
def test_ranks_are_written_as_ranges(ranks: list[int], text: str):
    assert compact_ranks(ranks) == text
