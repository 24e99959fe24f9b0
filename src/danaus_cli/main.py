"""The entry of ``danaus``: finds the command, runs it, and turns what goes wrong into one line.

A command is a module with two functions, ``add_arguments(parser)`` and ``run(arguments) -> int``.
Only the module of the command that was asked for is imported, so that ``danaus --help`` answers
at once.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "Command", "CommandModule", "main"]

#: Exit codes: something failed; the command line is wrong; Ctrl-C; the reader of a pipe has left.
FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


@dataclass(frozen=True, slots=True)
class Command:
    """A command, as far as it can be told without importing it."""

    name: str
    module: str
    """Where its `CommandModule` is."""
    summary: str
    """One line for ``danaus --help``."""


class CommandModule(Protocol):
    """What the module of a command has."""

    DESCRIPTION: str
    """What the command does, for its ``--help``."""
    EXAMPLE: str
    """How it is called, with what comes of it; the end of its ``--help``."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        ...


COMMANDS = (
    Command(
        "demo",
        "danaus_cli.demo.command",
        "train a small language model on a cluster of processes on this machine",
    ),
    Command("worker", "danaus_cli.worker", "serve this machine as a host, to holders of a job key"),
    Command("key", "danaus_cli.key", "make the key of a job"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments without the program's name; None takes those of this process.

    Returns:
        The exit code: 0 when all went well, 1 when it failed, 2 when the arguments are wrong,
        130 after Ctrl-C, 141 when the reader of the output has gone away.

    Example:
        ``main(["demo", "--steps", "200"])``
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except SystemExit as leave:  # argparse has printed why
        return leave.code if isinstance(leave.code, int) else FAILED
    except KeyboardInterrupt:
        print("danaus: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whatever is still buffered would fail again when Python flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(words: list[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    module = _module_of(chosen)
    if chosen is not None and module is None:
        print(f"danaus: {_unknown(chosen)}", file=sys.stderr)
        return MISUSED
    arguments = _parser(chosen, module).parse_args(words)
    if module is None:
        _parser(None, None).print_help()
        return MISUSED
    try:
        code = module.run(arguments)
        sys.stdout.flush()
    except Exception as error:
        if arguments.debug or not _is_failure(error):
            raise
        print(f"danaus {chosen}: {error}", file=sys.stderr)
        return FAILED
    return code


def _module_of(name: str | None) -> CommandModule | None:
    for command in COMMANDS:
        if command.name == name:
            return cast("CommandModule", importlib.import_module(command.module))
    return None


def _unknown(name: str) -> str:
    names = [command.name for command in COMMANDS]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"there is no command {name!r}.{hint} There are: {', '.join(names)}."


def _parser(chosen: str | None, module: CommandModule | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="danaus", description="An API to a supercomputer, from the command line."
    )
    parser.add_argument("--version", action=_Version, help="print the version and leave")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name, help=command.summary, formatter_class=_HelpFormatter
        )
        # The same switch after the command's name; it must not undo the one before.
        sub.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of a failure",
        )
        if module is not None and command.name == chosen:
            sub.description = module.DESCRIPTION
            sub.epilog = module.EXAMPLE
            module.add_arguments(sub)
    return parser


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, and shows the defaults of what takes a value."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_value = action.nargs != 0 and action.default != ""
        return super()._get_help_string(action) if has_value else action.help


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: reading the metadata takes a while."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"danaus {version('danaus')}")
        parser.exit()


def _is_failure(error: Exception) -> bool:
    """Whether an error is a fact about the world that its text explains, and not our mistake."""
    from danaus import errors

    explained = tuple(
        kind
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, Exception)
    )
    return isinstance(error, (*explained, OSError, RuntimeError)) and not isinstance(
        error, (NotImplementedError, RecursionError, BrokenPipeError)
    )
