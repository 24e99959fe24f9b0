"""An interpreter that has this Danaus, as a path that other programs can start."""

import os
import sys
from pathlib import Path

import danaus


def interpreter(folder: Path) -> Path:
    """A command that is Python with this Danaus, whatever environment it is started in."""
    source = Path(danaus.__file__).parents[1]
    made = folder / "python"
    paths = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    made.write_text(f'#!/bin/sh\nexec env PYTHONPATH="{paths}" "{sys.executable}" "$@"\n')
    made.chmod(0o755)
    return made
