"""The rows of the table: what is run for each, and what Danaus has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.measurement import Unit

__all__ = ["ROWS", "Row"]

MS = 1e-3
US = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    ``budget`` is in ``unit``: an upper bound for seconds, a lower bound for rates, None for rows
    that only inform. ``limit_s`` is what one script may take, set-up included.
    """

    key: str
    title: str
    script: str
    arguments: tuple[str, ...] = ()
    unit: Unit = "s"
    budget: float | None = None
    limit_s: float = 60.0

    @property
    def less_is_better(self) -> bool:
        """Whether the quantity is a duration."""
        return self.unit == "s"


ROWS = (
    Row(key="call_one", title="call_one round trip", script="call_one", budget=80 * US),
    Row(
        key="call_one_main",
        title="call_one, classes of `__main__`",
        script="call_one",
        arguments=("--class-in-main",),
    ),
    Row(
        key="pipelined",
        title="pipelined call_one",
        script="pipelined",
        unit="/s",
        budget=40_000,
    ),
    Row(
        key="broadcast",
        title="broadcast to one actor",
        script="broadcast",
        unit="/s",
        budget=80_000,
    ),
    Row(
        key="call_8",
        title="call on 8 procs",
        script="call_procs",
        arguments=("--procs", "8"),
        budget=0.4 * MS,
    ),
    Row(
        key="call_32",
        title="call on 32 procs",
        script="call_procs",
        arguments=("--procs", "32"),
        budget=2 * MS,
        limit_s=90,
    ),
    Row(
        key="spawn_8",
        title="spawn 8 procs to first reply",
        script="spawn_procs",
        arguments=("--procs", "8"),
        budget=0.15,
        limit_s=90,
    ),
    Row(
        key="spawn_32",
        title="spawn 32 procs to first reply",
        script="spawn_procs",
        arguments=("--procs", "32"),
        budget=0.4,
        limit_s=120,
    ),
    Row(
        key="first_program",
        title="first program, 8 procs, cold to first reply",
        script="first_program",
        limit_s=90,
    ),
    Row(
        key="many_procs",
        title="1,000 procs alive on this machine",
        script="many_procs",
        arguments=("--procs", "1000"),
        budget=15,
        limit_s=120,
    ),
    Row(
        key="big_argument",
        title="64 MiB argument to 32 procs",
        script="big_argument",
        arguments=("--procs", "32"),
        budget=0.3,
        limit_s=120,
    ),
    Row(
        key="kill_proc",
        title="SIGKILL of a proc to the pending call's exception",
        script="kill_proc",
        budget=20 * MS,
        limit_s=90,
    ),
    Row(key="import_time", title="import", script="import_time", budget=60 * MS),
    Row(key="memcpy", title="memcpy in one process", script="memcpy", unit="GB/s"),
)
