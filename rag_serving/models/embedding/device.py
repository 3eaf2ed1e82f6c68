"""The processor that the local encoder runs on: a CUDA GPU if there is one that onnxruntime can use, else the CPU."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag_serving.models.protocols import ModelError


def prompts_digest(query_prompt: str, document_prompt: str) -> str:
    """Return the suffix that prompts give a model's name, empty without prompts: other prompts make other vectors."""
    if not query_prompt and not document_prompt:
        return ""
    return "+" + hashlib.sha256(f"{query_prompt}\0{document_prompt}".encode()).hexdigest()[:12]


_IDS, _MASK = "input_ids", "attention_mask"
TENSOR_CORES = 8  # what they read at once


def padded(
    batch: Sequence[Mapping[str, Sequence[int]]], pad_id: int, multiple: int = 1, left: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Return each column of a tokenizer's output as an array [texts, longest], by default padded on the right.
    `multiple`: the longest is rounded up to one. Padding has `pad_id` as its id and 0 in other columns."""
    lengths = np.array([len(tokens[_IDS]) for tokens in batch])
    width = -(-int(lengths.max()) // multiple) * multiple
    places = np.arange(width)
    kept = places >= width - lengths[:, None] if left else places < lengths[:, None]
    columns: dict[str, NDArray[np.int64]] = {}
    for name in batch[0]:
        if name == _MASK:
            columns[name] = kept.astype(np.int64)
            continue
        columns[name] = np.full((len(batch), width), pad_id if name == _IDS else 0)
        columns[name][kept] = np.concatenate([np.asarray(tokens[name], np.int64) for tokens in batch])
    return columns


CPU_TOKENS = 1024  # beyond this a batch only costs memory
GPU_TOKENS = 65_536


def batch_slices(lengths: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[slice]:
    """Yield slices of texts that are sorted by their lengths, the longest first. A batch is padded to its first text's
    length. It has at most `most_texts` texts and `most_tokens` tokens; a text that is longer is a batch of its own."""
    start = 0
    while start < len(lengths):
        fitting = max(1, min(most_texts, most_tokens // max(1, lengths[start])))
        yield slice(start, start + fitting)
        start += fitting


Device = Literal["auto", "cpu", "cuda"]
CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
_GPU = Path("/dev/nvidiactl")

_log = logging.getLogger(__name__)


def chosen_provider(device: Device, offered: Collection[str]) -> str:
    """Return the execution provider for a device, of those there. Raises ModelError: CUDA is demanded and missing."""
    if device == "cpu" or (device == "auto" and CUDA not in offered):
        return CPU
    if CUDA not in offered:
        raise ModelError(
            "embedding.device is cuda, and onnxruntime offers no CUDAExecutionProvider here: install onnxruntime-gpu "
            "in the place of onnxruntime, or set embedding.device to cpu"
        )
    return CUDA


def refused(device: Device, reason: str) -> None:
    """Say that a GPU cannot be used; if it is demanded, raise ModelError. Raises ModelError: see above."""
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
