"""The facts of this machine that figures depend on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["describe_machine"]


def describe_machine() -> dict[str, str]:
    """Give facts by name; none of them tells who or where the machine is."""
    load = os.getloadavg()[0]
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load average at the start": f"{load:.2f}",
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
