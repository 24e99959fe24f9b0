"""The loop that reads sockets, and threads that wait.

A process has one `Reactor` and one I/O thread that runs it. Handing a message from the I/O thread
to the thread that waits for it costs a thread hop: 20 µs on one core, 40 across cores. So a thread
that waits may drive the loop itself, and then meets its message without a hop.

Exactly one thread drives at a time: the one that holds the `_token`. A waiting thread takes the
token when it is free. When a driver leaves (its message came), it leaves the token lying: most
often the same thread is back within microseconds. The I/O thread looks every `_TICK` whether the
token lies unused, and takes it then; after a while without change it sleeps until a leaving driver
wakes it. Hence an idle process has no timer running, a busy one pays no hop, and a message never
waits longer than a tick for a driver.

Where several threads wait, a leaving driver wakes the I/O thread at once: the others' messages
must not wait for a tick.

Signals: an exception that a signal handler raises must not cut a message in two. Handlers run on
the main thread only. While that drives, Ctrl-C is held back until the message at hand is done
(microseconds); and it does not drive at all where the program has handlers of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from danaus._net.poller import IN, close_waker, make_poller, make_waker, quiet, ring

if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # without the wrapper's conversions, which cost three times the call

__all__ = ["Handler", "Reactor", "Waiter"]

_TICK = 0.001
"""Seconds after which the I/O thread takes over a token that lies unused."""

_QUIET_TICKS = 20
"""Ticks without a change of driver after which the I/O thread stops looking."""

_BATCH = 256
"""Events taken from the kernel at a time."""

_MAIN = threading.main_thread().ident

_INTERRUPT = _signal.SIGINT
_OTHERS = tuple(
    getattr(_signal, name)
    for name in ("SIGALRM", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGVTALRM")
    if hasattr(_signal, name)
)
_getsignal = _signal.getsignal
_PASSIVE = (None, int(_signal.SIG_DFL), int(_signal.SIG_IGN))


def _main_may_drive() -> bool:
    """True when no signal handler but Python's own for Ctrl-C can run on the main thread."""
    if _getsignal(_INTERRUPT) is not _signal.default_int_handler:
        return False
    for number in _OTHERS:  # noqa: SIM110  # half the cost of all() over a generator
        if _getsignal(number) not in _PASSIVE:
            return False
    return True


class Handler(Protocol):
    """What is called when a descriptor is ready."""

    def on_ready(self, mask: int, /) -> None:
        """``mask`` holds `IN`, `OUT` and what else poll has, such as the end of a pipe."""
        ...


