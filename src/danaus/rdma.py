"""One-sided memory: buffers that other processes read and write by themselves."""

from danaus._buffer.action import RDMAAction
from danaus._buffer.buffer import RDMABuffer

__all__ = ["RDMAAction", "RDMABuffer"]
