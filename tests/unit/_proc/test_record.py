"""Output of one proc: into its file, onward, and into the report of its end."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from danaus._net.reactor import Reactor
from danaus._proc.output import LogDirectory
from danaus._proc.record import ProcRecord


class FakeReactor:
    """Never calls anybody: the tests read the pipes themselves."""

    def register(self, fd: int, handler: object, mask: int = 0) -> None: ...

    def unregister(self, fd: int) -> None: ...

    def call_later(self, delay: float, call: object) -> None: ...


class Proc:
    """A record whose pipes a test writes to."""

    def __init__(self, logs: LogDirectory, tail_lines: int = 100, **spec: Any):
        self.seen: list[tuple[int, list[bytes]]] = []
        fields = {"id": "p.0-x", "owner": "client", "mesh": "p", **spec}
        self.record = ProcRecord(fields, 0, logs, tail_lines)
        (out, self.stdout), (err, self.stderr) = os.pipe(), os.pipe()
        self.record.capture(out, err, cast("Reactor", FakeReactor()), self.emit)

    def emit(self, record: ProcRecord, stream: int, lines: list[bytes]) -> None:
        assert record is self.record
        self.seen.append((stream, lines))

    def write(self, data: bytes, fd: int = 1) -> None:
        """Write and let the record read, as much as a pipe holds at a time."""
        for start in range(0, len(data), 60_000):
            os.write(self.stdout if fd == 1 else self.stderr, data[start : start + 60_000])
            self.record.read_output()

    def end(self, status: int = 0) -> dict[str, Any]:
        os.close(self.stdout)
        os.close(self.stderr)
        return self.record.ended(status, oom=False)

    @property
    def lines(self) -> list[bytes]:
        return [line for _, lines in self.seen for line in lines]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogDirectory:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return LogDirectory("node")


@contextmanager
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 100 bytes, the report of the tests included."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_both_streams_go_to_one_file_and_apart_onward(logs: LogDirectory):
    proc = Proc(logs)

    proc.write(b"out\n")
    proc.write(b"err\n", 2)
    report = proc.end()

    assert Path(report["log"]).read_bytes() == b"out\nerr\n"
    assert proc.seen == [(1, [b"out"]), (2, [b"err"])]


def test_what_a_proc_wrote_last_is_read_after_its_end(logs: LogDirectory):
    proc = Proc(logs)
    os.write(proc.stdout, b"never read before")

    report = proc.end()

    assert Path(report["log"]).read_bytes() == b"never read before"
    assert proc.lines == [b"never read before"]


def test_report_has_the_last_lines_of_stderr_alone(logs: LogDirectory):
    proc = Proc(logs, tail_lines=2)

    proc.write(b"one\ntwo\nthree\n", 2)
    proc.write(b"out\n")

    assert proc.end(1 << 8)["stderr"] == "two\nthree"


def test_report_has_whole_lines_of_at_most_sixteen_kibibytes(logs: LogDirectory):
    proc = Proc(logs)

    proc.write(b"".join(b"%03d " % n + b"x" * 995 + b"\n" for n in range(100)), 2)

    lines = proc.end(1 << 8)["stderr"].split("\n")
    assert {len(line) for line in lines} == {999}
    assert len(lines) == 16
    assert lines[-1].startswith("099")


def test_report_of_a_stopped_proc_is_without_its_output(logs: LogDirectory):
    proc = Proc(logs)
    proc.write(b"bye\n", 2)

    proc.record.stopping = True

    assert proc.end()["stderr"] == ""


def test_proc_that_prints_nothing_has_no_file(logs: LogDirectory):
    assert Proc(logs).end()["log"] == ""
    assert not Path(logs.path).exists()


def test_proc_without_capture_has_no_file_and_prints_all_the_same(logs: LogDirectory):
    proc = Proc(logs, capture=False)

    proc.write(b"shown\n")

    assert proc.end()["log"] == ""
    assert proc.lines == [b"shown"]
    assert not Path(logs.path).exists()


def test_full_disk_is_told_in_one_line_and_output_goes_on(logs: LogDirectory):
    proc = Proc(logs)

    with small_files():
        for _ in range(3):
            proc.write(b"x" * 60 + b"\n")
    log = proc.end()["log"]

    text = (
        f"can no longer be written to a file in {logs.path}: File too large. It runs on.".encode()
    )
    assert [text in line for line in proc.lines] == [False, True, False, False]
    assert proc.lines.count(b"x" * 60) == 3
    assert Path(log).read_bytes() == (b"x" * 60 + b"\n" + b"x" * 60)[:100]


def test_directory_that_cannot_be_made_is_told_in_one_line(logs: LogDirectory, tmp_path: Path):
    (tmp_path / "danaus").write_text("in the way")
    proc = Proc(logs)

    proc.write(b"one\n")
    proc.write(b"two\n")

    assert proc.end()["log"] == ""
    assert [b"Not a directory" in line for line in proc.lines] == [True, False, False]


# the directory


def sessions(logs: LogDirectory, *names: str) -> None:
    """Sessions of earlier times, oldest first, with a file each."""
    for age, name in enumerate(reversed(names)):
        folder = Path(logs.root, name)
        folder.mkdir(parents=True)
        (folder / "a.log").write_text("old")
        os.utime(folder, (1000 - age, 1000 - age))


def kept_sessions(logs: LogDirectory) -> set[str]:
    return {path.name for path in Path(logs.root).iterdir()}


def test_old_sessions_of_this_node_are_removed(logs: LogDirectory):
    node = os.uname().nodename
    ended = [f"{node}-{4_194_304 + number}-h" for number in range(30)]  # beyond any pid
    sessions(logs, *ended)

    os.close(logs.open("p"))

    assert kept_sessions(logs) == {*ended[-19:], Path(logs.path).name}


def test_sessions_that_live_or_are_of_other_nodes_are_kept(logs: LogDirectory):
    node = os.uname().nodename
    kept = [f"{node}-{os.getpid()}-other", "elsewhere-4194305-h"]
    sessions(logs, *kept, *(f"{node}-{4_194_304 + number}-h" for number in range(30)))

    os.close(logs.open("p"))

    assert set(kept) <= kept_sessions(logs)
