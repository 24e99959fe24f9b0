"""What ``squeue`` says of a job: pure, for the versions of Slurm that there are.

Versions differ in how they write the state (a text, or a list of texts) and the nodes (a compressed
text, a list of objects, an object by name, or a list below another key).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Allocation", "expand_nodes", "parse_json", "parse_text"]

_MOST = 1_000_000
"""Nodes of the largest cluster that is believed."""

_BRACKETS = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the scheduler says of a job.

    Attributes:
        state: Such as ``PENDING`` or ``RUNNING``; always a single word in capitals.
        nodes: Names of its nodes, in the scheduler's order; empty before it runs.
        reason: Why it waits or has failed, as the scheduler says; may be empty.
    """

    state: str
    nodes: tuple[str, ...] = ()
    reason: str = ""


def expand_nodes(text: str) -> list[str]:
    """The names that a compressed list of nodes stands for, in order.

    Raises:
        ValueError: It is no such list.

    Example:
        >>> expand_nodes("gpu[01-03,7],login")
        ['gpu01', 'gpu02', 'gpu03', 'gpu7', 'login']
    """
    names: list[str] = []
    for item in _split(text):
        names.extend(_expand(item))
    return names


def _split(text: str) -> Iterable[str]:
    """Items between commas that stand outside of brackets."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            break
        if letter == "," and not depth:
            yield text[start:i]
            start = i + 1
    if depth:
        raise ValueError(f"a list of nodes has brackets that do not match: {text[:100]!r}")
    if text[start:].strip():
        yield text[start:]


def _expand(item: str) -> list[str]:
    found = _BRACKETS.search(item)
    if found is None:
        return [item.strip()]
    before, after = item[: found.start()], item[found.end() :]
    names: list[str] = []
    for part in found[1].split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"a list of nodes has a range that is none: {item[:100]!r}")
        end = int(last) if dash else int(first)
        if not 0 <= end - int(first) < _MOST:
            raise ValueError(f"a list of nodes has a range that is none: {item[:100]!r}")
        for number in range(int(first), end + 1):
            names.extend(_expand(f"{before}{number:0{len(first)}d}{after}"))
    return names


def parse_json(text: str, job: str) -> Allocation | None:
    """The job's allocation in the output of ``squeue --json``; None where it is not listed.

    Raises:
        ValueError: It is no such output.
    """
    try:
        data = json.loads(text)
        jobs = data["jobs"]
        for entry in jobs:
            if str(entry.get("job_id")) == job:
                return Allocation(_state(entry), tuple(_nodes(entry)), _reason(entry))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is no output of squeue --json: {error!r}") from error
    return None


def parse_text(text: str) -> Allocation | None:
    """The allocation in the output of ``squeue -h -o '%T|%N|%r'``; None where it is empty.

    Raises:
        ValueError: It is no such output.
    """
    line = next((line for line in text.splitlines() if line.strip()), None)
    if line is None:
        return None
    parts = line.strip().split("|")
    if len(parts) != 3:  # noqa: PLR2004  # the format asks for three
        raise ValueError(f"this is no output of squeue: {line[:100]!r}")
    state, nodes, reason = parts
    return Allocation(state.upper(), tuple(expand_nodes(nodes)), _plain_reason(reason))


def _state(entry: dict[str, Any]) -> str:
    state = entry["job_state"]
    if isinstance(state, list):  # a base state, then flags
        states = cast("list[object]", state)
        state = states[0] if states else "UNKNOWN"
    return str(state).upper()


def _reason(entry: dict[str, Any]) -> str:
    return _plain_reason(str(entry.get("state_reason") or ""))


def _plain_reason(reason: str) -> str:
    return "" if reason in ("None", "(null)") else reason


def _nodes(entry: dict[str, Any]) -> list[str]:
    resources = entry.get("job_resources")
    places = [entry]
    if isinstance(resources, dict):
        places.insert(0, cast("dict[str, Any]", resources))
    for place in places:
        for key in ("nodes", "allocated_nodes"):
            names = _names(place.get(key))
            if names:
                return names
    return []


def _names(nodes: Any) -> list[str]:
    """Names of nodes, in whichever way they are written."""
    if isinstance(nodes, str):
        return expand_nodes(nodes)
    if isinstance(nodes, list):
        found: list[str] = []
        for node in cast("list[Any]", nodes):
            name = node if isinstance(node, str) else node.get("nodename") or node.get("name")
            found.extend(expand_nodes(str(name)))
        return found
    if isinstance(nodes, dict):
        table = cast("dict[str, Any]", nodes)
        for key in ("list", "allocation"):
            if table.get(key):
                return _names(table[key])
        # By number or by name of the node.
        values = list(table.values())
        if values and all(isinstance(v, dict) and ("nodename" in v or "name" in v) for v in values):
            return _names(values)
        if values and all(isinstance(v, dict) for v in values):
            return [name for key in table for name in expand_nodes(key)]
    return []
