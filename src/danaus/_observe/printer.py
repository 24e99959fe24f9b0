"""The thread that prints what the processes of a client print.

Printing may block for as long as the user likes (``script | less``). The thread that reads from
the network must not, so it hands the output over here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from danaus._observe.feed import OutputFeed
from danaus._observe.record import STDERR, Entry, Merged, Merger, Pieces, Source

if TYPE_CHECKING:
    from danaus._observe.render import LogRenderer

__all__ = ["LogPrinter"]

_MAX_WAITING = 64 << 20  # bytes that wait to be printed
_CLIENT = Source("client", "danaus", None)


class LogPrinter:
    """Prints output of processes in a thread of its own, which starts with the first output.

    Any thread may call the methods, and only `flush` and `close` wait. The thread is a daemon: the
    owner of the printer calls `close` before the interpreter ends.

    When output has come faster than it could be printed for so long that 64 MiB wait, more is left
    out, and a line says so: the files of the processes hold everything.

    Args:
        renderer: Belongs to the printer from now on.
        max_waiting: Bytes that may wait to be printed.
    """

    def __init__(self, renderer: LogRenderer, *, max_waiting: int = _MAX_WAITING) -> None:
        self._renderer = renderer
        self._max_waiting = max_waiting
        # Guards all fields but the feeds. Held for moments only, never while printing.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._jobs: list[_Job] = []
        self._waiting = 0
        self._left_out = 0
        self._closed = False
        self._failed = False  # a defect has ended the thread
        self._feeds: set[OutputFeed] = set()  # those that have collected something; the thread's

    def feed(self, merger: Merger | None = None) -> OutputFeed:
        """Make the feed of a mesh; None shows each line as it comes."""
        return OutputFeed(self._renderer.rewrites, merger)

    def submit(self, feed: OutputFeed, output: Pieces) -> None:
        """Print output of a process of the feed's mesh. After `close` it is left out."""
        nbytes = sum(map(len, output.pieces))
        with self._changed:
            if self._waiting > self._max_waiting:
                self._left_out += len(output.pieces)
                return
            self._waiting += nbytes
            self._put((feed, output))

    def use(self, feed: OutputFeed, merger: Merger | None) -> None:
        """Print what the feed has collected, and let another merger collect what comes next."""
        with self._changed:
            self._put((feed, merger))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything submitted is printed, collected lines included.

        Args:
            timeout: Seconds to wait, None for as long as printing takes.

        Returns:
            Whether it was printed in time.
        """
        done = threading.Event()
        self.when_printed(done.set)
        return done.wait(timeout) and not self._failed

    def when_printed(self, call: Callable[[], None]) -> None:
        """Call back once everything submitted is printed, collected lines included.

        The call comes from the printer's thread, or at once from this one when there is nothing to
        print. It may not block.
        """
        with self._changed:
            waits = self._thread is not None and self._put(call)
        if not waits:
            call()

    def close(self, timeout: float | None = 5.0) -> bool:
        """Print everything and end the thread. Closing again does nothing.

        Args:
            timeout: Seconds to wait, None for as long as printing takes.

        Returns:
            Whether it was printed in time; if not, the thread goes on until it is.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive() and not self._failed

    def _put(self, job: _Job) -> bool:
        if self._closed:
            return False
        self._jobs.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="danaus-printer", daemon=True)
            self._thread.start()
        self._changed.notify()
        return True

    def _run(self) -> None:
        jobs: list[_Job] = []
        failed = True
        try:
            while jobs := self._wait():
                self._print(jobs)
            self._finish()
            failed = False
        finally:
            with self._changed:  # nobody waits for a thread that has ended
                self._closed, self._failed = True, failed
                jobs += self._jobs
            for job in jobs:
                if callable(job):
                    job()

    def _wait(self) -> list[_Job]:
        """Wait for jobs and print what is due meanwhile; no jobs mean that it is closed."""
        while True:
            with self._changed:
                if not self._jobs and not self._closed:
                    self._changed.wait(self._patience())
                if self._jobs or self._closed:
                    jobs, self._jobs, self._waiting = self._jobs, [], 0
                    return jobs
            self._print([])

    def _patience(self) -> float | None:
        deadlines = [self._renderer.deadline, *(feed.deadline for feed in self._feeds)]
        first = min((at for at in deadlines if at is not None), default=None)
        return None if first is None else max(0.0, first - monotonic())

    def _print(self, jobs: list[_Job]) -> None:
        now = monotonic()
        entries: list[Entry] = []
        waiters: list[Callable[[], None]] = []
        for job in jobs:
            if callable(job):
                waiters.append(job)
                continue
            feed, work = job
            entries += feed.receive(work, now) if isinstance(work, Pieces) else feed.use(work, now)
            self._feeds.add(feed)
        for feed in self._feeds:
            entries += feed.flush(now) if waiters else feed.take_due(now)
        self._feeds = {feed for feed in self._feeds if feed.deadline is not None}
        entries += self._apology()
        self._renderer.write(entries, now)
        for call in waiters:
            call()

    def _finish(self) -> None:
        now = monotonic()
        entries = [entry for feed in self._feeds for entry in feed.flush(now)]
        self._renderer.write([*entries, *self._apology()], now)
        self._renderer.close(now)

    def _apology(self) -> list[Entry]:
        with self._changed:
            count, self._left_out = self._left_out, 0
        if not count:
            return []
        text = f"{count} lines came faster than they could be shown; the log files hold them."
        return [Merged(STDERR, _CLIENT, (), 1, 1, text, similar=False)]


_Job = tuple[OutputFeed, Pieces | Merger | None] | Callable[[], None]
"""Output to print, a merger to use, or whom to call when all is printed."""
