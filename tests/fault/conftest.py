"""Fixtures of the tests that kill, stop and starve."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import danaus.actor
from danaus.actor import MeshFailure
from danaus.testing import wait_until
from tests.fault.script import Script


class Faults(list[MeshFailure]):
    """Failures that nobody handled, in order."""

    def wait(self, count: int = 1) -> MeshFailure:
        """Wait until there are so many; returns the last of them."""
        wait_until(lambda: len(self) >= count, timeout=10, what=f"{count} unhandled failures")
        return self[count - 1]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Failures that nobody handles, which then do not end the test run."""
    seen = Faults()
    monkeypatch.setattr(danaus.actor, "unhandled_fault_hook", seen.append)
    return seen


@pytest.fixture
def script(tmp_path: Path) -> Generator[Callable[..., Script]]:
    """Runs a program as a client of its own; see `Script`."""
    started: list[Script] = []

    def start(text: str, *arguments: str, **options: object) -> Script:
        made = Script(tmp_path / f"script{len(started)}", text, *arguments, **options)  # type: ignore[arg-type]
        started.append(made)
        return made

    yield start
    for one in started:
        one.end()
