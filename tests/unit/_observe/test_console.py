import io
import os
import termios
from contextlib import redirect_stderr, redirect_stdout

import pytest

from danaus._observe.console import StandardStream


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        raise OSError


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_text_goes_to_the_stream_of_the_moment():
    stdout, stderr = StandardStream("stdout"), StandardStream("stderr")

    with redirect_stdout(io.StringIO()) as one, redirect_stderr(io.StringIO()) as two:
        stdout.write("out\n")
        stderr.write("err\n")

    assert (one.getvalue(), two.getvalue()) == ("out\n", "err\n")


def test_text_is_flushed():
    raw = io.BytesIO()

    with redirect_stdout(io.TextIOWrapper(raw, encoding="utf-8")) as wrapper:
        StandardStream("stdout").write("out\n")
        assert raw.getvalue() == b"out\n"
        wrapper.detach()


def test_characters_that_the_stream_cannot_encode_are_escaped():
    raw = io.BytesIO()

    with redirect_stdout(io.TextIOWrapper(raw, encoding="ascii")) as wrapper:
        StandardStream("stdout").write("5 €\n")
        wrapper.detach()

    assert raw.getvalue() == b"5 \\u20ac\n"


@pytest.mark.parametrize("kind", ["broken", "closed", "none"])
def test_stream_that_is_gone_takes_nothing(kind: str):
    closed = io.StringIO()
    closed.close()
    stream = {"broken": Broken(), "closed": closed, "none": None}[kind]
    sink = StandardStream("stdout")

    with redirect_stdout(stream):
        sink.write("text\n")
        assert not sink.terminal


def test_terminal_is_coloured():
    with redirect_stdout(Terminal()):
        sink = StandardStream("stdout")
        assert sink.terminal
        assert sink.colour


def test_file_is_neither_terminal_nor_coloured():
    with redirect_stdout(io.StringIO()):
        sink = StandardStream("stdout")
        assert not sink.terminal
        assert not sink.colour


def test_no_color_keeps_the_terminal_but_not_its_colour(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")

    with redirect_stdout(Terminal()):
        sink = StandardStream("stdout")
        assert sink.terminal
        assert not sink.colour


def test_dumb_terminal_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")

    with redirect_stdout(Terminal()):
        assert not StandardStream("stdout").terminal


def test_width_of_what_is_no_terminal_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "123")

    with redirect_stdout(io.StringIO()):
        assert StandardStream("stdout").columns == 123


def test_width_is_that_of_the_terminal_behind_the_stream():
    controller, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 57))

    with os.fdopen(controller, "rb"), os.fdopen(terminal, "w") as stream, redirect_stderr(stream):
        assert StandardStream("stderr").columns == 57
