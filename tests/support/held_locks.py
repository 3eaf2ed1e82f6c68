"""Locks of folders that another process has."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rag_assets.state.locks import exclusive

_FORK = multiprocessing.get_context("fork")  # a process whose life is a lock imports nothing


@contextmanager
def held_by_another_process(
    folder: Path, lock: Callable[[Path], AbstractContextManager[None]] = exclusive
) -> Iterator[BaseProcess]:
    receiving, sending = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_hold, args=(lock(folder), sending))
    process.start()
    sending.close()
    assert receiving.recv() == "held"
    try:
        yield process
    finally:
        process.kill()
        process.join()


def has_ended(process: BaseProcess) -> bool:
    process.join(10)
    return process.exitcode is not None


def _hold(lock: AbstractContextManager[None], sending: Any) -> None:
    with lock:
        sending.send("held")
        signal.pause()
