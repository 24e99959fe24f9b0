"""Actors with async endpoints: the same cell, driven by an event loop on the actor's thread.

One message at a time, unless the endpoint is a `concurrent_endpoint`: those start in order and
interleave afterwards. Sync endpoints of the same class run between the awaits, and see no running
loop. ``__supervise__`` runs beside the messages, as a task of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._runtime.call import Abort, Call, Stop, Supervise, UndeliverableMessageEnvelope
from danaus._runtime.cleanup import CleanupLimit
from danaus._runtime.context import Context, current
from danaus._runtime.endpoints import is_async_method
from danaus._runtime.future import blocking_allowed
from danaus._runtime.outcome import FAILED, RAISED, close_error, close_failure
from danaus._runtime.process import leave_if_forked
from danaus.errors import ActorError

if TYPE_CHECKING:
    from danaus._runtime.cell import ActorCell
    from danaus.errors import MeshFailure

__all__ = ["AsyncDriver"]


_BATCH = 32
"""Concurrent calls that begin in one turn of the loop at most: other tasks want turns, too."""


class AsyncDriver:
    """Serves one cell on an event loop."""

    def __init__(self, cell: ActorCell) -> None:
        self._cell = cell
        self._loop = asyncio.new_event_loop()
        self._sleeping: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._supervising: set[asyncio.Task[Any]] = set()
        self._main_task: asyncio.Task[Any] | None = None
        self._unstarted = 0
        """Concurrent calls whose tasks have had no turn yet."""
        self._ending = False
        self._cleanup_error: Exception | None = None

    def run(self) -> None:
        """Serve until the actor has ended."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._cell.driver = None
            try:
                self._cancel_rest()
            finally:
                asyncio.set_event_loop(None)
                self._loop.close()

    def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def is_handling(self) -> bool:
        """True in the task that takes one message after the other, False in any beside it."""
        return asyncio.current_task() is self._main_task

    def call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call on the actor's thread after ``delay`` seconds."""
        return self._loop.call_later(delay, call)

    def kick(self) -> None:
        """A message was queued, from any thread."""
        if self._sleeping is not None:
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                return  # the loop has ended

    def kick_first(self) -> None:
        """Something was queued that comes before any call, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._look_first)
        except RuntimeError:
            return  # the loop has ended

    def _look_first(self) -> None:
        """While a call awaits: supervise beside it; end it if the actor is to end."""
        control = self._cell.control
        for item in list(control):
            if isinstance(item, Supervise | UndeliverableMessageEnvelope):
                control.remove(item)
                self._ask_beside(item)
            elif isinstance(item, Stop) and self._cell.running is not None and self._main_task:
                self._main_task.cancel()
        self._wake()

    def _wake(self) -> None:
        sleeping = self._sleeping
        if sleeping is not None and not sleeping.done():
            sleeping.set_result(None)

    async def _main(self) -> None:
        cell = self._cell
        cell.driver = self
        self._main_task = asyncio.current_task()
        with blocking_allowed():  # a constructor cannot await
            alive = cell.construct()
        if not alive:
            return
        while cell.failure is None and not cell.stopped:
            item = self._next()
            if item is None:
                leave_if_forked(cell.runtime)
                await self._sleep()
            elif isinstance(item, Call):
                await self._handle(item)
            elif isinstance(item, Abort):
                cell.die(item.reason, None)
            elif isinstance(item, Supervise | UndeliverableMessageEnvelope):
                self._ask_beside(item)
            elif isinstance(item, Stop):
                await self._stop(item)
            if self._supervising:
                await asyncio.sleep(0)  # a backlog of messages must not keep it from running
        if cell.failure is not None:
            await self._end_dead()

    async def _end_dead(self) -> None:
        """The cell has died: end its tasks and what it owns, then clean up."""
        await self._cancel_tasks()
        await self._stop_owned("its owner has failed")
        await self.cleanup(self._cleanup_error, _nothing)

    def clean_up_later(self, error: Exception | None) -> None:
        """The cell has died: its running call is interrupted; the main task does the rest."""
        self._cleanup_error = error
        self._ending = True
        main = self._main_task
        if self._cell.running is not None and main is not None:
            if main is not asyncio.current_task():
                main.cancel()
        else:
            self._wake()

    def _next(self) -> Any:
        cell = self._cell
        if cell.control:
            return cell.control.popleft()
        if cell.queue:
            return cell.queue.popleft()
        return None

    async def _sleep(self) -> None:
        self._sleeping = self._loop.create_future()
        try:
            if not self._cell.queue and not self._cell.control:
                await self._sleeping
        finally:
            self._sleeping = None

    async def _handle(self, call: Call) -> None:
        cell = self._cell
        cell.running = call
        current.set(Context(cell.identity, call))  # type: ignore[arg-type]
        try:
            method, spec, args, kwargs = cell.open_call(call)
            if method is None:
                return
            if spec is not None and spec.concurrent:
                await self._start(call, method, args, kwargs, explicit=spec.explicit_response_port)
                return
            if self._unstarted:
                await self._let_start()
            is_async = spec is not None and spec.is_async
            result = (method if is_async else self._plain(method))(*args, **kwargs)
            if is_async or inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001  # border: user code
            cell.raised(call, error)
        except BaseException as error:  # noqa: BLE001  # border: user code
            self._broke(call, error)
        else:
            if call.port >= 0 and not (spec is not None and spec.explicit_response_port):
                cell.answer(call, result)
        finally:
            cell.running = None
            cell.handled += 1

    def _broke(self, call: Call, error: BaseException) -> None:
        """An endpoint was cancelled, or raised what ends programs."""
        cell = self._cell
        # Whatever was cancelled was the call, not the task that handles calls.
        while self._main_task is not None and self._main_task.cancelling():
            self._main_task.uncancel()
        failure = cell.failure or self._stop_failure()
        if failure is not None:
            if call.port >= 0:
                cell.runtime.reply(call, FAILED, close_failure(failure))
        elif isinstance(error, asyncio.CancelledError):
            cell.raised(call, error)
        else:
            cell.broke(call, error)

    def _stop_failure(self) -> MeshFailure | None:
        """What a call is told that is interrupted because the actor must end at once."""
        for item in self._cell.control:
            if isinstance(item, Stop):
                return self._cell.runtime.stopped_failure(self._cell, item.reason)
        return None

    def _plain(self, method: Any) -> Any:
        """A sync method sees no running loop, as on any sync actor; an async one is itself."""
        if is_async_method(method):
            return method

        def run(*args: Any, **kwargs: Any) -> Any:
            asyncio._set_running_loop(None)  # noqa: SLF001  # documented, for those who drive loops
            try:
                return method(*args, **kwargs)
            finally:
                asyncio._set_running_loop(self._loop)  # noqa: SLF001

        return run

    # concurrent endpoints

    async def _let_start(self) -> None:
        """Let the concurrent calls that have come begin, before what comes after them."""
        self._unstarted = 0
        await asyncio.sleep(0)

    async def _start(
        self,
        call: Call,
        method: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        explicit: bool,
    ) -> None:
        task = self._loop.create_task(self._concurrent(call, method, args, kwargs, explicit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._unstarted += 1
        if self._unstarted >= _BATCH:
            await self._let_start()

    async def _concurrent(
        self,
        call: Call,
        method: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        explicit: bool,  # noqa: FBT001
    ) -> None:
        cell = self._cell
        name = f"{cell.birth.name}.{call.method}"
        try:
            result = await method(*args, **kwargs)
        except asyncio.CancelledError as error:
            if cell.stopped or cell.failure is not None or self._ending:
                if call.port >= 0 and not explicit:
                    failure = cell.failure or cell.runtime.stopped_failure(cell, "stopped")
                    cell.runtime.reply(call, FAILED, close_failure(failure))
                raise
            self._base_exception(call, name, error, explicit=explicit)
        except Exception as error:  # noqa: BLE001  # border: user code
            if explicit or call.port < 0:
                cell.die(f"Actor call {name} failed", error, call)
            else:
                parts = close_error(error, f"Actor call {name} failed.")
                cell.runtime.reply(call, RAISED, parts)
        except BaseException as error:  # noqa: BLE001  # border: user code
            self._base_exception(call, name, error, explicit=explicit)
            cell.die(f"Actor call {name} failed with BaseException", error)
        else:
            if call.port >= 0 and not explicit:
                cell.answer(call, result)

    def _base_exception(
        self, call: Call, name: str, error: BaseException, *, explicit: bool
    ) -> None:
        if call.port >= 0 and not explicit:
            message = f"Actor call {name} failed with BaseException."
            wrapped = ActorError(error, message)
            self._cell.runtime.reply(call, RAISED, close_error(wrapped.exception, message))

    async def _cancel_tasks(self) -> None:
        self._ending = True
        me = asyncio.current_task()
        tasks = [t for t in (*self._tasks, *self._supervising) if t is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    # supervision and the end

    def _ask_beside(self, item: Supervise | UndeliverableMessageEnvelope) -> None:
        task = self._loop.create_task(
            self._ask(item) if isinstance(item, Supervise) else self._bounce(item)
        )
        self._supervising.add(task)
        task.add_done_callback(self._supervising.discard)

    async def _ask(self, item: Supervise) -> None:
        cell = self._cell
        hook = getattr(cell.instance, "__supervise__", None)
        error: BaseException | None = None
        handled = False
        try:
            answer = self._plain(hook)(item.failure) if hook is not None else False
            if inspect.isawaitable(answer):
                answer = await answer
            handled = bool(answer)
        except asyncio.CancelledError as cancelled:
            if self._ending:
                raise
            error = cancelled
        except BaseException as raised:  # noqa: BLE001  # border: user code
            error = raised
        cell.supervised(item, handled=handled, error=error)

    async def _bounce(self, message: UndeliverableMessageEnvelope) -> None:
        cell = self._cell
        error: BaseException | None = None
        handled = False
        try:
            hook = cell.instance._handle_undeliverable_message  # noqa: SLF001  # the user's
            answer = self._plain(hook)(message)
            if inspect.isawaitable(answer):
                answer = await answer
            handled = bool(answer)
        except asyncio.CancelledError as cancelled:
            if self._ending:
                raise
            error = cancelled
        except BaseException as raised:  # noqa: BLE001  # border: user code
            error = raised
        cell.bounced(message, handled=handled, error=error)

    async def _stop(self, stop: Stop) -> None:
        cell = self._cell
        await self._cancel_tasks()
        await self._stop_owned(stop.reason)
        await self.cleanup(None, lambda: cell.finished(stop))

    async def _stop_owned(self, reason: str) -> None:
        """Stop what the actor owns; the loop goes on meanwhile."""
        cell = self._cell
        done = self._loop.create_future()

        def stop() -> None:
            cell.runtime.stop_owned_by(cell.uid, reason)
            self._loop.call_soon_threadsafe(done.set_result, None)

        # Not by asyncio.to_thread: its executor refuses to start when the interpreter ends.
        threading.Thread(target=stop, name="danaus-stop-owned", daemon=True).start()
        await done

    async def cleanup(self, error: Exception | None, done: Callable[[], None]) -> None:
        """Call ``__cleanup__``, for at most ``cleanup_timeout``, and then ``done``."""
        cell = self._cell
        hook = getattr(cell.instance, "__cleanup__", None)
        if hook is None:
            done()
            return
        limit = CleanupLimit(cell, done)
        within: asyncio.Timeout | None = None
        try:
            answer = self._plain(hook)(error)
            if inspect.isawaitable(answer):
                async with asyncio.timeout(limit.seconds) as within:
                    await answer
        except BaseException as raised:  # noqa: BLE001  # border: user code
            if within is not None and within.expired():
                limit.overdue()
            else:
                cell.cleanup_raised(raised)
        limit.finish()


def _nothing() -> None:
    """Nobody waits for the end of an actor that has died."""
