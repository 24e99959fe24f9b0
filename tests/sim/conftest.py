"""Many machines on a simulated network, under many seeds.

`--sim-seed=N` repeats one seed; DANAUS_SIM_SEEDS sets another number of seeds than the usual 1,000.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> Sequence[int]:
    seed = pytestconfig.getoption("--sim-seed")
    if seed is not None:
        return [seed]
    return range(int(os.environ.get("DANAUS_SIM_SEEDS", "1000")))
