"""The progress bar, drawn into strings."""

from __future__ import annotations

import io

import pytest

from danaus_cli.demo.progress import ProgressBar, Style, sparkline


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def bar_on(stream, environ=None, total=100):
    style = Style(stream, {"NO_COLOR": "1"} if environ is None else environ)
    return ProgressBar(stream, style, total, now=1000.0)


def test_a_terminal_shows_a_bar_and_the_figures_in_one_line():
    stream = Terminal()

    bar_on(stream).show(50, loss=2.5, tokens=30_000, now=1002.0)

    assert stream.getvalue() == (
        "\r\x1b[K  ███████████              50/100 steps  loss 2.500    15k tokens/s    2 s left"
    )


def test_a_full_bar_is_full_to_its_last_cell():
    stream = Terminal()

    bar_on(stream).show(100, loss=2.5, tokens=1, now=1002.0)

    assert "█" * 22 + "  100/100" in stream.getvalue()


def test_the_bar_moves_by_eighths_of_a_cell():
    stream = Terminal()

    bar_on(stream, total=1000).show(510, loss=2.5, tokens=30_000, now=1002.0)

    assert "█" * 10 + "▏         " in stream.getvalue()


def test_the_bar_is_redrawn_ten_times_a_second_at_most_but_always_at_the_end():
    stream = Terminal()
    bar = bar_on(stream)

    for done, now in ((1, 1000.0), (2, 1000.05), (3, 1000.12), (100, 1000.13)):
        bar.show(done, loss=1.0, tokens=1, now=now)

    shown = [line.split("/100")[0].split()[-1] for line in stream.getvalue().split("\r")[1:]]
    assert shown == ["1", "3", "100"]


def test_a_narrow_terminal_gets_the_figures_without_a_bar(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()

    bar_on(stream).show(50, loss=2.5, tokens=30_000, now=1002.0)

    assert stream.getvalue() == "\r\x1b[K 50/100 steps  loss 2.500    "


def test_elsewhere_than_on_a_terminal_ten_plain_lines_are_written():
    stream = io.StringIO()
    bar = bar_on(stream, total=200)

    for done in range(1, 201):
        bar.show(done, loss=1.0, tokens=1000 * done, now=1000.0 + done)
    bar.finish()

    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == " " * 12 + " 20/200 steps  loss 1.000     1k tokens/s  180 s left"


def test_fewer_steps_than_lines_are_written_once_each():
    stream = io.StringIO()
    bar = bar_on(stream, total=3)

    for done in (1, 2, 3):
        bar.show(done, loss=1.0, tokens=1, now=1001.0)

    assert len(stream.getvalue().splitlines()) == 3


def test_a_line_said_replaces_the_bar_which_comes_back_below_it():
    stream = Terminal()
    bar = bar_on(stream)
    bar.show(1, loss=1.0, tokens=1, now=1000.0)

    bar.say("hello")
    bar.show(2, loss=1.0, tokens=1, now=1000.01)
    bar.finish()

    after = stream.getvalue().split("\r\x1b[K")
    assert after[2] == "hello\n"
    assert "2/100" in after[3]
    assert after[3].endswith("\n")


def test_colors_are_for_terminals_only():
    assert Style(Terminal(), {}).good("x") == "\x1b[32mx\x1b[0m"
    assert Style(io.StringIO(), {}).good("x") == "x"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colors_can_be_turned_off(environ):
    assert Style(Terminal(), environ).bad("x") == "x"


def test_a_dumb_terminal_is_not_drawn_over():
    assert not Style(Terminal(), {"TERM": "dumb"}).live


def test_a_stream_without_block_characters_gets_ascii():
    class AsciiTerminal(Terminal):
        encoding = "ascii"

    stream = AsciiTerminal()
    bar_on(stream).show(50, loss=2.5, tokens=30_000, now=1002.0)

    assert "##########..........." in stream.getvalue()


def test_a_sparkline_is_as_high_as_its_values():
    assert sparkline([8, 1, 4.5], 10, blocks=True) == "█▁▅"


def test_a_sparkline_has_at_most_the_width_asked_for():
    assert sparkline([float(i) for i in range(100)], 4, blocks=True) == "▁▃▆█"


@pytest.mark.parametrize(("values", "line"), [([], ""), ([2.0, 2.0], "▁▁")])
def test_a_sparkline_of_nothing_or_of_equal_values_is_flat(values, line):
    assert sparkline(values, 10, blocks=True) == line
