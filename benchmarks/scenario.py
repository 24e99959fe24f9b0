"""What the scripts have in common: options, bringing a system up, printing the result.

A script is a `Scenario` and a call of `main`. It writes exactly one line to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from benchmarks.isolated import WHERE_SIGNAL
from benchmarks.measurement import Measurement, Unit
from benchmarks.systems import SYSTEM_NAMES, load_system
from benchmarks.systems.interface import Actors, System, Unsupported

__all__ = ["Options", "Scenario", "System", "main", "warm_up"]

# A slow system is asked for fewer samples: none is begun after this many seconds.
ENOUGH_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run was asked for; a field that a scenario has no use for is ignored."""

    repeat: int
    """Samples to take."""
    procs: int
    """Processes to use."""
    payload: str
    """``"array"`` (numpy) or ``"bytes"``."""
    class_in_main: bool
    """Whether the actor's class is defined in ``__main__``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing to measure.

    ``measure`` yields samples in ``unit``. The system is started before, unless ``start`` is false.
    """

    name: str
    unit: Unit
    measure: Callable[[System, Options], Generator[float, None, None]]
    repeat: int
    procs: int = 1
    start: bool = True


def warm_up(actors: Actors, calls: int = 200) -> None:
    """Make calls until lazy set-up, caches and frequency scaling are behind us."""
    for value in range(calls):
        actors.call_one(value)


def main(scenario: Scenario, argv: Sequence[str] | None = None) -> int:
    """Run a script; the exit code is 0 also where the system does not offer the feature."""
    arguments = _parse(scenario, argv)
    # Whoever ends a run that takes too long can ask first where it stands.
    faulthandler.register(WHERE_SIGNAL)
    try:
        system = load_system(arguments.system)
    except ImportError as error:
        print(f"system {arguments.system!r} is not in this environment: {error}.", file=sys.stderr)
        return 2
    try:
        measurement = _run(scenario, system, arguments)
    except Unsupported as reason:
        print(json.dumps({"unsupported": str(reason)}) if arguments.json else f"- {reason}")
        return 0
    # Before the system is brought down: should that hang, the result is not lost.
    print(measurement.to_json() if arguments.json else measurement.to_line(), flush=True)
    if scenario.start:
        system.stop()
    return 0


def _run(scenario: Scenario, system: System, arguments: argparse.Namespace) -> Measurement:
    options = Options(
        repeat=arguments.repeat,
        procs=arguments.procs,
        payload=arguments.payload,
        class_in_main=arguments.class_in_main,
    )
    if options.class_in_main:
        system.use_class_of_main()
    if scenario.start:
        system.start()
    return Measurement.of(
        _take_samples(scenario.measure(system, options)),
        benchmark=scenario.name,
        system=system.name,
        version=system.version,
        unit=scenario.unit,
    )


def _take_samples(samples: Generator[float, None, None]) -> list[float]:
    taken: list[float] = []
    began = time.monotonic()
    with contextlib.closing(samples):
        for sample in samples:
            taken.append(sample)
            if time.monotonic() - began > ENOUGH_S:
                break
    return taken


def _parse(scenario: Scenario, argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{scenario.name}",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--system", choices=SYSTEM_NAMES, default="danaus", help="what to measure")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeat", type=_count, default=scenario.repeat, help="samples to take")
    parser.add_argument("--procs", type=_count, default=scenario.procs, help="processes to use")
    parser.add_argument(
        "--payload", choices=("array", "bytes"), default="array", help="type of a bulk argument"
    )
    parser.add_argument(
        "--class-in-main",
        action="store_true",
        help="define the actor's class in __main__, so that it travels by value",
    )
    return parser.parse_args(argv)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, not {count}")
    return count
