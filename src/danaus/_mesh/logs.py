"""The client's end of output: what procs print, the script prints.

Agents send the output of all procs that descend from this client. Each mesh has a feed of its own,
made when its first line comes and ended with its last proc, and one printer shows them all. A
script whose procs print nothing has neither.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._runtime.outgoing import OutgoingCall
from danaus._wire import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from danaus._net.link import Link
    from danaus._observe.feed import OutputFeed
    from danaus._observe.printer import LogPrinter
    from danaus._observe.record import Merger, Stream
    from danaus._observe.render import LogRenderer
    from danaus._runtime.collect import Target
    from danaus._runtime.router import Runtime

__all__ = ["ClientLogs"]

_encode = msgspec.msgpack.Encoder().encode

_PATIENCE = 1.0
"""Seconds that others wait for output to be printed: a pager may hold it up for as long as it is
open."""

_LAST_PATIENCE = 5.0
"""The same at the end of the script, where its streams are not its process's own."""


class _Shown:
    """A mesh whose output is shown."""

    __slots__ = ("feed", "living", "procs")

    def __init__(self, feed: OutputFeed, procs: int) -> None:
        self.feed = feed
        self.procs = procs
        """How many procs the mesh has."""
        self.living: set[tuple[str, int]] = set()
        """Host and pid of those that have printed and live."""


