"""The processor that the local encoder runs on: a CUDA GPU if there is one that onnxruntime can use, else the CPU.

Belongs here: the choice, and what is said of it. Does not belong here: sessions (`local`), torch
(`flag_embedding`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Literal

from rag_serving.models.protocols import ModelError

Device = Literal["auto", "cpu", "cuda"]
CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
_GPU = Path("/dev/nvidiactl")

_log = logging.getLogger(__name__)


def chosen_provider(device: Device, offered: Collection[str]) -> str:
    """Return the execution provider for a device, of those that onnxruntime offers.

    Raises:
        ModelError: CUDA is demanded and not offered.
    """
    if device == "cpu" or (device == "auto" and CUDA not in offered):
        return CPU
    if CUDA not in offered:
        raise ModelError(
            "embedding.device is cuda, and onnxruntime offers no CUDAExecutionProvider here: install onnxruntime-gpu "
            "in the place of onnxruntime, or set embedding.device to cpu"
        )
    return CUDA


def refused(device: Device, reason: str) -> None:
    """Say that a GPU cannot be used; if it is demanded, raise ModelError.

    Raises:
        ModelError: see above.
    """
    if device == "cuda":
        raise ModelError(f"embedding.device is cuda, and CUDA cannot be used: {reason}; set embedding.device to cpu")
    _warn_once(f"passages are embedded on the CPU, because CUDA cannot be used: {reason}")


def note_unused_gpu(device: Device, provider: str) -> None:
    """Warn once where this machine has a GPU that onnxruntime was not built for."""
    if device == "auto" and provider == CPU and _GPU.exists():
        _warn_once("this machine has an NVIDIA GPU that is not used: put onnxruntime-gpu in the place of onnxruntime")


@cache
def _warn_once(line: str) -> None:
    _log.warning("%s", line)
