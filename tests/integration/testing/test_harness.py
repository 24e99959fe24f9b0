"""The test harness itself, run by pytest on small test files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the project's harness and settings, and no tests yet."""
    tests = tmp_path / "tests"
    for folder in ("unit", "integration"):
        tests.joinpath(folder).mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", tests)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tests


def run(suite: Path, body: str, *arguments: str, folder: str = "unit", **environment: str) -> str:
    """Run ``body`` as a test module of a folder; return what pytest printed."""
    suite.joinpath(folder, "test_it.py").write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--leak-grace=0.3", *arguments],
        cwd=suite.parent,
        env={**os.environ, "DANAUS_CI": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


LEAK_OF_A_PROCESS = """
import subprocess

def test_it():
    subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
"""

LEAK_OF_A_DESCRIPTOR = """
import os
import pytest

{marker}
def test_it():
    os.dup(1)
"""

NEEDS_WHAT_IS_NOT_THERE = """
import pytest

@pytest.mark.{marker}
def test_it():
    raise AssertionError("it ran")
"""


def test_test_that_leaves_processes_fails_and_they_are_ended(suite: Path):
    output = run(suite, LEAK_OF_A_PROCESS, "-W", "ignore::ResourceWarning")

    assert "1 passed, 1 error" in output
    assert "left behind:\n  process" in output
    assert "the run as a whole" not in output


def test_leaks_marker_with_a_reason_forgives_its_kind(suite: Path):
    marker = '@pytest.mark.leaks("fds", reason="shows the marker")'

    assert "1 error" in run(suite, LEAK_OF_A_DESCRIPTOR.format(marker=""))
    assert "1 passed in" in run(suite, LEAK_OF_A_DESCRIPTOR.format(marker=marker))


def test_leaks_marker_without_a_reason_is_refused(suite: Path):
    output = run(suite, LEAK_OF_A_DESCRIPTOR.format(marker='@pytest.mark.leaks("fds")'))

    assert "the leaks marker is @pytest.mark.leaks(" in output


def test_runtime_of_the_client_is_stopped_before_leaks_are_looked_for(suite: Path):
    body = """
import os, sys, types

def test_it():
    ends = os.pipe()

    class Stopped:
        def get(self, timeout):
            for end in ends:
                os.close(end)

    sys.modules["danaus.actor"] = types.SimpleNamespace(shutdown_context=Stopped)
"""

    assert "1 passed in" in run(suite, body, folder="integration")


def test_event_loop_of_an_async_test_is_no_leak(suite: Path):
    body = "import asyncio\n\nasync def test_it():\n    await asyncio.to_thread(int)\n"

    assert "1 passed in" in run(suite, body)


def test_missing_capability_skips_the_test_and_says_what_is_missing(suite: Path):
    output = run(suite, NEEDS_WHAT_IS_NOT_THERE.format(marker="needs_macos"), DANAUS_CI="1")

    assert "1 skipped" in output
    assert f"needs_macos: runs on {sys.platform}, not macOS" in output


def test_skip_is_a_failure_in_ci(suite: Path):
    body = "import pytest\n\ndef test_it():\n    pytest.skip('the disk is small')\n"

    assert "1 skipped in" in run(suite, body)
    output = run(suite, body, DANAUS_CI="1")

    assert "1 failed in" in output
    assert "skipped, which CI does not allow: Skipped: the disk is small" in output


def test_hanging_test_fails_with_the_stacks_of_all_threads(suite: Path):
    body = """
import threading
import pytest

@pytest.mark.timeout(0.5)
def test_it():
    wait_in_another_thread = threading.Event().wait
    threading.Thread(target=wait_in_another_thread, name="the other", daemon=True).start()
    threading.Event().wait()
"""
    output = run(suite, body)

    assert "Timeout (>0.5s)" in output
    assert "Stack of the other" in output


def test_seed_repeats_an_order_of_tests(suite: Path):
    body = "".join(f"def test_{number}():\n    pass\n\n\n" for number in range(8))

    def order(seed: int) -> list[str]:
        output = run(suite, body, "-v", f"--order-seed={seed}")
        return [line.split()[0] for line in output.splitlines() if " PASSED" in line]

    assert len(order(1)) == 8
    assert order(1) == order(1) != order(2)
