"""How torch tensors travel: as views on out-of-band buffers, loaded to the CPU.

Imported only when the process has imported torch itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

__all__ = ["reducers"]


def reducers() -> dict[type, Callable[[Any], Any]]:
    """Dispatch table for the pickler: tensors and parameters."""
    import torch

    return {torch.Tensor: _reduce_tensor, torch.nn.Parameter: _reduce_parameter}


def _reduce_tensor(tensor: Any) -> Any:
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized or tensor.dtype.is_complex:
        return tensor.__reduce_ex__(5)
    flat = tensor.detach().to("cpu").contiguous()
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    raw = flat.reshape(-1).view(torch.uint8).numpy() if flat.numel() else b""
    return (
        _rebuild,
        (pickle.PickleBuffer(raw), str(flat.dtype), tuple(flat.shape), tensor.requires_grad),
    )


def _reduce_parameter(parameter: Any) -> Any:
    return (_rebuild_parameter, (parameter.data, parameter.requires_grad))


def _rebuild(raw: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:  # noqa: FBT001
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."))
    view = memoryview(raw)
    if not view.nbytes:
        tensor = torch.empty(shape, dtype=kind)
    else:
        writable = bytearray(view) if view.readonly else view
        tensor = torch.frombuffer(writable, dtype=torch.uint8).view(kind).reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_parameter(data: Any, requires_grad: bool) -> Any:  # noqa: FBT001
    import torch

    return torch.nn.Parameter(data, requires_grad)
