"""The bulk argument: how it is made and how its arrival is shown."""

from __future__ import annotations

from typing import Any

__all__ = ["PAGE_BYTES", "make_payload", "sum_of_pages"]

PAGE_BYTES = 4096


def make_payload(nbytes: int, kind: str) -> Any:
    """Make ``nbytes`` of data, as a numpy array (``kind="array"``) or as ``bytes``."""
    if kind == "bytes":
        return bytes(range(256)) * (nbytes // 256)
    import numpy as np

    return np.resize(np.arange(251, dtype=np.uint8), nbytes)


def sum_of_pages(payload: Any) -> int:
    """Add one byte of each page, which touches all the memory at next to no cost of its own."""
    pages = payload[::PAGE_BYTES]
    return sum(pages) if isinstance(pages, bytes) else int(pages.sum(dtype="int64"))
