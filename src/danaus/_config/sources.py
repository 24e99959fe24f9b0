"""What do the environment and the configuration file say?

The file is TOML. Keys stand at its top; tables belong to other parts of Danaus and are left alone.
An error names the file or the variable that is wrong.
"""

# pathlib costs an import of several milliseconds in every process: paths are text here.

from __future__ import annotations

import os

from danaus._config.keys import KEYS, find_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from danaus._config.kinds import Plain

__all__ = ["FILE_VARIABLE", "read_below_runtime", "read_environment", "read_file"]

FILE_VARIABLE = "DANAUS_CONFIG"
"""Environment variable with the path of the file; empty: no file is read."""


def read_below_runtime(environ: Mapping[str, str] = os.environ) -> dict[str, Plain]:
    """Read every layer that a program does not set: defaults, then file, then environment.

    Args:
        environ: Variables to read, and to find the file by.

    Returns:
        The plain value of every key.

    Raises:
        TypeError, ValueError: As `read_file` and `read_environment`.
    """
    values = {key.name: key.default for key in KEYS.values()}
    named = environ.get(FILE_VARIABLE)
    if named is None:
        folder = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        values |= read_file(os.path.join(folder, "danaus", "config.toml"), must_exist=False)
    elif named:
        values |= read_file(os.path.expanduser(named), must_exist=True)
    values |= read_environment(environ)
    return values


def read_environment(environ: Mapping[str, str]) -> dict[str, Plain]:
    """Read the keys that variables set; an empty variable sets nothing.

    Raises:
        TypeError, ValueError: A variable holds no value of its key.
    """
    values: dict[str, Plain] = {}
    for key in KEYS.values():
        text = environ.get(key.env)
        if not text:
            continue
        try:
            values[key.name] = key.kind.accept_text(text)
        except (TypeError, ValueError) as error:
            raise type(error)(f"environment variable {key.env}: {error}") from error
    return values


def read_file(path: str, *, must_exist: bool) -> dict[str, Plain]:
    """Read the keys that a file sets.

    Args:
        path: The file.
        must_exist: Whether a file that is not there is an error; otherwise it sets nothing.

    Raises:
        TypeError: A key has a value of another type.
        ValueError: The file cannot be read, is no TOML, or has an unknown key or a bad value.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        if not must_exist:
            return {}
        raise ValueError(
            f"config file {path!r}: there is no such file. Correct or unset {FILE_VARIABLE}."
        ) from None
    except OSError as error:
        raise ValueError(f"config file {path!r}: cannot be read ({error.strerror}).") from error
    return _parse_file(path, content)


def _parse_file(path: str, content: bytes) -> dict[str, Plain]:
    """Check the content of a file key by key."""
    # Only where there is a file: the import costs more than the rest of the configuration.
    import tomllib

    try:
        table: dict[str, object] = tomllib.loads(content.decode())
    except ValueError as error:
        raise ValueError(f"config file {path!r}: not valid TOML ({error}).") from error
    others = {name for name, value in table.items() if isinstance(value, dict)} - KEYS.keys()
    values: dict[str, Plain] = {}
    for name, value in table.items():
        if name in others:
            continue
        try:
            values[name] = find_key(name).kind.accept_plain(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"config file {path!r}, key {name[:60]!r}: {error}") from error
    return values
