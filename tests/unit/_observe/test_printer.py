import threading
from collections.abc import Iterator

import pytest

from danaus._observe.aggregate import Aggregator
from danaus._observe.merge import RankMerger
from danaus._observe.printer import LogPrinter
from danaus._observe.record import STDOUT, Pieces, Source
from danaus._observe.render import LogRenderer

ONE, TWO = Source("host", "p1", 1), Source("host", "p2", 2)


class GatedSink:
    """Records what is written, and makes writers wait while its gate is closed."""

    terminal = False
    colour = False
    columns = 80

    def __init__(self):
        self.text = ""
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.written = threading.Event()

    def write(self, text: str) -> None:
        self.entered.set()
        self.gate.wait(10)
        self.text += text
        self.written.set()


class FailingSink(GatedSink):
    def write(self, text: str) -> None:
        super().write(text)
        raise RuntimeError(text)


@pytest.fixture
def sink() -> GatedSink:
    return GatedSink()


@pytest.fixture
def printer(sink: GatedSink) -> Iterator[LogPrinter]:
    printer = LogPrinter(LogRenderer(sink, sink), max_waiting=100)
    yield printer
    sink.gate.set()
    assert printer.close(5)


def out(source: Source, *pieces: bytes) -> Pieces:
    return Pieces(source, STDOUT, pieces)


def printer_threads() -> int:
    return sum(thread.name == "danaus-printer" for thread in threading.enumerate())


def test_flush_waits_until_all_is_printed(printer: LogPrinter, sink: GatedSink):
    feed = printer.feed()

    printer.submit(feed, out(ONE, b"a"))
    printer.submit(feed, out(TWO, b"b"))

    assert printer.flush(5)
    assert sink.text == "[host p1] [1] a\n[host p2] [2] b\n"


def test_callback_comes_once_all_before_it_is_printed(printer: LogPrinter, sink: GatedSink):
    texts: list[str] = []
    called = threading.Event()
    printer.submit(printer.feed(RankMerger(window=600)), out(ONE, b"a"))

    def on_printed() -> None:
        texts.append(sink.text)
        called.set()

    printer.when_printed(on_printed)

    assert called.wait(5)
    assert texts == ["[host p1] [1] a\n"]


def test_callback_comes_at_once_when_there_is_nothing_to_print(sink: GatedSink):
    called: list[bool] = []

    LogPrinter(LogRenderer(sink, sink)).when_printed(lambda: called.append(True))

    assert called == [True]


def test_output_is_printed_without_a_flush(printer: LogPrinter, sink: GatedSink):
    printer.submit(printer.feed(), out(ONE, b"a"))

    assert sink.written.wait(5)


def test_collected_lines_are_printed_when_their_window_ends(printer: LogPrinter, sink: GatedSink):
    feed = printer.feed(RankMerger(window=0.01))

    printer.submit(feed, out(ONE, b"a"))

    assert sink.written.wait(5)
    assert sink.text == "[host p1] [1] a\n"


def test_flush_prints_collected_lines(printer: LogPrinter, sink: GatedSink):
    feed = printer.feed(Aggregator(window=600))
    for source in (ONE, TWO):
        printer.submit(feed, out(source, b"rank %d" % source.rank))

    assert printer.flush(5)
    assert sink.text == "[2 similar log lines] rank <<1, 2>>\n"


def test_another_merger_takes_what_comes_after(printer: LogPrinter, sink: GatedSink):
    feed = printer.feed(Aggregator(window=600))
    for source in (ONE, TWO):
        printer.submit(feed, out(source, b"before"))

    printer.use(feed, None)
    printer.submit(feed, out(ONE, b"after"))

    assert printer.flush(5)
    assert sink.text == "[2 similar log lines] before\n[host p1] [1] after\n"


def test_close_prints_collected_lines_and_the_last_progress(sink: GatedSink):
    printer = LogPrinter(LogRenderer(sink, sink))
    printer.submit(printer.feed(Aggregator(window=600)), out(ONE, b"line"))
    printer.submit(printer.feed(), out(TWO, b"1%\r"))
    printer.submit(printer.feed(), out(TWO, b"2%\r"))

    assert printer.close(5)

    assert sink.text.count("line\n") == 1
    assert sink.text.count("2%\n") == 1
    assert printer_threads() == 0


def test_no_thread_starts_before_there_is_output(printer: LogPrinter):
    printer.feed()

    assert printer.flush(0)
    assert printer_threads() == 0


def test_output_after_close_is_left_out(sink: GatedSink):
    printer = LogPrinter(LogRenderer(sink, sink))
    assert printer.close(5)

    printer.submit(printer.feed(), out(ONE, b"late"))

    assert printer.close(5)
    assert printer.flush(0)
    assert sink.text == ""
    assert printer_threads() == 0


def test_submit_does_not_wait_for_a_terminal_that_does_not_read(
    printer: LogPrinter, sink: GatedSink
):
    sink.gate.clear()
    feed = printer.feed()
    printer.submit(feed, out(ONE, b"first"))
    assert sink.entered.wait(5)

    for _ in range(10):
        printer.submit(feed, out(ONE, b"x" * 40))
    assert not printer.flush(0.01)
    sink.gate.set()

    assert printer.flush(5)
    assert sink.text.count("x" * 40 + "\n") == 3
    assert "7 lines came faster than they could be shown" in sink.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_has_failed(sink: GatedSink):
    printer = LogPrinter(LogRenderer(FailingSink(), sink))

    printer.submit(printer.feed(), out(ONE, b"fails"))

    assert not printer.flush(5)
    assert not printer.flush(5)
    assert not printer.close(5)
    assert printer_threads() == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_waits_while_the_thread_fails_is_told():
    failing = FailingSink()
    printer = LogPrinter(LogRenderer(failing, failing))
    failing.gate.clear()
    printer.submit(printer.feed(), out(ONE, b"fails"))
    assert failing.entered.wait(5)
    done = threading.Event()

    printer.when_printed(done.set)
    failing.gate.set()

    assert done.wait(5)
    assert not printer.close(5)
