"""What `import danaus.actor` does to a fresh interpreter: nothing but define names."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# -B: the interpreter's own folders for bytecode are no act of the import.
# A look at the end misses what was opened and closed again in between; the audit hook sees it.
PROBE = """
import json, logging, os, signal, sys, threading

def look():
    return {
        "fds": sorted(os.listdir("/dev/fd")),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "signal handlers": {s.name: repr(signal.getsignal(s)) for s in signal.Signals},
        "environment": dict(os.environ),
        "log handlers": repr(logging.getLogger().handlers),
        "working directory": os.getcwd(),
        "umask": os.umask(os.umask(0o077)),
    }

ACTS = ("socket.", "subprocess.", "os.fork", "os.posix_spawn", "os.exec", "os.system",
        "_thread.start", "signal.pthread", "os.putenv", "os.mkdir", "os.remove", "shutil.", "ctypes.dlopen")
acts = []
before, modules = look(), set(sys.modules)
sys.addaudithook(lambda event, args: acts.append(event) if event.startswith(ACTS) else None)
import danaus.actor
seen = list(acts)
after = look()
json.dump({
    "acts": seen,
    "changes": {name: [before[name], after[name]] for name in before if before[name] != after[name]},
    "modules": sorted(set(sys.modules) - modules),
}, sys.stdout)
"""

HEAVY = {"asyncio", "cloudpickle", "multiprocessing", "numpy", "ssl", "torch", "uvloop"}


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", PROBE], capture_output=True, text=True, check=False
    )
    if done.returncode or done.stderr:
        pytest.fail(done.stderr, pytrace=False)
    return json.loads(done.stdout)


def test_import_opens_no_socket_and_starts_nothing(seen: dict[str, Any]):
    assert seen["acts"] == []


def test_import_leaves_descriptors_threads_signals_and_environment_as_they_were(
    seen: dict[str, Any],
):
    assert seen["changes"] == {}


def test_import_loads_no_heavy_library(seen: dict[str, Any]):
    packages = {name.partition(".")[0] for name in seen["modules"]}

    assert packages & HEAVY == set()
