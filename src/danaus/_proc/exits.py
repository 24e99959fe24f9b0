"""How a process ended, named for people."""

from __future__ import annotations

import os
import signal
from typing import Any

__all__ = ["NOT_STARTED", "describe_exit", "oom_kills"]

NOT_STARTED = 126
"""Exit code of a proc that could not be started, as shells have it."""


def describe_exit(status: int, *, oom: bool = False) -> dict[str, Any]:
    """Name a wait status.

    Returns:
        ``exit`` (signal name, or "exit code N"), ``code`` (None for a signal), ``text`` (a clause
        such as "it ended with exit code 3").
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        text = f"Killed(sig={number}): it was killed by {name}"
        if oom:
            text += "; the kernel reports that its memory limit was reached (out of memory)"
        elif name == "SIGKILL":
            text += "; if nobody sent it, the machine may have run out of memory"
        return {"exit": name, "code": None, "text": text}
    code = os.waitstatus_to_exitcode(status)
    text = f"it ended with exit code {code}"
    if code == NOT_STARTED:
        text += " (it could not be started)"
    return {"exit": f"exit code {code}", "code": code, "text": text}


def oom_kills() -> int:
    """How many processes of this control group the kernel killed for want of memory so far."""
    try:
        with open("/proc/self/cgroup") as file:
            line = next(line for line in file if line.startswith("0::"))
        with open(f"/sys/fs/cgroup{line[3:].strip()}/memory.events") as file:
            return sum(int(row.split()[1]) for row in file if row.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
