"""Every exception of Danaus.

::

    Exception
    ├── ActorError                an endpoint raised; the actor is alive
    ├── MeshFailure               a rank of a mesh died: which, where, of what
    └── RuntimeError
        └── SupervisionError      a call could not be answered because of a death

`ActorError` is made so that it is also an instance of the type that the endpoint raised, wherever
such a type can be built: ``except OverflowError`` at the caller works.
"""

from __future__ import annotations

import types
from typing import Any

__all__ = [
    "ActorError",
    "BufferGone",
    "ConnectionRefused",
    "CycleError",
    "JobKeyError",
    "MeshFailure",
    "MissingExtra",
    "SerializationError",
    "SupervisionError",
    "actor_error",
    "shorten",
]

#: Longest text of an error, in characters; what is over it is cut in the middle.
TEXT_LIMIT = 2048


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    """Cut the middle out of a text that is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    head = limit // 3
    tail = limit - head - 40
    return f"{text[:head]}\n  … {len(text) - head - tail} characters left out …\n{text[-tail:]}"


def _last_lines(text: str, limit: int = TEXT_LIMIT // 2) -> str:
    """The lines at the end of a text that have room in ``limit`` characters."""
    if len(text) <= limit:
        return text
    end = text[-limit:]
    return end.partition("\n")[2] or end


class ActorError(Exception):
    """An endpoint raised an exception; the actor that ran it is alive.

    Attributes:
        exception: What the endpoint raised, rebuilt here; where it cannot be rebuilt, a
            `RuntimeError` with its type's name and text.
        traceback_text: The remote traceback, with causes and contexts.
    """

    exception: BaseException
    traceback_text: str

    def __init__(
        self,
        exception: BaseException | str,
        message: str = "A remote actor call has failed.",
        traceback_text: str = "",
    ) -> None:
        if not isinstance(exception, BaseException):
            exception = RuntimeError(exception)
        Exception.__init__(self, exception, message)
        self.exception = exception
        self._message = message
        self.traceback_text = traceback_text or _format(exception)

    @property
    def message(self) -> str:
        """Which actor and endpoint."""
        return self._message

    def __str__(self) -> str:
        head = self.message
        failure = getattr(self, "failure", None)
        if isinstance(failure, MeshFailure):
            # The death that the call ran into comes before the calls that it passed through.
            head = f"{failure.first.event()}\n{head}"
        if not self.traceback_text:
            return f"{head}\n{type(self.exception).__name__}: {self.exception}"
        return shorten(
            f"{head}\nTraceback of where the remote call failed (most recent call last):\n"
            f"{self.traceback_text}",
            4 * TEXT_LIMIT,
        )

    def __reduce__(self) -> Any:
        return (actor_error, (self.exception, self.message, self.traceback_text))


def _format(exception: BaseException) -> str:
    import traceback  # a tenth of the import budget, and needed only here

    lines = traceback.format_exception(exception)
    if lines and lines[0].startswith("Traceback (most recent call last)"):
        del lines[0]
    return "".join(lines)


_FIELDS = frozenset((types.MemberDescriptorType, types.GetSetDescriptorType))
"""How classes hold what is not in an instance's dictionary."""

_OURS = frozenset(("exception", "_message", "traceback_text"))

_kinds: dict[type[BaseException], type[ActorError]] = {}

_SIGNALS = (StopIteration, StopAsyncIteration)
"""Exceptions that end loops: one that came from afar must not end a loop of the caller."""


def _kind_for(original: type[BaseException]) -> type[ActorError]:
    """The subclass of `ActorError` that is also an ``original``, or `ActorError` itself."""
    if issubclass(original, ActorError):
        return original  # of a call that the endpoint made: what caught it there catches it here
    if not issubclass(original, Exception) or issubclass(original, _SIGNALS):
        return ActorError
    try:
        return _kinds[original]
    except KeyError:
        pass
    try:
        kind = type(
            "ActorError",
            (ActorError, original),
            {"__module__": "danaus.errors", "__doc__": ActorError.__doc__},
        )
    except Exception:  # noqa: BLE001  # any refusal of a foreign type means: use the plain one
        kind = ActorError
    _kinds[original] = kind
    return kind


