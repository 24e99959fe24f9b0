"""Which time is it in a test: a clock that moves when the test says so.

`VirtualClock` is time as a value for pure machines and simulations: nothing passes unless somebody
calls `advance`. `VirtualEventLoop` gives the same to asyncio code: when every task waits, the loop
jumps to the next deadline instead of sleeping until it, so an hour of timeouts runs in no time and
in a fixed order. Sockets and threads still work: a jump happens only after `grace` real seconds
without any I/O.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

__all__ = ["Timer", "VirtualClock", "VirtualEventLoop", "run_virtual", "wait_all_blocked"]

T_Result = TypeVar("T_Result")


class Timer:
    """One callback that waits for its time; `VirtualClock.call_at` makes it.

    Attributes:
        when: Virtual seconds at which the callback is due.
    """

    __slots__ = ("_args", "_callback", "when")

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args

    def cancel(self) -> None:
        """Forget the callback; does nothing if it ran or was cancelled already."""
        self._callback = None
        self._args = ()

    @property
    def pending(self) -> bool:
        """Whether the callback is still to run."""
        return self._callback is not None

    def run(self) -> None:
        """Run the callback unless it ran or was cancelled already, whatever the time."""
        callback, args = self._callback, self._args
        self.cancel()
        if callback is not None:
            callback(*args)


class VirtualClock:
    """A clock that stands still until it is advanced, and runs timers on its way.

    Not thread-safe: one thread owns it.

    Args:
        start: First reading, in seconds.

    Example:
        >>> clock = VirtualClock()
        >>> timer = clock.call_at(2.0, print, "two")
        >>> clock.advance(3.0)
        two
        >>> clock.now()
        3.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []

    def now(self) -> float:
        """Return the current virtual time, in seconds."""
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run ``callback(*args)`` when the clock reaches ``when``.

        Callbacks run in the order of their times, and those of one time in the order in which they
        were asked for. A time that has passed already is due at the next `advance`, even of 0 s.

        Args:
            when: Virtual seconds, on the scale of `now`.
            callback: Runs inside `advance`, with `now` standing at its own time. An exception
                leaves `advance` at that time; the timers behind it stay.
            *args: Arguments of the callback.

        Returns:
            The timer, which can be cancelled.
        """
        timer = Timer(when, callback, args)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run ``callback(*args)`` after ``delay`` virtual seconds; see `call_at`."""
        return self.call_at(self._now + delay, callback, *args)

    def next_deadline(self) -> float | None:
        """Return the time of the first pending timer, None if and only if there is none."""
        while self._timers and not self._timers[0][2].pending:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, running what falls due, timers set on the way included.

        Args:
            seconds: How far to go, 0 or more; 0 runs what is due now.

        Raises:
            ValueError: ``seconds`` is negative or not a number: time does not run backwards.
        """
        if not seconds >= 0:
            raise ValueError(f"clock: cannot advance by {seconds!r} s. Give 0 or more seconds.")
        self._advance_to(self._now + seconds)

    def advance_to_next(self) -> bool:
        """Go to the first pending timer and run all that is due then.

        Returns:
            False if and only if there is no timer; the time is then unchanged.
        """
        deadline = self.next_deadline()
        if deadline is None:
            return False
        self._advance_to(max(deadline, self._now))
        return True

    def _advance_to(self, end: float) -> None:
        while (deadline := self.next_deadline()) is not None and deadline <= end:
            timer = heapq.heappop(self._timers)[2]
            self._now = max(self._now, deadline)
            timer.run()
        self._now = max(self._now, end)

    def __repr__(self) -> str:
        pending = sum(timer.pending for _, _, timer in self._timers)
        return f"<VirtualClock at {self._now} s, {pending} timers>"


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time is a `VirtualClock`.

    Timers of the loop and of the clock share one time line. While a task waits for a thread or a
    socket and no timer is set, the loop waits for it in real time.

    Args:
        clock: Time to use; a new one from 0 s if None.
        grace: Real seconds without I/O before time jumps. 0 suits tests without sockets and
            threads; with them, more than a round trip takes, such as 0.05.

    Example:
        >>> with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        ...     runner.run(asyncio.sleep(3600))
    """

    def __init__(self, clock: VirtualClock | None = None, *, grace: float = 0.0) -> None:
        self.clock = clock or VirtualClock()
        self._idle_waiters: list[asyncio.Future[None]] = []
        super().__init__(_JumpingSelector(self.clock, self._wake_idle_waiter, grace))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self.clock.now()

    async def wait_all_blocked(self) -> None:
        """Return when every other task of the loop waits for a timer, for I/O or for ever."""
        waiter: asyncio.Future[None] = self.create_future()
        self._idle_waiters.append(waiter)
        await waiter

    def _wake_idle_waiter(self) -> bool:
        while self._idle_waiters:
            waiter = self._idle_waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False


class _JumpingSelector(selectors.BaseSelector):
    """A real selector that advances the clock where it would sleep.

    `on_idle` is asked first; if it returns true there is something to run before time passes.
    """

    def __init__(self, clock: VirtualClock, on_idle: Callable[[], bool], grace: float) -> None:
        self._clock = clock
        self._on_idle = on_idle
        self._grace = grace
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if events := self._real.select(self._grace):
            return events
        if self._on_idle():
            return []
        jump = self._time_to_jump(timeout)
        if jump is None:
            return self._real.select(None)
        self._clock.advance(jump)
        return []

    def _time_to_jump(self, timeout: float | None) -> float | None:
        deadline = self._clock.next_deadline()
        if deadline is None:
            return timeout
        until_timer = max(0.0, deadline - self._clock.now())
        return until_timer if timeout is None else min(timeout, until_timer)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def run_virtual(
    main: Coroutine[Any, Any, T_Result], *, clock: VirtualClock | None = None, grace: float = 0.0
) -> T_Result:
    """Run a coroutine to its end on a new `VirtualEventLoop`, as `asyncio.run` does on a real one.

    Args:
        main: What to run; its outcome is the outcome of the call.
        clock: See `VirtualEventLoop`.
        grace: See `VirtualEventLoop`, in real seconds.

    Example:
        >>> run_virtual(asyncio.sleep(3600, "an hour later"))
        'an hour later'
    """

    def make_loop() -> VirtualEventLoop:
        return VirtualEventLoop(clock, grace=grace)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(main)


async def wait_all_blocked() -> None:
    """Return when every other task of the running `VirtualEventLoop` waits; time does not pass.

    It replaces every "sleep a bit until the others have got there".

    Raises:
        TypeError: The running loop is not a `VirtualEventLoop`.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualEventLoop):
        kind = type(loop).__name__
        raise TypeError(f"wait_all_blocked needs a VirtualEventLoop, not {kind}. Use run_virtual.")
    await loop.wait_all_blocked()
