"""A program that is a client of its own, and that a test watches, signals and kills."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

from danaus.testing import find_leaks, snapshot

__all__ = ["ROOT", "Script"]

ROOT = Path(__file__).parents[2]

INTERRUPTED = (-signal.SIGINT, 130)
"""Exit codes of a program that Ctrl-C ended: the signal itself, which shells show as 130."""


class Script:
    """One run of a program.

    Args:
        folder: Where its file goes, and what it writes to stderr.
        text: The program; it is dedented.
        arguments: Its arguments.
        env: Variables beside those of the test; None removes one.
        limit: Open files that it and what it starts may have; 0 for as many as the test.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        limit: int = 0,
    ) -> None:
        folder.mkdir()
        path = folder / "client.py"
        path.write_text(textwrap.dedent(text))
        self._errors = folder / "stderr"
        environment = {**os.environ, "PYTHONPATH": self._path(), "PYTHONUNBUFFERED": "1"}
        environment |= {k: v for k, v in (env or {}).items() if v is not None}
        for name in (name for name, value in (env or {}).items() if value is None):
            environment.pop(name, None)
        self._before = snapshot()
        shell = ["bash", "-c", f'ulimit -n {limit} && exec "$@"', "-"] if limit else []
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*shell, sys.executable, str(path), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        self._rest = b""

    @staticmethod
    def _path() -> str:
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        return os.pathsep.join([*filter(None, inherited), str(ROOT)])

    @property
    def stderr(self) -> str:
        """What it has written to stderr."""
        return self._errors.read_text(errors="replace")

    def line(self, timeout: float = 20) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise AssertionError(f"no line within {timeout} s; its stderr:\n{self.stderr}")
            data = os.read(descriptor, 65536)
            if not data:
                raise AssertionError(f"it ended without the line; its stderr:\n{self.stderr}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def rest(self, timeout: float = 30) -> str:
        """Wait for its end; everything that it printed and that `line` has not given."""
        data, _ = self.process.communicate(timeout=timeout)
        return (self._rest + data).decode()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Wait for its end, at most so many seconds; returns the exit code."""
        return self.process.wait(timeout)

    def assert_nothing_left(self, within: float = 5) -> None:
        """Fail if a process or a file of it is there after so many seconds."""
        leaks = find_leaks(self._before, ignore=("fds", "threads"), grace=within)
        leaks.kill()
        assert not leaks, f"{leaks}\nits stderr:\n{self.stderr}"

    def end(self) -> None:
        """Kill it if it runs, and let go of its pipe."""
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process.wait()