def actor_error(exception: BaseException, message: str, traceback_text: str = "") -> ActorError:
    """Make the `ActorError` for ``exception`` that ``except type(exception)`` also catches."""
    kind = _kind_for(type(exception))
    try:
        error = _blank(kind, exception)
        ActorError.__init__(error, exception, message, traceback_text)
        if kind is not ActorError:
            _copy_fields(exception, error)
        str(error)
    except Exception:  # noqa: BLE001  # a foreign type with a will of its own
        error = ActorError(exception, message, traceback_text)
    return error


def _blank(kind: type[ActorError], exception: BaseException) -> ActorError:
    """An instance whose constructor has not run: that of a foreign type may do anything."""
    try:
        return kind.__new__(kind)
    except TypeError:
        return kind.__new__(kind, *exception.args)  # an ExceptionGroup cannot be without them


def _copy_fields(source: BaseException, target: ActorError) -> None:
    """Give ``target`` the attributes of the original, so that handlers can read them."""
    names = {"args": None, **vars(source)}
    for cls in type(source).__mro__:
        if cls is not BaseException:  # errno of an OSError, and what stands in slots
            names.update(dict.fromkeys(n for n, v in vars(cls).items() if type(v) in _FIELDS))
    for name in names:
        if name not in _OURS and not name.startswith("__"):
            try:
                setattr(target, name, getattr(source, name))
            except (AttributeError, TypeError):
                continue  # it cannot be set, or is not


