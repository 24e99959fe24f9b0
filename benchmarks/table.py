"""The table: one line a row, one column a system, ratios to Danaus, budgets met or missed.

Pure: measurements in, text out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measurement import Measurement, format_quantity

if TYPE_CHECKING:
    from benchmarks.rows import Row

__all__ = ["Cell", "Cells", "budget_text", "ratio", "render_spread", "render_table", "verdict"]

SUBJECT = "danaus"
FLOOR = "bare"
NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What all runs of one row on one system gave."""

    measurements: tuple[Measurement, ...] = ()
    failures: tuple[str, ...] = ()
    unsupported: str | None = None

    @property
    def value(self) -> float | None:
        """The median of the runs' medians, None when no run succeeded."""
        if not self.measurements:
            return None
        return statistics.median(measurement.median for measurement in self.measurements)


Cells = Mapping[tuple[str, str], Cell]
"""Cells by row key and system name."""


def ratio(row: Row, subject: float, peer: float) -> float:
    """Say how many times better the subject is than the peer; below 1 it is worse."""
    return peer / subject if row.less_is_better else subject / peer


def verdict(row: Row, value: float | None) -> str:
    """Give ``"met"`` or ``"missed"``: missed also without a value, neither without a budget."""
    if row.budget is None:
        return NOTHING
    if value is None:
        return "missed"
    met = value <= row.budget if row.less_is_better else value >= row.budget
    return "met" if met else "missed"


def budget_text(row: Row) -> str:
    """Write the bound that the row has to keep."""
    if row.budget is None:
        return NOTHING
    return f"{'≤' if row.less_is_better else '≥'} {format_quantity(row.budget, row.unit)}"


def render_table(rows: Sequence[Row], systems: Sequence[str], cells: Cells) -> str:
    """Render the comparison as a Markdown table that is aligned for a terminal, too."""
    peers = [name for name in systems if name not in (SUBJECT, FLOOR)]
    header = ["work", SUBJECT, "to reach", "budget", *peers, "floor"]
    lines = [header]
    for row in rows:
        own = cells.get((row.key, SUBJECT), Cell())
        ran = SUBJECT in systems and own.unsupported is None
        lines.append(
            [
                row.title,
                _cell_text(row, own, None),
                budget_text(row),
                verdict(row, own.value) if ran else NOTHING,
                *(_cell_text(row, cells.get((row.key, peer), Cell()), own.value) for peer in peers),
                _cell_text(row, cells.get((row.key, FLOOR), Cell()), None),
            ]
        )
    return _markdown(lines)


def render_spread(rows: Sequence[Row], systems: Sequence[str], cells: Cells) -> str:
    """Render each cell's runs: extreme medians, median p10 and p90, samples of all runs."""
    lines = [["work", "system", "lowest run", "highest run", "p10", "p90", "runs", "samples"]]
    for row in rows:
        for system in systems:
            runs = cells.get((row.key, system), Cell()).measurements
            if not runs:
                continue
            medians = [run.median for run in runs]
            quantities = (
                min(medians),
                max(medians),
                statistics.median(run.p10 for run in runs),
                statistics.median(run.p90 for run in runs),
            )
            lines.append(
                [
                    row.title,
                    system,
                    *(format_quantity(quantity, row.unit) for quantity in quantities),
                    str(len(runs)),
                    str(sum(run.n for run in runs)),
                ]
            )
    return _markdown(lines)


def _cell_text(row: Row, cell: Cell, subject: float | None) -> str:
    if cell.value is None:
        return "failed" if cell.failures else NOTHING
    text = format_quantity(cell.value, row.unit)
    if subject is not None:
        text += f" ({_ratio_text(ratio(row, subject, cell.value))})"
    if cell.failures:
        text += f", {len(cell.failures)} failed"
    return text


def _ratio_text(value: float) -> str:
    return f"{value:,.0f}x" if value >= 9.95 else f"{value:.2g}x"


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rendered = [_markdown_line(line, widths) for line in lines]
    rendered.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(rendered) + "\n"


def _markdown_line(line: Sequence[str], widths: Sequence[int]) -> str:
    return (
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        + " |"
    )
