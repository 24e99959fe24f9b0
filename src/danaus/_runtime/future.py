"""Futures: results that are not there yet, observable by threads and event loops alike."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from danaus._net.reactor import Reactor, Waiter

if TYPE_CHECKING:
    import asyncio

__all__ = ["Future", "Watch", "blocking_allowed", "install_watch", "new_future"]

R = TypeVar("R")

_lock = threading.Lock()
"""Guards the state of all futures; held for a few instructions, never while others' code runs."""

_resolved = threading.Condition(_lock)
"""Notified when a result was computed that others wait for."""

_awaited: list[object] = []
"""Futures whose result is being computed while others wait for it, one entry a thread."""


def _busy() -> None:
    """In place of what computes a result: it is being computed."""


class Watch(Protocol):
    """Somebody who looks after a wait that lasts."""

    pause: float
    """Seconds that the wait may last before `probe` is called; grows with each call."""

    def probe(self) -> None:
        """It has lasted so long."""
        ...

    def end(self) -> None:
        """It is over."""
        ...


Watcher = Callable[[Any], Watch | None]
"""Called with a future that is about to be waited for."""

_watch_thread: Watcher | None = None
_watch_task: Watcher | None = None


def install_watch(thread: Watcher, task: Watcher) -> None:
    """Let waits for the answers of calls be looked after; for the runtime.

    Args:
        thread: Asked by a thread that is about to block.
        task: Asked by a task that is about to await; calls `Watch.probe` by itself.
    """
    global _watch_thread, _watch_task  # one runtime a process
    _watch_thread, _watch_task = thread, task