class Waiter:
    """Where a thread waits until another, or its own driving of the loop, wakes it."""

    __slots__ = ("_lock", "_reactor", "driver", "is_main", "may_drive", "ready")

    def __init__(self, reactor: Reactor | None) -> None:
        self._reactor = reactor
        self._lock = threading.Lock()
        self._lock.acquire()
        self.ready = False
        self.is_main = get_ident() == _MAIN
        """Whether the main thread waits; it is the thread that made the waiter."""
        self.may_drive = not self.is_main or _main_may_drive()
        self.driver = 0
        """Identity of the thread that drives the loop for this waiter; 0 while none does."""

    def wake(self) -> None:
        """End the wait. Any thread may call it, any number of times."""
        if self.ready:
            return
        self.ready = True
        # The waiting thread may have seen `ready` and reset it before the lock was released: then
        # the lock is free already, and a thread that drives must be told all the same.
        try:
            self._lock.release()
        except RuntimeError:
            pass
        if self._reactor is not None:
            self._reactor.note_woken(self)

    def reset(self) -> None:
        """Make it ready for another wait; only its waiting thread may call this."""
        if self.ready:
            self._lock.acquire(blocking=False)
            self.ready = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until `wake`; drive the loop meanwhile if nobody else does. False: time is up."""
        if self.ready:
            return True
        reactor = self._reactor
        if reactor is None:
            return self.block(timeout)
        if self.may_drive and reactor.may_drive():
            deadline = None if timeout is None else time.monotonic() + timeout
            drive = reactor.drive_as_main if self.is_main else reactor.drive
            if drive(self, deadline):
                return True
            if timeout is not None and deadline is not None:
                timeout = max(0.0, deadline - time.monotonic())
        return reactor.wait_aside(self, timeout)

    def block(self, timeout: float | None) -> bool:
        """Wait without driving."""
        got = self._lock.acquire(timeout=-1 if timeout is None else timeout)
        return got or self.ready


class Reactor:
    """Calls handlers when their descriptors are ready."""

    def __init__(self) -> None:
        self._wake_fd, self._bell = make_waker()
        self._epoll = make_poller(self.interrupt)
        self._handlers: dict[int, Handler] = {}
        self._token = threading.Lock()
        self._epoll.register(self._wake_fd, IN)
        self._gate = threading.Lock()
        self._gate.acquire()
        self._parked = False
        """True while the I/O thread sleeps until a leaving driver opens the gate."""
        self._turns = 0
        """How often a waiting thread has taken or left the token."""
        self._asides: set[Waiter] = set()
        """Waiters whose threads wait without driving, and that nobody has woken yet."""
        self._served = False
        """True when the driving I/O thread has woken one of them."""
        self._interrupted = False
        """True when Ctrl-C came while the main thread drove."""
        self._closed = False
        self._calls: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_numbers = count()
        """Timers of one instant run in the order in which they were set."""
        self._driver = 0

    def register(self, fd: int, handler: Handler, mask: int = IN) -> None:
        """Call ``handler.on_ready`` whenever ``fd`` is ready for what ``mask`` says."""
        self._handlers[fd] = handler
        self._epoll.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        """Change what ``fd`` is watched for."""
        self._epoll.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        """Watch ``fd`` no more. Call it before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            try:
                self._epoll.unregister(fd)
            except OSError:
                return  # the descriptor is gone, and with it the registration

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the driving thread, soon."""
        self._calls.append(call)
        self.interrupt()

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        """Run ``call`` on the driving thread after ``delay`` seconds."""
        import heapq

        timer = (time.monotonic() + delay, next(self._timer_numbers), call)
        if self._driver == get_ident():
            heapq.heappush(self._timers, timer)
        else:  # the heap is the driving thread's alone
            self.call_soon(lambda: heapq.heappush(self._timers, timer))

    def interrupt(self) -> None:
        """Make the driving thread look around."""
        try:
            ring(self._bell)
        except OSError:
            return  # closed

    def run(self) -> None:
        """The I/O thread: drive whenever no waiting thread does, until `close`."""
        while not self._closed:
            if self._token.acquire(blocking=False):
                try:
                    self._drive_while_alone()
                finally:
                    self._driver = 0
                    self._token.release()
            if not self._closed:
                self._stand_by()

    def may_drive(self) -> bool:
        """True where the calling thread may take the token."""
        return not self._closed and self._driver != get_ident()

    def is_driver(self) -> bool:
        """True on the thread that drives now: it alone may read from links."""
        return self._driver == get_ident()

    def _drive_while_alone(self) -> None:
        """Drive until a waiting thread was served: it will want the token the next time."""
        self._driver = get_ident()
        self._served = False
        while not self._closed and (not self._served or self._asides):
            self._step(-1)

    def _stand_by(self) -> None:
        """Return when the token lies unused."""
        quiet = 0
        turns = self._turns
        while not self._closed:
            if self._asides and not self._token.locked():
                return
            self._gate.acquire(timeout=_TICK)
            if self._turns == turns:
                if not self._token.locked():
                    return
                quiet += 1
                if quiet > _QUIET_TICKS:
                    self._sleep_until_left()
                    quiet = 0
            else:
                turns = self._turns
                quiet = 0

    def _sleep_until_left(self) -> None:
        self._parked = True
        if self._token.locked():
            self._gate.acquire()
        self._parked = False

    def drive(self, waiter: Waiter, deadline: float | None) -> bool:
        """Drive the loop until ``waiter`` is woken or the deadline is over.

        Returns False when another thread drives, or the time is up.
        """
        if not self._token.acquire(blocking=False):
            return False
        me = self._driver = waiter.driver = get_ident()
        self._turns += 1
        try:
            while not (waiter.ready or self._interrupted):
                if deadline is None:
                    self._step(-1)
                else:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self._step(left)
                if self._closed or self._driver != me:
                    break
        finally:
            self._driver = waiter.driver = 0
            self._turns += 1
            self._token.release()
            if self._parked or self._asides:
                self._open_gate()
        return waiter.ready

    def drive_as_main(self, waiter: Waiter, deadline: float | None) -> bool:
        """`drive`, on the main thread: Ctrl-C takes effect between messages."""
        _signal.signal(_INTERRUPT, self._hold_interrupt)
        try:
            return self.drive(waiter, deadline)
        finally:
            _signal.signal(_INTERRUPT, _signal.default_int_handler)
            if self._interrupted:
                self._interrupted = False
                raise KeyboardInterrupt

    def _hold_interrupt(self, _number: int, _frame: object) -> None:
        self._interrupted = True
        self.interrupt()

    def wait_aside(self, waiter: Waiter, timeout: float | None) -> bool:
        """Wait while another thread drives."""
        self._asides.add(waiter)
        try:
            return waiter.block(timeout)
        finally:
            self._asides.discard(waiter)
            self._turns += 1

    def rouse_main(self) -> None:
        """Let the main thread look around, if it waits here: an exception is raised in it."""
        for waiter in list(self._asides):
            if waiter.is_main:
                waiter.wake()
        self.interrupt()

    def note_woken(self, waiter: Waiter) -> None:
        """``waiter`` was woken: see to it that its thread notices, and has the token next."""
        driver = waiter.driver
        if driver:
            if driver != get_ident():
                self.interrupt()
        elif waiter in self._asides:
            self._asides.discard(waiter)
            self._served = self._served or waiter.may_drive

    def _open_gate(self) -> None:
        self._parked = False
        try:
            self._gate.release()
        except RuntimeError:
            return  # already open

    def _step(self, timeout: float) -> None:
        """Wait for events once, and handle them."""
        if self._timers:
            due = self._timers[0][0] - time.monotonic()
            timeout = max(0.0, due if timeout < 0 else min(timeout, due))
        for fd, mask in self._epoll.poll(timeout, _BATCH):
            handler = self._handlers.get(fd)
            if handler is not None:
                try:
                    handler.on_ready(mask)
                except Exception as error:  # noqa: BLE001  # border: the loop serves others, too
                    _report(error)
            elif fd == self._wake_fd:
                self._on_wake()
        if self._timers:
            self._run_timers()

    def _on_wake(self) -> None:
        quiet(self._wake_fd)
        while self._calls:
            _run(self._calls.pop(0))

    def _run_timers(self) -> None:
        import heapq

        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _run(heapq.heappop(self._timers)[2])

    def close(self) -> None:
        """Stop; `run` returns."""
        self._closed = True
        self.interrupt()
        self._open_gate()

    def dispose(self) -> None:
        """Release the descriptors. Call it after `run` has returned."""
        self._handlers.clear()
        self._epoll.close()
        close_waker(self._wake_fd, self._bell)


def _run(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # border: the loop serves others, too
        _report(error)


def _report(error: Exception) -> None:
    """Show an error of Danaus itself as that of any thread is shown."""
    details = (type(error), error, error.__traceback__, threading.current_thread())
    threading.excepthook(threading.ExceptHookArgs(details))
