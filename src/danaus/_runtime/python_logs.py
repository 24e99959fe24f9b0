"""Records of Python's logging made by actors: which actor, and from which level on.

Installed when a process becomes a proc, and in a script when its runtime starts; never by an
import. What the program itself has installed stays in force: its record factory makes the record,
its handlers and formatters get it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from danaus import _config
from danaus._runtime.context import current
from danaus._runtime.process import existing_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ActorConfig", "config", "install", "let_pass"]

_KEY = "prefix_python_logs_with_actor"

_installed = False


class ActorConfig:
    """Settings of actors that a program may change at any time.

    Example:
        >>> danaus.actor.config.prefix_python_logs_with_actor = False
    """

    __slots__ = ()

    @property
    def prefix_python_logs_with_actor(self) -> bool:
        """Whether records of Python's logging made in an actor begin with ``[actor=...]``.

        The config key of that name: procs that are spawned later have it, too.
        """
        return _config.get(_KEY)

    @prefix_python_logs_with_actor.setter
    def prefix_python_logs_with_actor(self, value: bool) -> None:
        _config.LAYERS.set({_KEY: value})


config = ActorConfig()


def install() -> None:
    """Put the actor's name before the messages of its records. Again: nothing changes."""
    global _installed  # noqa: PLW0603  # logging has one factory a process
    if not _installed:
        _installed = True
        logging.setLogRecordFactory(_naming_actor(logging.getLogRecordFactory()))


def let_pass(level: int) -> None:
    """Let records of this level and above pass to where they go, in this process.

    Sets the root logger's level. Where the program has installed no handlers, Python prints the
    messages to stderr, and only from WARNING on; that level is set as well.
    """
    logging.getLogger().setLevel(level)
    if logging.lastResort is not None:
        logging.lastResort.setLevel(level)


def _naming_actor(make: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        message = record.msg
        # Some libraries log empty messages that carry data in the record; and what is no text
        # must reach its handler as it is.
        if message and isinstance(message, str) and _config.get(_KEY):
            actor = _actor()
            if actor:
                # Where there are arguments, the message is a format.
                name = actor.replace("%", "%%") if record.args else actor
                record.msg = f"[actor={name}] {message}"
        return record

    return make_record


def _actor() -> str:
    """The actor that the running code belongs to, empty where it belongs to none."""
    context = current.get()
    if context is None:
        runtime = existing_runtime()
        context = runtime.root if runtime is not None else None
    return "" if context is None else repr(context.actor_instance)
