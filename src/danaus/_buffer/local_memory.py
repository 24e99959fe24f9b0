"""Where a buffer lies in this process: any contiguous buffer object, array or tensor."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

__all__ = ["LocalMemory"]


class _Buffer(ctypes.Structure):
    """CPython's ``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_SIMPLE = 0
_python = ctypes.PyDLL(None)  # not `ctypes.pythonapi`: others declare its functions otherwise
_get = _python.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release = _python.PyBuffer_Release
_release.argtypes = (ctypes.POINTER(_Buffer),)


class LocalMemory:
    """Memory of this process, held as long as this object lives.

    Args:
        data: A contiguous buffer object, numpy array, or torch tensor on the CPU, of any shape and
            type.

    Attributes:
        address: Where it begins.
        nbytes: Its size.
        readonly: Whether it may only be read.

    Raises:
        ValueError: It is not contiguous.
        TypeError: It is no buffer, or a tensor that is not on the CPU.
    """

    __slots__ = ("_buffer", "_data", "address", "nbytes", "readonly")

    def __init__(self, data: Any) -> None:
        self._data = data
        self._buffer: _Buffer | None = None
        if _is_tensor(data):
            self._hold_tensor(data)
        else:
            self._hold_buffer(data)

    def _hold_tensor(self, tensor: Any) -> None:
        if tensor.device.type != "cpu":
            raise TypeError(
                f"a tensor on {tensor.device} cannot be reached yet; copy it to the CPU first"
            )
        if not tensor.is_contiguous():
            raise ValueError(
                f"the tensor is not contiguous (shape {tuple(tensor.shape)}, strides "
                f"{tensor.stride()}); use .contiguous(), which copies it"
            )
        self.address: int = tensor.data_ptr()
        self.nbytes: int = tensor.numel() * tensor.element_size()
        self.readonly = False

    def _hold_buffer(self, data: Any) -> None:
        buffer = _Buffer()
        try:
            _get(data, ctypes.byref(buffer), _SIMPLE)
        except (BufferError, ValueError) as error:
            raise ValueError(f"the memory of {_name(data)} is not contiguous: {error}") from None
        except TypeError:
            raise TypeError(
                f"{_name(data)} is no memory: expected a contiguous buffer (bytearray, memoryview, "
                "array), a numpy array, or a torch tensor"
            ) from None
        self._buffer = buffer
        self.address = buffer.buf or 0
        self.nbytes = buffer.len
        self.readonly = bool(buffer.readonly)

    def __del__(self) -> None:
        buffer = getattr(self, "_buffer", None)
        if buffer is not None:
            self._buffer = None
            _release(ctypes.byref(buffer))

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Some of it, as bytes of this process."""
        kind = ctypes.c_char * nbytes
        return memoryview(kind.from_address(self.address + offset)).cast("B")


def _is_tensor(data: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def _name(data: Any) -> str:
    return f"a {type(data).__module__}.{type(data).__qualname__}".replace("builtins.", "")
