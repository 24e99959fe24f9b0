"""Descriptors 0 to 2 of a process that was started without them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("closed", [[0], [1, 2], [0, 1, 2]])
def test_what_is_closed_of_the_standard_streams_leads_nowhere(closed: list[int]) -> None:
    program = (
        "import os, sys\n"
        "from danaus._net.descriptors import occupy_standard\n"
        f"for fd in {closed}: os.close(fd)\n"
        "occupy_standard()\n"
        "null = os.stat(os.devnull)\n"
        f"same = [os.path.samestat(os.fstat(fd), null) for fd in {closed}]\n"
        "least = os.open('/', os.O_RDONLY)\n"
        "os._exit(0 if all(same) and least > 2 else 1)\n"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
