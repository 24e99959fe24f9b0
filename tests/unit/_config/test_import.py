from __future__ import annotations

import subprocess
import sys

import pytest

# What the package must not load: each costs milliseconds in every process that is started.
HEAVY = ("dataclasses", "difflib", "enum", "pathlib", "re", "threading", "tomllib", "typing")

SCRIPT = """
import sys
before = set(sys.modules)
import danaus._config
danaus._config.get("tail_log_lines")
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    # Without site-packages, whose start-up hooks load modules of their own.
    script = f"import sys; sys.path[:0] = {sys.path!r}\n{SCRIPT}"
    run = [sys.executable, "-I", "-S", "-c", script]
    finished = subprocess.run(
        run, capture_output=True, text=True, check=True, timeout=20, env={"DANAUS_CONFIG": ""}
    )
    return set(finished.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_importing_and_reading_the_configuration_loads_no_heavy_module(
    loaded: set[str], module: str
) -> None:
    assert module not in loaded


def test_the_configuration_loads_nothing_of_danaus_but_itself(loaded: set[str]) -> None:
    ours = {name for name in loaded if name.startswith("danaus")}

    assert {name for name in ours if not name.startswith("danaus._config")} == {"danaus"}
