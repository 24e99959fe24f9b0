"""What one script measured: its statistics, its line for people and its JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Measurement", "Unit", "format_quantity", "percentile"]

Unit = Literal["s", "/s", "GB/s"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The distribution of one quantity of one system, measured in one process.

    ``unit`` is ``"s"`` (seconds, less is better), ``"/s"`` or ``"GB/s"`` (more is better).
    """

    benchmark: str
    system: str
    version: str
    unit: Unit
    median: float
    p10: float
    p90: float
    n: int

    @classmethod
    def of(
        cls, samples: Sequence[float], *, benchmark: str, system: str, version: str, unit: Unit
    ) -> Measurement:
        """Summarise samples; raises ValueError when there is none."""
        if not samples:
            raise ValueError(f"benchmark {benchmark!r} on {system!r} gave no sample.")
        ordered = sorted(samples)
        return cls(
            benchmark=benchmark,
            system=system,
            version=version,
            unit=unit,
            median=statistics.median(ordered),
            p10=percentile(ordered, 0.1),
            p90=percentile(ordered, 0.9),
            n=len(ordered),
        )

    def to_line(self) -> str:
        """Render for people: the median first."""
        median, p10, p90 = (
            format_quantity(value, self.unit) for value in (self.median, self.p10, self.p90)
        )
        return (
            f"{self.benchmark} on {self.system} {self.version}: "
            f"{median} (p10 {p10}, p90 {p90}, n={self.n})"
        )

    def to_json(self) -> str:
        """Render as one line of JSON, quantities in the base unit."""
        return json.dumps(asdict(self))

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Measurement:
        """Build from the object that ``to_json`` wrote."""
        return cls(**fields)


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Give the value below which ``fraction`` of the sorted values lie (nearest rank)."""
    return ordered[round(fraction * (len(ordered) - 1))]


def format_quantity(value: float, unit: Unit) -> str:
    """Write a quantity with three significant digits and a readable unit.

    Example:
        >>> format_quantity(0.0000321, "s")
        '32.1 µs'
        >>> format_quantity(43210.0, "/s")
        '43,200 /s'
    """
    if unit != "s":
        return f"{_three_digits(value)} {unit}"
    if value < 0.9995e-3:
        return f"{_three_digits(value * 1e6)} µs"
    if value < 0.9995:
        return f"{_three_digits(value * 1e3)} ms"
    return f"{_three_digits(value)} s"


def _three_digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    if rounded >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.1f}" if rounded >= 10 else f"{rounded:.2f}"
