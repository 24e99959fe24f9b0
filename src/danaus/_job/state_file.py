"""Where a job is written down, so that the next client finds it: a JSON file, for its user only.

``.danaus/job_state.json`` is a relative link to the file of the context in use, at first
``.danaus/default/state.json``. Any other path is used as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

__all__ = [
    "DEFAULT_PATH",
    "FORMAT",
    "StateFileError",
    "locate",
    "locked",
    "parse",
    "read",
    "remove",
    "serialize",
    "set_aside",
    "write",
]

DEFAULT_PATH = ".danaus/job_state.json"
"""Path that is used where none is named, relative to the working directory."""

FORMAT = 1
"""Version of what stands in a file; others are refused."""

_LIMIT = 64 << 20
"""Bytes of the largest file that is read (100,000 hosts take about 15 MB)."""

_FOLDER, _LINK, _COMPATIBLE_LINK = ".danaus", "job_state.json", "job_state.pkl"
_FIRST_CONTEXT = os.path.join("default", "state.json")


class StateFileError(ValueError):
    """A state file cannot be used: it is damaged, of another version, or another user's."""


def locate(path: str | os.PathLike[str]) -> str:
    """The absolute path of the file that ``path`` names.

    The link of a ``.danaus`` folder is followed; a plain file in its place becomes the file of the
    context ``default``. The reference's name ``job_state.pkl`` stands for ``job_state.json``.
    """
    absolute = os.path.abspath(path)
    folder, name = os.path.split(absolute)
    if os.path.basename(folder) != _FOLDER or name not in (_LINK, _COMPATIBLE_LINK):
        return os.path.realpath(absolute)
    link = os.path.join(folder, _LINK)
    if os.path.islink(link):
        return os.path.realpath(link)
    first = os.path.join(folder, _FIRST_CONTEXT)
    if os.path.isfile(link):
        os.makedirs(os.path.dirname(first), mode=0o700, exist_ok=True)
        os.replace(link, first)
        os.symlink(_FIRST_CONTEXT, link)
    return os.path.realpath(first)


@contextmanager
def locked(file: str) -> Generator[None]:
    """Hold the folder of a state file, made if need be, against other clients.

    A client that starts a job holds it so long: then the next one finds the job instead of
    starting a second. It is released by the kernel if its holder dies, and leaves nothing behind.

    Raises:
        OSError: The folder cannot be made.
    """
    folder = os.path.dirname(file)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass  # some network file systems lock no folders: two first clients may start two jobs
        yield
    finally:
        os.close(descriptor)


def read(file: str) -> dict[str, Any]:
    """What stands in a state file.

    Raises:
        FileNotFoundError: There is no such file.
        StateFileError: It cannot be used, and why.
    """
    with open(file, "rb") as stream:
        owner = os.fstat(stream.fileno()).st_uid
        if owner not in (os.geteuid(), 0):
            raise StateFileError(f"it belongs to another user (uid {owner})")
        data = stream.read(_LIMIT + 1)
    return parse(data)


def parse(data: bytes) -> dict[str, Any]:
    """The record that ``data`` holds.

    Raises:
        StateFileError: It holds none.
    """
    if len(data) > _LIMIT:
        raise StateFileError(f"it has more than {_LIMIT} bytes")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateFileError(f"it is damaged, or no state file of danaus ({error})") from None
    if not isinstance(record, dict) or "format" not in record:
        raise StateFileError("it is no state file of danaus")
    found = cast("dict[str, Any]", record)
    if found["format"] != FORMAT:
        raise StateFileError(
            f"it has format {found['format']!r}; this version of danaus reads {FORMAT}"
        )
    return found


def serialize(record: Mapping[str, Any]) -> bytes:
    """The bytes of a file that holds ``record``."""
    return json.dumps(record, indent=1).encode() + b"\n"


def write(path: str | os.PathLike[str], record: Mapping[str, Any]) -> str:
    """Write a state file in one step, readable by its user only; returns its absolute path.

    Raises:
        OSError: It cannot be written. What was there before is untouched.
    """
    file = locate(path)
    folder = os.path.dirname(file)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(file)}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(serialize(record))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
    _link(path, file)
    return file


def _link(path: str | os.PathLike[str], file: str) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    link = os.path.join(folder, _LINK)
    in_place = os.path.basename(folder) == _FOLDER and name in (_LINK, _COMPATIBLE_LINK)
    if in_place and file == os.path.join(os.path.realpath(folder), _FIRST_CONTEXT):
        try:
            os.symlink(_FIRST_CONTEXT, link)
        except FileExistsError:
            return


def remove(file: str) -> None:
    """Remove a state file, if it is there."""
    try:
        os.unlink(file)
    except FileNotFoundError:
        return


def set_aside(file: str) -> str:
    """Rename a file that cannot be used, for it may tell of hosts; returns its new path."""
    aside = f"{file}.damaged"
    os.replace(file, aside)
    return aside