class MeshFailure(Exception):
    """One rank of a mesh died.

    Attributes:
        mesh_name: Name of the mesh that the rank belongs to, as its owner gave it.
        actor_class: Class name of the actor; empty for a proc.
        ranks: Ranks that failed, in the mesh as it was spawned.
        host: Name of the host.
        pid: Process id there; 0 when the process never started.
        exit: Signal name ("SIGKILL") or exit code ("exit code 3"); None when the process lives.
        reason: One paragraph: what happened.
        title: The actor with its place in the tree of owners, for people; empty for a proc.
        origin: The failure that this one follows from, because nobody handled it; None when this
            is the first.
        stderr: The last lines that the process wrote to its standard error, as many as the config
            key ``tail_log_lines`` says.
    """

    def __init__(  # noqa: PLR0913  # its fields
        self,
        mesh_name: str,
        ranks: list[int],
        reason: str,
        *,
        actor_class: str = "",
        host: str = "",
        pid: int = 0,
        exit: str | None = None,  # noqa: A002  # the public field's name
        title: str = "",
        origin: MeshFailure | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(mesh_name, ranks, reason)
        self.mesh_name = mesh_name
        self.actor_class = actor_class
        self.ranks = list(ranks)
        self.host = host
        self.pid = pid
        self.exit = exit
        self.reason = reason
        self.title = title
        self.origin = origin
        self.stderr = stderr

    @property
    def crashed_ranks(self) -> list[int]:
        """The same as `ranks`."""
        return self.ranks

    @property
    def first(self) -> MeshFailure:
        """The failure that began it: this one, or what it follows from."""
        failure = self
        while failure.origin is not None:
            failure = failure.origin
        return failure

    def _kind(self) -> str:
        if not self.actor_class:
            return f"process {self.mesh_name}"
        return f"actor {self.title or f'{self.actor_class} {self.mesh_name}'}"

    def _who(self) -> str:
        ranks = ", ".join(map(str, self.ranks))
        where = f" on {self.host}" if self.host else ""
        if self.pid:
            where += f" (pid {self.pid})"
        return f"{self._kind()} (rank {ranks}){where}"

    def event(self) -> str:
        """One sentence: which actor or process failed, and of what."""
        return f"Supervision event: {self._kind()} failed: {self.reason.partition(chr(10))[0]}"

    def report(self) -> str:
        """The whole story in under 2 KB: what died, where, why, and its last output.

        The first failure comes first, then those that follow from it.
        """
        return shorten("\n".join(self.story()))

    def story(self) -> list[str]:
        """The paragraphs of `report`, one a line or more."""
        if self.origin is not None:
            text = f"Hence the {self._who()} has failed: {self.reason}"
            return [*self.origin.story(), text]
        lines = [
            f"The {self._who()} and all its descendants have failed:",
            f"  {self.reason}",
        ]
        if self.stderr:
            lines.append("last lines of its stderr:\n" + _last_lines(self.stderr))
        return lines

    def __str__(self) -> str:
        return shorten(
            f"MeshFailure(mesh_name={self.mesh_name}, crashed_ranks={self.ranks}, "
            f"event={self.event()})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, for the wire and for programs."""
        return {
            "mesh_name": self.mesh_name,
            "ranks": self.ranks,
            "reason": self.reason,
            "actor_class": self.actor_class,
            "host": self.host,
            "pid": self.pid,
            "exit": self.exit,
            "title": self.title,
            "origin": None if self.origin is None else self.origin.to_dict(),
            "stderr": self.stderr,
        }

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> MeshFailure:
        """Rebuild from `to_dict`."""
        origin = fields.get("origin")
        if origin is not None:
            fields = {**fields, "origin": MeshFailure.from_dict(origin)}
        return MeshFailure(**fields)

    def __reduce__(self) -> Any:
        return (MeshFailure.from_dict, (self.to_dict(),))


class SupervisionError(RuntimeError):
    """A call cannot be answered because what it was sent to has died or was stopped.

    Attributes:
        failure: The death, with its fields; None when the mesh was stopped in good order.
        endpoint: ``mesh.method`` of the call; empty outside a call.
    """

    def __init__(
        self, message: str, *, failure: MeshFailure | None = None, endpoint: str = ""
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.endpoint = endpoint

    @staticmethod
    def for_call(endpoint: str, failure: MeshFailure, *, known: bool = False) -> SupervisionError:
        """The error of a call to ``endpoint`` that ``failure`` left without an answer.

        Args:
            endpoint: ``mesh.method``.
            failure: The death.
            known: It was known before the call was made.
        """
        text = f"Endpoint call {endpoint}() failed, "
        if known:
            rank = failure.ranks[0] if failure.ranks else 0
            text += f"failure on mesh {failure.mesh_name} at rank {rank} with event: "
        return SupervisionError(
            shorten(text + failure.report()), failure=failure, endpoint=endpoint
        )

    @staticmethod
    def for_stopped(endpoint: str, mesh_name: str, reason: str) -> SupervisionError:
        """The error of a call to a mesh that was stopped."""
        return SupervisionError(
            f"Endpoint call {endpoint}() failed, Supervision event: actor mesh {mesh_name} has "
            f"status: stopped ({reason}). Spawn it again.",
            endpoint=endpoint,
        )

    def __reduce__(self) -> Any:
        return (_supervision_error, (str(self), self.failure, self.endpoint))


def _supervision_error(text: str, failure: MeshFailure | None, endpoint: str) -> SupervisionError:
    return SupervisionError(text, failure=failure, endpoint=endpoint)


class SerializationError(TypeError):
    """A value could not be pickled; the text says which part of it, and where it sits."""


class CycleError(RuntimeError):
    """A call waits, directly or through others, for the actor that is waiting for it."""


class ConnectionRefused(ConnectionError):
    """A peer could not be reached or did not accept this one; the text says which and why."""


class JobKeyError(ValueError):
    """A job key cannot be read, is none, or is missing; the text says which, and what to do."""


class BufferGone(RuntimeError):
    """The memory of an `RDMABuffer` is not there any more: it was dropped, or its owner ended."""


class MissingExtra(ImportError):
    """An optional package is needed; the text names the extra that brings it."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"{package} is not installed. Install it with: pip install 'danaus[{extra}]'"
        )
        self.extra = extra
        self.package = package

    def __reduce__(self) -> Any:
        return (MissingExtra, (self.extra, self.package))
