"""Device: where a model's work goes, found without waking CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def raw_stream() -> Callable[[int], int] | None:
    """Return PyTorch's function from a device index to its current ``cudaStream_t``; None where events cannot be used.

    None on builds without CUDA and on ROCm, whose streams are not CUDA's. The first call of what is returned creates a
    context, so the extension calls it only once a model has a parameter on that device.
    """
    if torch.version.cuda is None or getattr(torch.version, "hip", None):
        return None
    return getattr(torch._C, "_cuda_getCurrentRawStream", None)


def find_parameter(model: Any) -> Any:
    """Return the model's first CUDA parameter, else its first parameter, else None.

    A fake tensor says that it is on a device that may not exist; as long as PyTorch has not initialised CUDA, no
    parameter is on one.
    """
    first = None
    for parameter in model.parameters():
        if parameter.is_cuda and torch.cuda.is_initialized() and type(parameter).__name__ != "FakeTensor":
            return parameter
        if first is None and not parameter.is_cuda:
            first = parameter
    return first
