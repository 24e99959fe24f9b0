"""Bytes to values and back: frames and the payload codec. No I/O."""
