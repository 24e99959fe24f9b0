"""Names that are made by the caller: unique without asking anybody."""

from __future__ import annotations

import os

__all__ = ["fresh_name", "unique"]

_LETTERS = "0123456789abcdefghijkmnpqrstuvwx"
"""32 signs that are not mistaken for each other."""


def unique(length: int = 12) -> str:
    """A random name of 5 bits a sign; 60 bits by default."""
    return "".join(_LETTERS[byte & 31] for byte in os.urandom(length))


def fresh_name(base: str) -> str:
    """``base`` with a random end: readable and unique."""
    return f"{base}-{unique()}"
