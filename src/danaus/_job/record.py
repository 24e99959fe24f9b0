"""Jobs as plain data: what a state file holds of a job, and the job that it makes again.

A record is JSON and never code. It names the job's class, which must be importable by the reader,
and holds the attributes that the class gives out.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from danaus._job.state_file import FORMAT, StateFileError

if TYPE_CHECKING:
    from danaus._job.trait import JobTrait

__all__ = ["class_name", "find_class", "plain", "record_of"]

_PUBLIC = "danaus.job"


def record_of(job: JobTrait, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a job with these fields of its own."""
    import danaus

    return {
        "format": FORMAT,
        "danaus": danaus.__version__,
        "job": class_name(type(job)),
        "apply_id": job.apply_id,
        "fields": dict(fields),
    }


def class_name(cls: type) -> str:
    """``module:qualified name`` of a class; those of danaus go by their public module."""
    module = _PUBLIC if cls.__module__.startswith("danaus._job.") else cls.__module__
    return f"{module}:{cls.__qualname__}"


def find_class(name: object, base: type[JobTrait]) -> type[JobTrait]:
    """The job class of that name.

    Raises:
        StateFileError: There is none here.
    """
    if not isinstance(name, str) or name.count(":") != 1:
        raise StateFileError(f"it names no class of jobs ({name!r})")
    module_name, qualified = name.split(":")
    try:
        found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise StateFileError(f"its class of jobs, {name}, is not to be found: {error}") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise StateFileError(f"{name} is no class of jobs")
    return found


def plain(owner: str, name: str, value: object) -> Any:
    """``value`` as JSON has it; tuples become lists.

    Raises:
        TypeError: JSON has no such thing.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(owner, name, item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        if all(isinstance(key, str) for key in entries):
            return {key: plain(owner, name, item) for key, item in entries.items()}
    kind = type(cast("object", value)).__name__
    raise TypeError(
        f"a {owner} cannot be written to a state file: its attribute {name!r} holds a {kind}, which "
        "JSON does not have. Override _record() and _restore()."
    )
