"""The peers' environments: one each below ``benchmarks/.peers``, made when it is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["PEER_REQUIREMENTS", "EnvironmentFailed", "python_of"]

FOLDER = Path(__file__).parent / ".peers"
INSTALL_LIMIT_S = 900
# What each environment gets; numpy carries the bulk argument.
PEER_REQUIREMENTS = {
    "monarch": ("torchmonarch==0.7.0", "numpy"),
    "ray": ("ray==2.60.*", "numpy"),
    "xoscar": ("xoscar==0.12.*", "numpy"),
}


class EnvironmentFailed(Exception):
    """Raised when a peer cannot be installed here; the text is one line and says why."""


def python_of(system: str) -> str:
    """Give the interpreter whose environment holds the system, installing a peer on first use.

    Raises:
        EnvironmentFailed: The peer cannot be installed, say without a network.
    """
    if system not in PEER_REQUIREMENTS:
        return sys.executable
    requirements = PEER_REQUIREMENTS[system]
    folder = FOLDER / system
    python = folder / "bin" / "python"
    # Written last, so that a half-made environment is made again.
    complete = folder / "complete.txt"
    wanted = "\n".join((sys.version, *requirements))
    if not (complete.exists() and complete.read_text() == wanted):
        print(f"installing {' '.join(requirements)} for {system} …", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        _run(system, [sys.executable, "-m", "venv", str(folder)])
        _run(system, [str(python), "-m", "pip", "install", "--quiet", *requirements])
        complete.write_text(wanted)
    return str(python)


def _run(system: str, command: list[str]) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=INSTALL_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"{system} was not installed within {INSTALL_LIMIT_S} s.") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("ERROR")]
        reason = (lines or error.stderr.splitlines() or [f"exit code {error.returncode}"])[-1]
        raise EnvironmentFailed(f"{system} cannot be installed here: {reason}") from error
