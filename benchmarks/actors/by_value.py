"""Puts an actor class into ``__main__``, as if the running script had defined it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

__all__ = ["load_into_main"]


def load_into_main(module_name: str) -> Any:
    """Run one of the modules beside this one a second time as a part of ``__main__``.

    Returns:
        Its ``Probe``, which no other process can import now; it has to travel by value.
    """
    source = Path(str(importlib.import_module(module_name).__file__))
    main = sys.modules["__main__"]
    exec(compile(source.read_text(), str(source), "exec"), main.__dict__)
    return main.__dict__["Probe"]
