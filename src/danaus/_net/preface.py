"""The first bytes of a connection to an agent: what it wants.

On a Unix socket: `PREFACE`, the length of the wish (u32), and the wish, a msgpack list. The kernel
says who connects. On TCP a code precedes the wish, which only holders of the job key can compute:
so whoever does not have it is closed before anybody does work for it, TLS included.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._wire.kinds import PREFACE

if TYPE_CHECKING:
    from danaus._net.job_key import JobKey

__all__ = ["HEAD", "MAX_BODY", "encode_local", "encode_remote", "open_remote", "size_of_body"]

HEAD = len(PREFACE) + 4
"""Bytes before the body."""

MAX_BODY = 4096
"""Bytes of the longest body."""

_NONCE = 16
_CODE = 32

_encode = msgspec.msgpack.Encoder().encode


def encode_local(wish: list[Any]) -> bytes:
    """The preface of a connection to a Unix socket."""
    return _framed(_encode(wish))


def encode_remote(wish: list[Any], key: JobKey) -> bytes:
    """The preface of a TCP connection."""
    signed = os.urandom(_NONCE) + _encode(wish)
    return _framed(key.code(signed) + signed)


def _framed(body: bytes) -> bytes:
    if len(body) > MAX_BODY:
        raise ValueError(f"a preface of {len(body)} bytes; at most {MAX_BODY} are taken")
    return PREFACE + struct.pack("<I", len(body)) + body


def size_of_body(head: bytes) -> int:
    """Bytes of the body that follows; 0 where ``head`` begins no preface."""
    if not head.startswith(PREFACE):
        return 0
    (size,) = struct.unpack("<I", head[len(PREFACE) : HEAD])
    return size if size <= MAX_BODY else 0


def open_remote(body: bytes, key: JobKey) -> bytes | None:
    """The wish of a TCP connection; None when whoever sent it does not hold the key."""
    signed = body[_CODE:]
    if len(signed) <= _NONCE or not key.fits(body[:_CODE], signed):
        return None
    return signed[_NONCE:]
