"""Processes of a test's own: forked from one that has imported the product, so that their life is work, not imports."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from support import command_line

PRELOADED = [
    "rag_assets.build.command",
    "rag_assets.definitions",
    "chromadb",
    "datasketch",
    "matplotlib.figure",
    "onnxruntime",
]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)


def forked(target: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Return a started process that runs a function of a module in `tests/`."""
    process = _CONTEXT.Process(target=target, args=arguments)
    process.start()
    return process


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the command `citelock` in a process of its own; its exit code, standard output and standard error."""
    receiving, sending = _CONTEXT.Pipe(duplex=False)
    process = forked(_run, sending, dict(os.environ), arguments)
    sending.close()
    with receiving:
        told: tuple[int, str, str] = receiving.recv()
    process.join()
    return told


def _run(sending: Any, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sending.send(command_line.run(*arguments))
