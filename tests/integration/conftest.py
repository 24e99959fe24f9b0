"""Fixtures of the tests with real processes."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

import danaus.actor
from danaus.actor import MeshFailure
from danaus.config import configured


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of the procs' output go."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "danaus" / "logs"


@pytest.fixture
def long_window() -> Generator[None]:
    """Lines of several ranks wait for each other as long as it takes on a busy machine."""
    with configured(log_aggregate_window="60s"):
        yield


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[MeshFailure]:
    """Failures that nobody handles, which then do not end the test run."""
    seen: list[MeshFailure] = []
    monkeypatch.setattr(danaus.actor, "unhandled_fault_hook", seen.append)
    return seen
