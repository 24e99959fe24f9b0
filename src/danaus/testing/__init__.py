"""How to test programs made of actors: time, order and leaks under the test's control.

Public, and used by the tests of Danaus itself. Nothing here is imported by the runtime.
"""

from danaus.testing.clock import (
    Timer,
    VirtualClock,
    VirtualEventLoop,
    run_virtual,
    wait_all_blocked,
)
from danaus.testing.leaks import (
    LeakError,
    Leaks,
    Snapshot,
    find_leaks,
    leak_check,
    mark_offspring,
    snapshot,
)
from danaus.testing.sequencer import Gate, Sequencer, SequencerBroken, wait_until

__all__ = [
    "Gate",
    "LeakError",
    "Leaks",
    "Sequencer",
    "SequencerBroken",
    "Snapshot",
    "Timer",
    "VirtualClock",
    "VirtualEventLoop",
    "find_leaks",
    "leak_check",
    "mark_offspring",
    "run_virtual",
    "snapshot",
    "wait_all_blocked",
    "wait_until",
]
