"""The comparison's arithmetic and its rendering, with made-up figures."""

from __future__ import annotations

import pytest

from benchmarks.measurement import Measurement, Unit, format_quantity
from benchmarks.report import failure_lines, render_results
from benchmarks.rows import ROWS, Row
from benchmarks.table import Cell, budget_text, ratio, render_spread, render_table, verdict

DURATION = Row(key="trip", title="round trip", script="call_one", budget=80e-6)
RATE = Row(key="rate", title="pipelined", script="pipelined", unit="/s", budget=40_000)
UNBOUNDED = Row(key="import", title="import", script="import_time")


def measured(system: str, median: float, unit: Unit = "s") -> Measurement:
    return Measurement.of([median], benchmark="x", system=system, version="1.0", unit=unit)


def cell(system: str, *medians: float, unit: Unit = "s") -> Cell:
    return Cell(measurements=tuple(measured(system, median, unit) for median in medians))


def columns(table: str, line: int) -> list[str]:
    return [text.strip() for text in table.splitlines()[line].strip("|").split("|")]


def test_measurement_summarises_its_samples():
    samples = [float(value) for value in range(101)]

    summary = Measurement.of(samples, benchmark="x", system="ray", version="2", unit="s")

    assert (summary.median, summary.p10, summary.p90, summary.n) == (50.0, 10.0, 90.0, 101)


def test_measurement_without_samples_is_refused():
    with pytest.raises(ValueError, match="'x' on 'ray' gave no sample"):
        Measurement.of([], benchmark="x", system="ray", version="2", unit="s")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0000321, "s", "32.1 µs"),
        (0.00099949, "s", "999 µs"),
        (0.0009996, "s", "1.00 ms"),
        (0.5, "s", "500 ms"),
        (9.987, "s", "9.99 s"),
        (43_210.0, "/s", "43,200 /s"),
        (17.04, "GB/s", "17.0 GB/s"),
    ],
)
def test_quantity_is_written_with_three_digits(value: float, unit: Unit, text: str):
    assert format_quantity(value, unit) == text


def test_ratio_is_above_one_when_danaus_takes_less_time():
    assert ratio(DURATION, 50e-6, 500e-6) == pytest.approx(10)


def test_ratio_is_above_one_when_danaus_has_the_higher_rate():
    assert ratio(RATE, 80_000, 8_000) == pytest.approx(10)


@pytest.mark.parametrize(
    ("row", "value", "expected"),
    [
        (DURATION, 80e-6, "met"),
        (DURATION, 81e-6, "missed"),
        (RATE, 40_000, "met"),
        (RATE, 39_999, "missed"),
        (DURATION, None, "missed"),
        (UNBOUNDED, 1.0, "-"),
    ],
)
def test_verdict_compares_with_the_bound(row: Row, value: float | None, expected: str):
    assert verdict(row, value) == expected


def test_budget_is_an_upper_bound_of_durations_and_a_lower_bound_of_rates():
    assert (budget_text(DURATION), budget_text(RATE)) == ("≤ 80.0 µs", "≥ 40,000 /s")


def test_cell_takes_the_median_of_its_runs():
    assert cell("danaus", 1.0, 9.0, 2.0).value == 2.0


def test_table_shows_value_bound_verdict_ratio_and_floor():
    cells = {
        ("trip", "danaus"): cell("danaus", 50e-6),
        ("trip", "ray"): cell("ray", 600e-6),
        ("trip", "bare"): cell("bare", 25e-6),
    }

    table = render_table([DURATION], ["danaus", "ray", "bare"], cells)

    assert columns(table, 0) == ["work", "danaus", "to reach", "budget", "ray", "floor"]
    assert columns(table, 2) == [
        *("round trip", "50.0 µs", "≤ 80.0 µs", "met", "600 µs (12x)", "25.0 µs"),
    ]


def test_table_lines_are_of_equal_length():
    cells = {("rate", "danaus"): cell("danaus", 90_000, unit="/s")}

    lines = render_table([DURATION, RATE], ["danaus", "ray"], cells).splitlines()

    assert len({len(line) for line in lines}) == 1


def test_failure_is_shown_as_such_and_misses_the_budget():
    cells = {("trip", "danaus"): Cell(failures=("timed out after 60 s",))}

    table = render_table([DURATION], ["danaus"], cells)

    assert columns(table, 2)[1:4] == ["failed", "≤ 80.0 µs", "missed"]


def test_some_failed_runs_are_counted_beside_the_value():
    cells = {
        ("trip", "danaus"): cell("danaus", 50e-6),
        ("trip", "ray"): Cell(measurements=(measured("ray", 100e-6),), failures=("exit code 1",)),
    }

    table = render_table([DURATION], ["danaus", "ray"], cells)

    assert columns(table, 2)[4] == "100 µs (2x), 1 failed"


def test_peer_has_no_ratio_when_danaus_has_no_value():
    table = render_table([DURATION], ["danaus", "ray"], {("trip", "ray"): cell("ray", 600e-6)})

    assert columns(table, 2)[4] == "600 µs"


def test_budget_is_not_judged_when_danaus_did_not_run():
    table = render_table([DURATION], ["ray"], {("trip", "ray"): cell("ray", 600e-6)})

    assert columns(table, 2)[3] == "-"


def test_spread_shows_extreme_runs_of_each_system():
    spread = render_spread([DURATION], ["ray"], {("trip", "ray"): cell("ray", 3e-6, 1e-6, 2e-6)})

    assert columns(spread, 2)[1:4] == ["ray", "1.00 µs", "3.00 µs"]


def test_equal_failures_are_listed_once_with_their_number():
    cells = {("trip", "ray"): Cell(failures=("exit code 1", "exit code 1"))}

    assert failure_lines([DURATION], ["ray"], cells) == ["round trip, ray, 2 run(s): exit code 1"]


def test_results_name_date_machine_versions_and_failures():
    cells = {
        ("trip", "danaus"): cell("danaus", 50e-6),
        ("trip", "ray"): Cell(failures=("timed out after 60 s",)),
    }

    text = render_results(
        rows=[DURATION],
        systems=["danaus", "ray"],
        cells=cells,
        facts={"cores": "2"},
        date="2026-12-01",
        command="python -m benchmarks",
    )

    for part in ("date: 2026-12-01", "cores: 2", "danaus: 1.0", "ray, 1 run(s): timed out"):
        assert part in text


def test_rows_have_distinct_keys():
    assert len({row.key for row in ROWS}) == len(ROWS)
