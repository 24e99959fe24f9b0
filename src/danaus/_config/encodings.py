"""Which names of message encodings does the compatible interface know?"""

from __future__ import annotations

from enum import Enum

__all__ = ["Encoding"]


class Encoding(Enum):
    """Encoding of a message, the value of the key ``default_encoding``.

    Accepted for compatibility: Danaus has one encoding, pickle with its buffers apart, which is
    what ``Multipart`` names.
    """

    Bincode = "Bincode"
    Json = "Json"
    Multipart = "Multipart"
