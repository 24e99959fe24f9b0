"""A measured program can neither hang the table nor leave a daemon behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import isolated

ROOT = Path(isolated.__file__).parent.parent

# In a process of its own, because adopting orphans changes the process for good.
PROGRAM = """
import os, sys
from pathlib import Path
from benchmarks.isolated import adopt_orphans, run_isolated

adopt_orphans()
outcome = run_isolated([sys.executable, "-c", sys.argv[1]], limit_s=0.5, folder=Path.cwd())
daemon = int(outcome.stdout)
print(outcome.code, os.path.exists(f"/proc/{daemon}"))
"""

HANG_WITH_DAEMON = """
import signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                       start_new_session=True).pid, flush=True)
threading.Event().wait()
"""


def test_hanging_program_is_ended_with_its_daemons_at_its_time_limit():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, HANG_WITH_DAEMON],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )

    assert done.stdout.split() == ["None", "False"]
