"""What the run runs on: versions, device names, loader settings, training strategy. Nothing is imported to find out."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any

from traceml_ai import _core

FRAMEWORKS = ("transformers", "accelerate", "lightning", "pytorch_lightning", "deepspeed")


def _version(module: str) -> str | None:
    version = getattr(sys.modules.get(module), "__version__", None)
    return None if version is None else str(version)


def _driver() -> str | None:
    """Version of the NVIDIA kernel driver, as the kernel says it: asking the library would initialise it."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            found = re.search(r"\s(\d{3,}(?:\.\d+)+)\s", file.read())
    except OSError:
        return None
    return found.group(1) if found else None


def _cores() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except OSError:
        return os.cpu_count()


def _gpu_names(torch: Any) -> list[str]:
    """Names of the GPUs, once PyTorch itself has initialised CUDA; before, asking would do it."""
    if not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def collect() -> dict[str, Any]:
    """Return what is known now; call again later for what becomes known late (GPU names, frameworks)."""
    found: dict[str, Any] = {
        "traceml": _core.__version__,
        "python": platform.python_version(),
        "host_cores": _cores(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        found["cuda"] = torch.version.cuda
        found["hip"] = getattr(torch.version, "hip", None)
        found["gpu_names"] = _gpu_names(torch)
    found["driver"] = _driver()
    for name in FRAMEWORKS:
        found[name] = _version(name)
    return {key: value for key, value in found.items() if value is not None}


def loader_settings(iterator: Any) -> dict[str, Any]:
    """Return the settings of the DataLoader behind one of its iterators, which keeps no reference to it."""
    sampler = getattr(iterator, "_index_sampler", None)
    return {
        "workers": getattr(iterator, "_num_workers", None),
        "pin_memory": getattr(iterator, "_pin_memory", None),
        "persistent_workers": getattr(iterator, "_persistent_workers", None),
        "prefetch_factor": getattr(iterator, "_prefetch_factor", None),
        "batch_size": getattr(sampler, "batch_size", None),
    }


def strategy_of(model: Any) -> str:
    """Return how the model is trained: ``DDP``, ``FSDP``, ``none``, or ``unknown``.

    ``unknown``: several ranks, but the module given to ``trace_step`` is the inner one and shows no wrapper.
    """
    parallel = sys.modules.get("torch.nn.parallel")
    if parallel is not None and isinstance(model, parallel.DistributedDataParallel):
        return "DDP"
    sharded = sys.modules.get("torch.distributed.fsdp")
    kinds = tuple(
        kind for kind in (getattr(sharded, name, None) for name in ("FullyShardedDataParallel", "FSDPModule")) if kind
    )
    if kinds and any(isinstance(module, kinds) for module in model.modules()):
        return "FSDP"
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return "unknown" if distributed.get_world_size() > 1 else "none"
    return "none"
