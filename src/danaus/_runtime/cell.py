"""An actor's cell: its inbox, its thread, and what happens to each message.

One thread an actor, started when the actor is spawned. The thread makes the instance, then takes
one message after the other. Sync endpoints run on the thread; async ones on the thread's own event
loop (`danaus._runtime.async_cell`). Control (supervision, stop) goes before queued calls.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from danaus._core.inbox import Inbox
from danaus._net.reactor import Waiter
from danaus._runtime.call import (
    Abort,
    Call,
    Construct,
    Stop,
    Supervise,
    UndeliverableMessageEnvelope,
    open_parts,
)
from danaus._runtime.cleanup import CleanupLimit
from danaus._runtime.context import Context, Instance, current
from danaus._runtime.endpoints import EndpointProperty, endpoint_of, is_async_method
from danaus._runtime.outcome import (
    FAILED,
    RAISED,
    VALUE,
    close_error,
    close_failure,
    format_remote,
    is_cancellation,
)
from danaus._runtime.process import leave_if_forked
from danaus._wire.codec import dumps

if TYPE_CHECKING:
    from danaus._runtime.async_cell import AsyncDriver
    from danaus._runtime.birth import Birth
    from danaus._runtime.router import Runtime
    from danaus._runtime.waits import Blocked
    from danaus.errors import MeshFailure

__all__ = ["ActorCell"]

Item = Call | Construct | Stop | Supervise | Abort | UndeliverableMessageEnvelope

READY = "__ready__"
"""Every actor answers it once its constructor has returned."""


def _nothing() -> None:
    """The answer to `READY`."""


def _ask(hook: Any, about: Any) -> tuple[bool, BaseException | None]:
    """What a hook of a sync actor answers, or raises."""
    try:
        return (bool(hook(about)) if hook is not None else False), None
    except BaseException as raised:  # noqa: BLE001  # border: user code
        return False, raised


class ActorCell:
    """One actor of this process."""

    def __init__(self, runtime: Runtime, uid: str, birth: Birth) -> None:
        self.runtime = runtime
        self.uid = uid
        self.birth = birth
        self.inbox: Inbox[Item] = Inbox()
        self.lock = threading.Lock()
        """Guards the inbox, and the order in which what it lets pass is queued."""
        self.queue: deque[Item] = deque()
        self.control: deque[Item] = deque()
        self.instance: Any = None
        self.cls: type[Any] = object
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self.identity: Instance | None = None
        self.failure: MeshFailure | None = None
        """Why it died; None while it lives, or when it ended in good order."""
        self.stopped = False
        self.running: Call | None = None
        self.handled = 0
        """Calls handled so far."""
        self.blocked: Blocked | None = None
        """What it waits for and handles nothing meanwhile; None while it does not."""
        self._waiter = Waiter(runtime.reactor)
        self._idle = False
        self.driver: AsyncDriver | None = None
        """What serves it, if it has async endpoints."""
        self._ended = threading.Event()
        self._constructing = False
        self._supervise_error: BaseException | None = None
        self._methods: dict[str, tuple[Any, EndpointProperty | None]] = {}
        self.thread = threading.Thread(
            target=self._main, name=f"danaus-actor-{birth.name}", daemon=True
        )
        self.thread.start()

    @property
    def title(self) -> str:
        """Class and name, for people."""
        return f"{self.cls.__name__} {self.birth.name}"

    # what other threads call

    def post(self, item: Item) -> None:
        """Queue a message; it is in order already."""
        self.queue.append(item)
        if self._idle:
            self._idle = False
            self._waiter.wake()
        elif self.driver is not None:
            self.driver.kick()

    def post_first(self, item: Item) -> None:
        """Queue what is handled before any call, once the message at hand is done."""
        self.control.append(item)
        if self._idle:
            self._idle = False
            self._waiter.wake()
        elif self.driver is not None:
            self.driver.kick_first()

    def abort(self, reason: str) -> None:
        """Let it die once it has handled the message that it handles now."""
        self.post_first(Abort(reason))

    def forget_after_fork(self) -> None:
        """In a forked child: what is queued is the parent's."""
        self.queue.clear()
        self.control.clear()

    def wait_ended(self, timeout: float) -> bool:
        """Wait until its thread has ended. False: time is up."""
        return self._ended.wait(timeout)

    # its thread

    def take(self) -> Item:
        """The next message; waits for it, and drives the loop meanwhile."""
        control, queue, waiter = self.control, self.queue, self._waiter
        while True:
            if control:
                return control.popleft()
            if queue:
                return queue.popleft()
            leave_if_forked(self.runtime)
            self._idle = True
            if control or queue:
                self._idle = False
                continue
            waiter.wait(None)
            waiter.reset()
            self._idle = False

    def _main(self) -> None:
        self._waiter.is_main, self._waiter.may_drive = False, True
        try:
            first = self.take()
            while not isinstance(first, Construct):
                if isinstance(first, Stop):
                    self._finish_stop(first)
                    return
                first = self.take()
            if not self._set_up() or not self._load(first):
                return
            if self._is_async():
                from danaus._runtime.async_cell import AsyncDriver

                AsyncDriver(self).run()
            elif self.construct():
                self._serve()
        finally:
            self.instance = None  # timers may hold the cell for a while, but not the user's objects
            self._methods.clear()
            self.runtime.ending.discard(self)
            self._ended.set()

    def _is_async(self) -> bool:
        methods: dict[str, Any] = {}
        for cls in reversed(self.cls.__mro__):
            methods.update(vars(cls))
        if any(isinstance(m, EndpointProperty) and m.is_async for m in methods.values()):
            return True
        names = ("__supervise__", "__cleanup__", "_handle_undeliverable_message")
        return any(is_async_method(getattr(self.cls, n, None) or object) for n in names)

    def _set_up(self) -> bool:
        """False: the bootstrap of this process has failed, and so has the actor."""
        failure = self.runtime.setup.wait()
        if failure is not None:
            self.die("the bootstrap of its process failed", failure)
        return failure is None

    def _load(self, construct: Construct) -> bool:
        """Unpickle the class and its arguments."""
        birth = self.birth
        try:
            self.cls, self._args, self._kwargs, mesh, creator = open_parts(construct.take())
        except BaseException as error:  # noqa: BLE001  # border: user code runs in unpickling
            self.die(
                f"the class or the arguments of actor {birth.name} could not be unpickled", error
            )
            return False
        self.identity = self.runtime.identity_for(self, mesh, creator)
        current.set(Context(self.identity))
        return True

    def construct(self) -> bool:
        """Make the instance. False: that was the end."""
        try:
            cls: Any = self.cls
            new = cls.__new__
            given: Any = ((), {}) if new is object.__new__ else (self._args, self._kwargs)
            self.instance = new(cls, *given[0], **given[1])
            self.runtime.constructing(self)
            self._constructing = True
            self.instance.__init__(*self._args, **self._kwargs)
        except BaseException as error:  # noqa: BLE001  # border: user code
            self.instance = None  # half made: there is nothing to clean up
            self.die(f"the constructor of {self.title} raised", error)
            return False
        self._args, self._kwargs, self._constructing = (), {}, False
        return not self.stopped

    def _serve(self) -> None:
        while True:
            item = self.take()
            if type(item) is Call:
                self.handle_sync(item)
            elif isinstance(item, Supervise):
                self._supervise(item)
            elif isinstance(item, Abort):
                self.die(item.reason, None)
            elif isinstance(item, Stop):
                self._finish_stop(item)
            elif isinstance(item, UndeliverableMessageEnvelope):
                self._bounce(item)
            if self.failure is not None or self.stopped:
                return

    # calls

    def find_method(self, name: str) -> tuple[Any, EndpointProperty | None]:
        """The bound method of that name, and its endpoint's properties."""
        found = self._methods.get(name)
        if found is None:
            if name == READY:
                return _nothing, None
            plain = name.lstrip("!")
            spec = endpoint_of(self.cls, plain)
            if spec is None and name.startswith("!"):
                spec = EndpointProperty(
                    getattr(self.cls, plain), explicit_response_port=name.startswith("!!")
                )
            found = self._methods[name] = (getattr(self.instance, plain), spec)
        return found

    def handle_sync(self, call: Call) -> None:
        """Run a sync endpoint and answer."""
        self.running = call
        token = current.set(Context(self.identity, call))  # type: ignore[arg-type]
        try:
            method, spec, args, kwargs = self.open_call(call)
            if method is None:
                return
            result = method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # border: user code
            self.raised(call, error)
        except BaseException as error:  # noqa: BLE001  # border: user code
            if is_cancellation(error):
                self.raised(call, error)
            else:
                self.broke(call, error)
        else:
            if call.port >= 0 and not (spec is not None and spec.explicit_response_port):
                self.answer(call, result)
        finally:
            current.reset(token)
            self.running = None
            self.handled += 1

    def open_call(self, call: Call) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
        """Method, properties and arguments of a call. Method None: answered already."""
        if not call.method:
            return None, None, (), {}  # a number that was taken and never used
        try:
            args, kwargs = open_parts(call.take())
        except BaseException as error:  # noqa: BLE001  # border: user code runs in unpickling
            self._refuse_arguments(call, error)
            return None, None, (), {}
        finally:
            self.runtime.consumed(call)
        try:
            method, spec = self.find_method(call.method)
        except AttributeError as error:
            self.raised(call, error)
            return None, None, (), {}
        if spec is not None and spec.explicit_response_port:
            args = (self.runtime.port_for(call), *args)
        return method, spec, args, kwargs

    def _refuse_arguments(self, call: Call, error: BaseException) -> None:
        """The arguments of a call could not be unpickled: that costs the call, not the actor."""
        what = f"Actor call {self.birth.name}.{call.method}"
        if call.port >= 0:
            message = f"{what} failed: its arguments could not be unpickled."
            self.runtime.reply(call, RAISED, close_error(error, message))
        else:
            sys.stderr.write(
                f"danaus: {what} was dropped, because its arguments could not be unpickled: "
                f"{type(error).__name__}: {error}\n{format_remote(error)}"
            )

    def answer(self, call: Call, result: Any) -> None:
        """Send the result of a call."""
        try:
            self.runtime.reply(call, VALUE, dumps(result))
        except Exception as error:  # noqa: BLE001  # whatever pickling raises is the answer
            self.raised(call, error, "its result could not be sent")

    def raised(self, call: Call, error: BaseException, what: str = "") -> None:
        """An endpoint raised an exception that ends the call.

        The actor lives on, unless there is nobody to tell: nobody waits for an answer, or the
        endpoint had to answer by a port and has not.

        Args:
            call: The call.
            error: The exception.
            what: What failed, where it was not the endpoint itself.
        """
        spec = endpoint_of(self.cls, call.method)
        explicit = spec is not None and spec.explicit_response_port
        message = f"Actor call {self.birth.name}.{call.method} failed" + (what and f": {what}")
        if call.port >= 0 and not explicit:
            self.runtime.reply(call, RAISED, close_error(error, f"{message}."))
        else:
            self.die(message, error, call)

    def broke(self, call: Call, error: BaseException) -> None:
        """An endpoint raised what ends programs (SystemExit, KeyboardInterrupt): so it ends it."""
        self.die(
            f"Actor call {self.birth.name}.{call.method} failed with BaseException", error, call
        )

    # failure and stop

    def _supervise(self, item: Supervise) -> None:
        """Ask the instance what becomes of a failure that it owns."""
        handled, error = _ask(getattr(self.instance, "__supervise__", None), item.failure)
        self.supervised(item, handled=handled, error=error)

    def supervised(
        self, item: Supervise, *, handled: bool, error: BaseException | None = None
    ) -> None:
        """The instance has answered (or raised) in ``__supervise__``."""
        self._supervise_error = error
        self.runtime.faults.answered(item.number, handled=handled)

    def _bounce(self, message: UndeliverableMessageEnvelope) -> None:
        """Ask the instance what becomes of a message of its own that did not arrive."""
        hook = getattr(self.instance, "_handle_undeliverable_message", None)
        handled, error = _ask(hook, message)
        self.bounced(message, handled=handled, error=error)

    def bounced(
        self,
        message: UndeliverableMessageEnvelope,
        *,
        handled: bool,
        error: BaseException | None = None,
    ) -> None:
        """The instance has answered (or raised) in ``_handle_undeliverable_message``."""
        if not handled:
            self.die(
                f"a message of {self.title} to {message.dest()} could not be delivered: "
                f"{message.error_msg()}",
                error,
            )

    def fail_unhandled(self, failure: MeshFailure, cause: str) -> None:
        """It did not handle a failure of what it owns, and so fails itself."""
        error, self._supervise_error = self._supervise_error, None
        reason = "it did not handle this"
        if error is not None:
            reason = "its __supervise__ raised while it handled this"
        self.die(reason, error, origin=failure, cause=cause)

    def die(
        self,
        reason: str,
        error: BaseException | None,
        call: Call | None = None,
        *,
        origin: MeshFailure | None = None,
        cause: str = "",
    ) -> None:
        """Fail for good: owner and callers are told, what it owns is stopped.

        Args:
            reason: What happened.
            error: The exception that it happened by, if it was one.
            call: The call that is answered with the failure.
            origin: The failure that this one follows from.
            cause: Id of what began it; made here where it begins.
        """
        if self.failure is not None or self.stopped:
            return
        text = reason
        if error is not None:
            text = f"{reason}: {type(error).__name__}: {error}\n{format_remote(error)}"
        failure = self.runtime.failure_of_actor(self, text, origin)
        self.failure = failure
        self.runtime.actor_died(self, failure, cause)
        if call is not None and call.port >= 0:
            self.runtime.reply(call, FAILED, close_failure(failure))
        self.close_queue(failure)
        why = error if isinstance(error, Exception) else RuntimeError(failure.report())
        if self.driver is not None:
            self.driver.clean_up_later(why)
        elif self.instance is not None:
            self.runtime.stop_owned_by(self.uid, reason)
            self.clean_up(why, _nothing)

    def close_queue(self, failure: MeshFailure) -> None:
        """Answer what is queued: it will not be handled."""
        parts = close_failure(failure)
        while True:
            try:
                item = self.queue.popleft()
            except IndexError:
                return
            if isinstance(item, Call):
                self.runtime.consumed(item)
                if item.method:
                    self.runtime.reply(item, FAILED, parts)
            elif isinstance(item, Stop):
                self.runtime.stopped(item)

    def clean_up(self, error: Exception | None, done: Callable[[], None]) -> None:
        """Call ``__cleanup__``, then ``done``; a clean-up that hangs does not hold ``done`` up."""
        hook = getattr(self.instance, "__cleanup__", None)
        if hook is None:
            done()
            return
        limit = CleanupLimit(self, done)
        try:
            hook(error)
        except BaseException as raised:  # noqa: BLE001  # border: user code
            self.cleanup_raised(raised)
        limit.finish()

    def note_ended(self) -> None:
        """Nobody need wait for its thread any more."""
        self._ended.set()

    def cleanup_raised(self, error: BaseException) -> None:
        """``__cleanup__`` raised: the owner hears of it, unless it hears of a failure anyway."""
        if self.failure is None:
            text = f"__cleanup__ of {self.title} raised: {type(error).__name__}: {error}\n"
            failure = self.runtime.failure_of_actor(self, text + format_remote(error), None)
            self.failure = failure
            self.runtime.actor_died(self, failure, "", in_cleanup=True)

    def _finish_stop(self, stop: Stop) -> None:
        self.runtime.stop_owned_by(self.uid, stop.reason)
        self.clean_up(None, lambda: self.finished(stop))

    def finished(self, stop: Stop) -> None:
        """It has ended in good order."""
        if self.stopped:
            return
        self.stopped = True
        self.runtime.actor_stopped(self, stop.reason)
        failure = self.runtime.stopped_failure(self, stop.reason)
        self.close_queue(failure)
        self.runtime.stopped(stop)
        self.instance = None

    def give_up(self, stop: Stop) -> None:
        """It has not ended in time: it counts as ended, whatever its thread still does."""
        if self.stopped or self.failure is not None:
            return
        if self._constructing and self.instance is not None:
            # A constructor that serves for ever is ended by the clean-up, or never.
            error = TimeoutError(f"the constructor of {self.title} has not returned")
            threading.Thread(
                target=self.clean_up, args=(error, _nothing), name="danaus-cleanup", daemon=True
            ).start()
        self.finished(stop)
        self._ended.set()
