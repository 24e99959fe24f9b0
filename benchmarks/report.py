"""RESULTS.md: the table and what is needed to judge and to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.table import Cell, Cells, render_spread, render_table

if TYPE_CHECKING:
    from benchmarks.rows import Row

__all__ = ["failure_lines", "render_results"]

READING = """\
Each figure is the median over runs of the median within a run.
Every run is a fresh process, and the runs of all systems alternate, so that a busy moment of the machine meets all.
In parentheses: how many times better danaus is (time of the peer / time of danaus, rate of danaus / rate of the peer).
A dash: the system does not offer it, or is not asked for it.

- *Floor*: what the same work costs in the same run with forked processes, Unix sockets and bytes, without pickling
  and without an actor system (`benchmarks/systems/bare.py`). Its first line is the bare socket round trip.
- *call_one, classes of `__main__`*: the actor and its argument are of classes that the running script defines.
- *Spawn*: from asking for the processes until all have answered the first call, in a system that is up.
- *First program*: a whole script, interpreter start and import included, up to the first reply.
- *64 MiB argument*: a numpy array, of which every actor reads one byte a page. Ray is given it by `ray.put`, once.
"""

REPEATING = """\
`make bench`, or `python -m benchmarks` in an environment that holds danaus.
The first run installs the peers below `benchmarks/.peers`.
`--systems danaus bare` needs no peer, `--rows call_one kill_proc` runs some rows only, `--repeats 5` takes more runs.
With `--systems` or `--rows` this file stays as it is.

One script alone runs in the environment of its system; `--json` is for programs, `--repeat N` sets the samples:

    python -m benchmarks.call_one --system danaus
    benchmarks/.peers/ray/bin/python -m benchmarks.call_one --system ray
"""


def render_results(
    *,
    rows: Sequence[Row],
    systems: Sequence[str],
    cells: Cells,
    facts: Mapping[str, str],
    date: str,
    command: str,
) -> str:
    """Compose the whole file."""
    sections = [
        "# Benchmark results\n",
        "Written by `make bench`; do not edit.\n",
        _facts_text({"date": date, "command": f"`{command}`", **facts, **_versions(cells)}),
        render_table(rows, systems, cells),
        *_failures_section(rows, systems, cells),
        "## How to read it\n",
        READING,
        "## Spread\n",
        render_spread(rows, systems, cells),
        "## How to repeat it\n",
        REPEATING,
    ]
    return "\n".join(sections)


def failure_lines(rows: Sequence[Row], systems: Sequence[str], cells: Cells) -> list[str]:
    """List what failed: work, system, reason, and how often."""
    lines: list[str] = []
    for row in rows:
        for system in systems:
            failures = cells.get((row.key, system), Cell()).failures
            lines += [
                f"{row.title}, {system}, {failures.count(reason)} run(s): {reason}"
                for reason in dict.fromkeys(failures)
            ]
    return lines


def _failures_section(rows: Sequence[Row], systems: Sequence[str], cells: Cells) -> list[str]:
    lines = failure_lines(rows, systems, cells)
    if not lines:
        return []
    return ["## Failures\n", "".join(f"- {line}\n" for line in lines)]


def _versions(cells: Cells) -> dict[str, str]:
    return {
        run.system: run.version
        for cell in cells.values()
        for run in cell.measurements
        if run.version
    }


def _facts_text(facts: Mapping[str, str]) -> str:
    return "".join(f"- {name}: {value}\n" for name, value in facts.items())
