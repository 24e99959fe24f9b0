"""Round trip of one call: the value goes to an actor in another process, its echo comes back.

With ``--class-in-main`` the classes of the actor and of the value are defined in the running
script.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

from benchmarks.scenario import Options, Scenario, System, main, warm_up

__all__ = ["SCENARIO", "Token"]


class Token:
    """An argument whose class belongs to the running script, hence travels by value."""


def measure(system: System, options: Options) -> Generator[float, None, None]:
    """Give the seconds of each round trip."""
    with system.spawn(1) as actors:
        warm_up(actors)
        yield from actors.round_trips(options.repeat, Token() if options.class_in_main else 7)


SCENARIO = Scenario(name="call_one", unit="s", measure=measure, repeat=2000)

if __name__ == "__main__":
    sys.exit(main(SCENARIO))
