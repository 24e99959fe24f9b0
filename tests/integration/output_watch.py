"""How tests of output let procs speak, and see what becomes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TextIO, cast

from danaus._runtime.process import runtime
from danaus.actor import ProcMesh, this_host
from tests.integration.output_actors import Speaker


def speakers(count: int = 1, name: str | None = None) -> tuple[ProcMesh, Speaker]:
    procs = this_host().spawn_procs(per_host={"gpus": count}, name=name)
    return procs, procs.spawn("speakers", Speaker)


def written(state: Path) -> bytes:
    """The whole output of the one proc that there was."""
    (path,) = state.glob("*/*.log")
    return path.read_bytes()


class Screen:
    """A standard stream that tells when some text was written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""
        self._changed = threading.Condition()

    def write(self, text: str) -> int:
        with self._changed:
            self.text += text
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False

    def wait_for(self, pattern: str, timeout: float = 20) -> bool:
        with self._changed:
            return (
                self._changed.wait_for(lambda: re.search(pattern, self.text), timeout) is not None
            )


@contextmanager
def watched_stdout() -> Generator[Screen]:
    screen = Screen()
    with redirect_stdout(cast("TextIO", screen)):
        yield screen


PROLOGUE = """
from danaus.actor import this_host
from tests.integration.output_actors import Speaker
"""


def run_program(body: str) -> subprocess.CompletedProcess[str]:
    """Run a script of its own that uses `Speaker`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        env=env,
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
    )


def frames_of_agents() -> int:
    """How many frames this client has had from agents."""
    return sum(link.frames_in for link in runtime().routes.agents.values())
