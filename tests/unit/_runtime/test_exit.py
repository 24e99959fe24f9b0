"""The end of the interpreter, as the user sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from danaus._runtime import process


def test_ctrl_c_at_the_end_ends_the_wait_for_hosts_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L1."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    ending: Any = SimpleNamespace(closed=False, exit_hooks=[interrupted])
    monkeypatch.setattr(process, "_runtime", ending)

    process._at_exit()
