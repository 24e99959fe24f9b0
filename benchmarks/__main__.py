"""The whole table: every row on every system, several fresh processes each, alternating.

Prints the table with ratios, budgets and the floor, and writes ``benchmarks/RESULTS.md``. The exit
code is 0 also when budgets are missed or a system fails: the table says so.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.environments import EnvironmentFailed, python_of
from benchmarks.isolated import Outcome, adopt_orphans, run_isolated
from benchmarks.machine import describe_machine
from benchmarks.measurement import Measurement, format_quantity
from benchmarks.report import failure_lines, render_results
from benchmarks.rows import ROWS, Row
from benchmarks.systems import SYSTEM_NAMES
from benchmarks.table import Cell, render_table

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
REASON_LENGTH = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    arguments = _parse(argv)
    rows = [row for row in ROWS if row.key in arguments.rows]
    adopt_orphans()
    facts = describe_machine()
    interpreters = _interpreters(arguments.systems)
    systems = list(interpreters)
    cells = _measure_all(rows, interpreters, arguments.repeats)
    if arguments.json:
        print(json.dumps(_to_json(cells)))
    else:
        print(render_table(rows, systems, cells))
        for line in failure_lines(rows, systems, cells):
            print(line)
    output = _output_of(arguments)
    if output is not None:
        output.write_text(
            render_results(
                rows=rows,
                systems=systems,
                cells=cells,
                facts=facts,
                date=f"{datetime.now(UTC):%Y-%m-%d}",
                command=shlex.join(["python", "-m", "benchmarks", *(argv or sys.argv[1:])]),
            )
        )
        print(f"written to {output}", file=sys.stderr)
    return 0


def _interpreters(systems: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for system in systems:
        try:
            found[system] = python_of(system)
        except EnvironmentFailed as reason:
            print(f"skipped: {reason}", file=sys.stderr)
    return found


def _measure_all(
    rows: Sequence[Row], interpreters: Mapping[str, str], repeats: int
) -> dict[tuple[str, str], Cell]:
    cells: dict[tuple[str, str], Cell] = {}
    runs = list(_order(rows, list(interpreters), repeats))
    for number, (row, system) in enumerate(runs, start=1):
        before = cells.get((row.key, system), Cell())
        if not _worth_another(before):
            continue
        cell = _run(row, system, interpreters[system])
        cells[row.key, system] = Cell(
            measurements=before.measurements + cell.measurements,
            failures=before.failures + cell.failures,
            unsupported=cell.unsupported,
        )
        print(f"[{number}/{len(runs)}] {row.title}, {system}: {_said(row, cell)}", file=sys.stderr)
    return cells


def _order(rows: Sequence[Row], systems: Sequence[str], repeats: int) -> Iterator[tuple[Row, str]]:
    """Alternate systems, and turn their order round each time: nobody is always the first."""
    for repeat in range(repeats):
        for row in rows:
            for system in systems if repeat % 2 == 0 else reversed(systems):
                yield row, system


def _worth_another(cell: Cell) -> bool:
    """Decide against what cannot work, and what would only use up its time limit again."""
    return cell.unsupported is None and not any(
        reason.startswith("timed out") for reason in cell.failures
    )


def _run(row: Row, system: str, python: str) -> Cell:
    command = [python, "-m", f"benchmarks.{row.script}", "--system", system, "--json"]
    outcome = run_isolated([*command, *row.arguments], limit_s=row.limit_s, folder=ROOT)
    result = _last_object(outcome.stdout)
    if "unsupported" in result:
        return Cell(unsupported=result["unsupported"])
    if result:
        # Printed before the system was stopped: valid whatever happened later.
        return Cell(measurements=(Measurement.from_fields(result),))
    return Cell(failures=(_reason(outcome, row.limit_s),))


def _last_object(text: str) -> dict[str, Any]:
    """Find the script's line among what a system may have printed as well."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            return found
    return {}


def _reason(outcome: Outcome, limit_s: float) -> str:
    if outcome.code is None:
        return f"timed out after {limit_s:g} s{_place(outcome.stderr)}"
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    # The last line that is not indented is the exception of a traceback.
    said = lines[-1] if lines else "said nothing"
    return f"exit code {outcome.code}: {said[:REASON_LENGTH]}"


def _place(stderr: str) -> str:
    """Name the adapter's function in the stacks that a program wrote when its time was up."""
    found = re.search(r'benchmarks/systems/.*", line \d+ in (\w+)', stderr)
    return f" in {found[1]}()" if found else ""


def _said(row: Row, cell: Cell) -> str:
    if cell.value is not None:
        return format_quantity(cell.value, row.unit)
    return cell.unsupported or cell.failures[0]


def _to_json(cells: Mapping[tuple[str, str], Cell]) -> list[dict[str, Any]]:
    return [
        {"row": row, "system": system, "median": cell.value, **asdict(cell)}
        for (row, system), cell in cells.items()
    ]


def _output_of(arguments: argparse.Namespace) -> Path | None:
    """Give the file to write: part of a table replaces a whole one only when asked for."""
    if arguments.output is not None:
        return arguments.output
    whole = set(arguments.rows) == {row.key for row in ROWS} and set(arguments.systems) == set(
        SYSTEM_NAMES
    )
    return RESULTS if whole else None


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEM_NAMES, default=SYSTEM_NAMES, help="default: all"
    )
    keys = tuple(row.key for row in ROWS)
    parser.add_argument("--rows", nargs="+", choices=keys, default=keys, help="default: all")
    parser.add_argument("--repeats", type=int, default=3, help="fresh processes a cell (default 3)")
    parser.add_argument("--output", type=Path, help="file to write (default benchmarks/RESULTS.md)")
    parser.add_argument("--json", action="store_true", help="print data instead of the table")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