class ClientLogs:
    """Prints the output of procs in the process of their client.

    Output is taken on the driving thread, in the order in which each agent sent it. The other
    methods may be called from any thread.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._printer: LogPrinter | None = None
        self._renderer: LogRenderer | None = None
        self._meshes: dict[str, _Shown] = {}
        self._windows: dict[str, float | None] = {}
        """Windows that were set by `logging_option`, by mesh; None: every line by itself."""
        self._lock = threading.Lock()
        self._requests: list[_Request] = []
        """Those that wait for answers, and some that do no more; guarded by the lock."""
        self._in_notebook = False

    def on_output(self, kind: int, routing: list[Any]) -> None:
        """An agent says what a proc has printed, that it has ended, or how to merge from now on."""
        if kind == kinds.LOG:
            self._on_lines(routing[1], routing[2], routing[3])
        elif kind == kinds.LOG_END:
            self._on_end(routing[1], (routing[2], routing[3]), asked_for=routing[4])
        else:
            self._on_window(routing[1], routing[2])

    def _on_lines(self, whose: list[Any], stream: Stream, pieces: list[bytes]) -> None:
        from danaus._observe.record import Pieces, Source

        mesh, name, host, pid, rank, procs = whose
        printer = self._printer or self._start_printer()
        if self._renderer is not None:
            self._renderer.prefix_with_rank = _config.get("prefix_with_rank")
        shown = self._meshes.get(mesh)
        if shown is None:
            shown = _Shown(printer.feed(self._merger(mesh, procs)), procs)
            self._meshes[mesh] = shown
        shown.living.add((host, pid))
        printer.submit(shown.feed, Pieces(Source(host, str(pid), rank, name), stream, pieces))

    def _on_end(self, mesh: str, proc: tuple[str, int], *, asked_for: bool) -> None:
        shown = self._meshes.get(mesh)
        if shown is None or self._printer is None:
            return
        shown.living.discard(proc)
        if not shown.living:
            del self._meshes[mesh]
            self._printer.use(shown.feed, None)
        elif not asked_for:
            # Its last lines are wanted now, whatever the window.
            self._printer.use(shown.feed, self._merger(mesh, shown.procs))

    def _on_window(self, mesh: str, window: float | None) -> None:
        if mesh in self._windows and self._windows[mesh] == window:
            return  # another host of the mesh has said so
        self._windows[mesh] = window
        shown = self._meshes.get(mesh)
        if shown is not None and self._printer is not None:
            self._printer.use(shown.feed, self._merger(mesh, shown.procs))

    def _merger(self, mesh: str, procs: int) -> Merger | None:
        if mesh in self._windows:
            from danaus._observe.aggregate import Aggregator

            window = self._windows[mesh]
            return Aggregator(window) if window else None
        window = _config.get("log_aggregate_window")
        if not window or procs == 1:
            return None
        from danaus._observe.merge import RankMerger

        return RankMerger(window)

    def _start_printer(self) -> LogPrinter:
        from danaus._observe.console import StandardStream
        from danaus._observe.printer import LogPrinter
        from danaus._observe.render import LogRenderer

        self._renderer = LogRenderer(StandardStream("stdout"), StandardStream("stderr"))
        self._printer = LogPrinter(self._renderer)
        self.follow_notebook()
        return self._printer

    # waiting

    def when_shown(self, hosts: Iterable[str], call: Callable[[], None]) -> None:
        """Call back once all that procs have written by now is printed, or after a second.

        Args:
            hosts: Addresses of the agents of these procs.
            call: May be called twice; does not block.
        """
        self._runtime.reactor.call_later(_PATIENCE, call)
        agents = self._runtime.routes.agents
        self._fetch([link for host in hosts if (link := agents.get(host))], call)

    def flush(self, timeout: float = _PATIENCE) -> bool:
        """Print all that procs have written by now, collected lines included.

        Args:
            timeout: Seconds to wait.

        Returns:
            Whether it was printed in time.
        """
        done = threading.Event()
        self._fetch(list(self._runtime.routes.agents.values()), done.set)
        return done.wait(timeout)

    def _fetch(self, agents: Sequence[Link], call: Callable[[], None]) -> None:
        """Have agents send what procs have written by now, and print it; then call back.

        The end of a proc may be known before its last output has come: by another link. A host
        that has ended, too, has sent all once its link has ended.
        """
        if not agents:
            self._when_printed(call)
            return

        def complete() -> None:
            self._runtime.ports.pop(port, None)
            self._when_printed(call)

        request = _Request(agents, complete)
        port = self._runtime.new_port(request)
        with self._lock:
            self._requests = [old for old in self._requests if old.waiting] + [request]
        for index, link in enumerate(agents):
            if not link.send_small(kinds.LOG_FLUSH, _encode([port, index]), b""):
                request.lost(link.peer)

    def on_agent_lost(self, address: str, _why: str) -> None:
        """The link to an agent has ended, and all that came by it was taken."""
        with self._lock:
            requests = list(self._requests)
        for request in requests:
            request.lost(address)

    def _when_printed(self, call: Callable[[], None]) -> None:
        if self._printer is None:
            call()
        else:
            self._printer.when_printed(call)

    def close(self) -> bool:
        """Print all that has come, and end the printer. Tells whether it was printed.

        Like any program's own prints, this takes as long as the reader of a pipe takes. Only where
        the streams were replaced is the wait bounded: what stands behind them may need this thread.
        """
        if self._printer is None:
            return True
        own = sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__
        return self._printer.close(None if own else _LAST_PATIENCE)

    # notebooks

    def follow_notebook(self) -> None:
        """In IPython: print at the end of each cell what its procs have written."""
        ipython = sys.modules.get("IPython")
        if ipython is None or self._in_notebook:
            return
        shell = ipython.get_ipython()
        if shell is not None:
            self._in_notebook = True
            shell.events.register("post_run_cell", self._after_cell)

    def _after_cell(self, _result: object) -> None:
        if not self._runtime.closed:
            self.flush()


class _Request:
    """A request to agents, and the port of their answers."""

    def __init__(self, agents: Sequence[Link], complete: Callable[[], None]) -> None:
        self.targets: Sequence[Target] = ()
        self.call = OutgoingCall("", "logs", "", "flush")
        self.waiting = {index: link.peer for index, link in enumerate(agents)}
        """Addresses of those that have not answered."""
        self._complete = complete

    def on_reply(self, rank: int, status: int, take: Any) -> bool:
        """One agent has sent all."""
        del status, take
        self._done(rank)
        return not self.waiting

    def on_failure(self, rank: int, failure: Any) -> bool:
        """It waits for no proc."""
        del rank, failure
        return False

    def lost(self, address: str) -> None:
        """An agent will not answer."""
        for index, waiting in list(self.waiting.items()):
            if waiting == address:
                self._done(index)

    def _done(self, index: int) -> None:
        if self.waiting.pop(index, None) is not None and not self.waiting:
            self._complete()
