"""Binding a process to processors and memory nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["bind", "parse_cpus"]

_NUMACTL = ("cpunodebind", "membind", "physcpubind")


def parse_cpus(text: str) -> list[int]:
    """Processor numbers of a list such as ``0-3,8``.

    Raises:
        ValueError: It is no such list.
    """
    cpus: set[int] = set()
    for item in str(text).split(","):
        first, dash, last = item.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            low, high = 1, 0
        if low > high:
            raise ValueError(f"{text!r} is no list of processors; write it like '0-3,8'")
        cpus.update(range(low, high + 1))
    return sorted(cpus)


def bind(wishes: Mapping[str, str]) -> dict[str, Any]:
    """What a process description holds for one entry of ``proc_bind``.

    Raises:
        ValueError: A key is not known, or a value is no list of processors.
    """
    unknown = set(wishes) - {*_NUMACTL, "cpus"}
    if unknown:
        raise ValueError(
            f"proc_bind has unknown keys {sorted(unknown)}; known are cpus, {', '.join(_NUMACTL)}"
        )
    made: dict[str, Any] = {}
    if "cpus" in wishes:
        made["cpus"] = parse_cpus(wishes["cpus"])
    numactl = [f"--{key}={wishes[key]}" for key in _NUMACTL if key in wishes]
    if numactl:
        made["wrap"] = ["numactl", *numactl]
    return made
