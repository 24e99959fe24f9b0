"""Which versions run here, and whether they can work with those of a peer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

__all__ = ["find_conflict", "versions"]

_SIGNIFICANT = {"danaus": 2, "python": 2, "cloudpickle": 1}
"""Numbers of a version that must be equal on both sides.

Danaus: they decide about frames. Python: functions of a script travel as its byte code.
cloudpickle: it decides how they travel.
"""


def versions() -> dict[str, str]:
    """Versions of ``danaus``, ``python`` and ``cloudpickle`` in this process."""
    import cloudpickle  # noqa: TID251  # only its version is wanted

    import danaus

    return {
        "danaus": danaus.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cloudpickle": cloudpickle.__version__,
    }


def find_conflict(ours: Mapping[str, str], theirs: object, peer: str) -> str:
    """Why the two cannot work together, in one line that shows both sides; empty if they can.

    Args:
        ours: What runs here, from `versions`.
        theirs: What the peer says that it runs, as it came; what is missing is not the same.
        peer: The other side, for people.
    """
    told = cast("dict[object, object]", theirs) if isinstance(theirs, dict) else {}
    said = {name: str(told.get(name, "unknown")) for name in _SIGNIFICANT}
    different = [
        name
        for name, count in _SIGNIFICANT.items()
        if _start(ours.get(name, ""), count) != _start(said[name], count)
    ]
    if not different:
        return ""
    here, there = (
        ", ".join(f"{name} {side.get(name, 'unknown')}" for name in _SIGNIFICANT)
        for side in (ours, said)
    )
    return (
        f"{' and '.join(different)} differ: here {here}; {peer} {there}. "
        "Install the same versions on both sides."
    )


def _start(version: str, count: int) -> list[str]:
    return version.split(".")[:count]
