"""Processes that tests kill: forked from one that has imported the product, so that their life is work, not imports."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

PRELOADED = [
    "rag_assets.build.command",
    "rag_assets.definitions",
    "chromadb",
    "matplotlib.figure",
    "onnxruntime",
    "onnx",
]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)


def forked(target: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Return a started process that runs a function of a module in `tests/`."""
    process = _CONTEXT.Process(target=target, args=arguments)
    process.start()
    return process