class Future(Generic[R]):
    """The result of an operation that is under way.

    It can be observed any number of times, from any thread and any event loop; the same value or
    the same exception object comes every time. Cancelling one observer does not cancel the work.

    Example:
        >>> actor.step.call_one(3).get(timeout=10)
        >>> await actor.step.call_one(3)
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_consumed",
        "_coro",
        "_done",
        "_error",
        "_reactor",
        "_thunk",
        "_value",
        "_waiters",
        "call",
    )

    _done: bool
    _value: Any
    _error: BaseException | None
    _thunk: Callable[[], Any] | None
    _waiters: list[Waiter] | None
    _callbacks: list[Callable[[], None]] | None
    _reactor: Reactor | None
    _coro: Coroutine[Any, Any, Any] | None
    _consumed: bool
    call: Any

    def __new__(cls, reactor: Reactor | None = None, call: Any = None) -> Self:
        self = object.__new__(cls)
        self._done = False
        self._value = None
        self._error = None
        self._thunk = None
        self._waiters = None
        self._callbacks = None
        self._reactor = reactor
        self._coro = None
        self._consumed = False
        self.call = call
        return self

    def __init__(self) -> None:  # pyright: ignore[reportInconsistentConstructor]  # it refuses
        raise TypeError(
            "Future objects are returned by Danaus operations and cannot be constructed directly."
        )

    def __reduce__(self) -> Any:
        raise TypeError("a Future stays in its process; await it or get() it, and send the result")

    # settling; for the runtime

    def set_value(self, value: Any) -> None:
        """Settle it with a value. A second settling is ignored."""
        with _lock:
            if self._done:
                return
            self._value = value
            self._done = True
        self._tell()

    def set_error(self, error: BaseException) -> None:
        """Settle it with an exception. A second settling is ignored."""
        with _lock:
            if self._done:
                return
            self._error = error
            self._done = True
        self._tell()

    def set_thunk(self, thunk: Callable[[], Any]) -> None:
        """Settle it with something that the first observer computes, on its own thread."""
        with _lock:
            if self._done:
                return
            self._thunk = thunk
            self._done = True
        self._tell()

    def _tell(self) -> None:
        # Nobody registers any more: whoever holds the lock looks at `_done` first.
        waiters, self._waiters = self._waiters, None
        if waiters is not None:
            for waiter in waiters:
                waiter.wake()
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                callback()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call back once it is settled, at once if it is; on the thread that settles it."""
        with _lock:
            done = self._done
            if not done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
        if done:
            callback()
        elif self._coro is not None:
            self._start()

    @property
    def done(self) -> bool:
        """True once the result is there."""
        return self._done

    # observing

    def _observe(self) -> Any:
        if self._consumed:
            raise ValueError("Future was consumed.")
        if self._thunk is not None:
            self._resolve()
        error = self._error
        if error is not None:
            # The same object is raised each time, and each raise would lengthen its traceback.
            raise error.with_traceback(None)
        return self._value

    def _resolve(self) -> None:
        """Compute the result; observers that come meanwhile wait for the first."""
        with _lock:
            thunk = self._thunk
            if thunk is not None and thunk is not _busy:
                self._thunk = _busy
        if thunk is None:
            return
        if thunk is _busy:
            self._wait_resolved()
            return
        try:
            self._value = thunk()
        except Exception as error:  # noqa: BLE001  # it is the result
            self._error = error
        except BaseException:
            self._error = RuntimeError("the result was lost: who looked first was interrupted")
            raise
        finally:
            self._thunk = None
            if _awaited:
                with _resolved:
                    _resolved.notify_all()

    def _wait_resolved(self) -> None:
        with _resolved:
            _awaited.append(self)
            try:
                while self._thunk is _busy:
                    _resolved.wait()
            finally:
                _awaited.remove(self)

    def get(self, timeout: float | None = None) -> R:
        """Wait for the result.

        Args:
            timeout: Seconds to wait, None for as long as it takes.

        Raises:
            TimeoutError: The time is up. The work goes on, and a later call may succeed.
            Exception: What the operation raised.
        """
        if not self._done:
            self._wait(timeout)
        elif timeout is not None:
            _check(timeout)
        return self._observe()

    result = get

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait, and return the exception instead of raising it; None when there is a value.

        The TimeoutError of a wait that was too short is returned, too.
        """
        if timeout is not None:
            _check(timeout)
        try:
            if not self._done:
                self._wait(timeout)
            self._observe()
        except Exception as error:  # noqa: BLE001  # this is what was asked for
            return error
        return None

    def _wait(self, timeout: float | None) -> None:
        if timeout is not None:
            _check(timeout)
        _warn_in_loop()
        waiter = Waiter(self._reactor)
        with _lock:
            if self._done:
                return
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
        if self._coro is not None:
            self._start()
        watch = None
        if self.call is not None and _watch_thread is not None:
            watch = _watch_thread(self)
        try:
            if watch is None:
                waiter.wait(timeout)
            else:
                _wait_watched(waiter, timeout, watch)
        finally:
            if not self._done:
                self._forget(waiter)
            if watch is not None:
                watch.end()
        if not self._done:
            raise TimeoutError(f"no result within {timeout} s; the operation goes on")

    def _forget(self, waiter: Waiter) -> None:
        with _lock:
            # Once it is settled, the list is that of the thread that wakes those on it.
            if not self._done and self._waiters is not None:
                self._waiters.remove(waiter)

    def __await__(self) -> Generator[Any, None, R]:
        if not self._done:
            asyncio_future = self._attach("await")
            watch = None
            if self.call is not None and _watch_task is not None:
                watch = _watch_task(self)
            try:
                yield from asyncio_future
            finally:
                if watch is not None:
                    watch.end()
        try:
            return self._observe()
        except StopIteration as stop:
            raise RuntimeError("the operation raised StopIteration") from stop

    def as_asyncio(self) -> asyncio.Future[R]:
        """An asyncio future of the running loop with the same result.

        Raises:
            RuntimeError: No event loop runs in this thread.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        outer: asyncio.Future[R] = loop.create_future()

        def settle() -> None:
            if outer.done():
                return
            try:
                outer.set_result(self._observe())
            except StopIteration as stop:
                wrapped = RuntimeError("the operation raised StopIteration")
                wrapped.__cause__ = stop
                outer.set_exception(wrapped)
            except BaseException as error:  # noqa: BLE001  # handed on
                outer.set_exception(error)

        self.add_callback(lambda: _post(loop, settle))
        return outer

    def _attach(self, what: str) -> asyncio.Future[None]:
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ValueError(
                f"{what} needs a running event loop in this thread; use .get() without one"
            ) from None
        wake: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not wake.done():
                wake.set_result(None)

        self.add_callback(lambda: _post(loop, settle))
        return wake

    # compatible internals

    @staticmethod
    def _from_coro(coro: Coroutine[Any, Any, R]) -> Future[R]:
        """A future that runs ``coro`` in a thread of its own when it is first observed."""
        self: Future[R] = new_future(None)
        self._coro = coro
        return self

    def _take_inner(self) -> Any:
        """Take the future's work away from it; it is of no use afterwards."""
        with _lock:
            if self._consumed:
                raise ValueError("Future was consumed.")
            self._consumed = True
            inner, self._coro = self._coro, None
        self.set_value(None)
        return inner

    def _start(self) -> None:
        """Start the work that it has of its own, once."""
        with _lock:
            coro = self._coro
            if coro is None:
                return
            self._coro = None

        def run() -> None:
            import asyncio

            try:
                self.set_value(asyncio.run(coro))
            except BaseException as error:  # noqa: BLE001  # it is the result
                self.set_error(error)

        threading.Thread(target=run, name="danaus-future", daemon=True).start()

    def __repr__(self) -> str:
        state = "pending"
        if self._done:
            state = "failed" if self._error is not None else "done"
        return f"<Future {state}>"

    def __class_getitem__(cls, _item: Any) -> Any:
        return cls


def new_future(reactor: Reactor | None, call: Any = None) -> Future[Any]:
    """Make a pending future, for the runtime.

    Args:
        reactor: What a waiting thread may drive meanwhile.
        call: The call that it is the answer of, if it is one.
    """
    return Future.__new__(Future, reactor, call)  # pyright: ignore[reportUnknownVariableType]


def _wait_watched(waiter: Waiter, timeout: float | None, watch: Watch) -> None:
    while timeout is None or timeout > watch.pause:
        pause = watch.pause
        if waiter.wait(pause):
            return
        if timeout is not None:
            timeout -= pause
        watch.probe()
    waiter.wait(timeout)


def _post(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return  # the loop is closed: nobody observes any more


def _check(timeout: Any) -> None:
    if not isinstance(timeout, int | float) or not (0 <= timeout <= sys.float_info.max):
        raise ValueError(
            f"invalid timeout {timeout!r}: expected a non-negative, finite number of seconds"
        )


class _Quiet(threading.local):
    on = False


_quiet = _Quiet()


@contextmanager
def blocking_allowed() -> Generator[None]:
    """In this block, this thread may block its event loop: it has no other way to wait."""
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False


def _warn_in_loop() -> None:
    events = sys.modules.get("asyncio.events")
    if events is None or _quiet.on:
        return
    if events._get_running_loop() is not None:  # noqa: SLF001  # documented
        warnings.warn(
            "get() blocks the event loop of this thread until the result is there; "
            "use `await` instead",
            UserWarning,
            stacklevel=4,
        )
