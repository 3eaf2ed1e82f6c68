"""Work apart from the pool of threads that questions are answered in: probes and metrics, which come when all of those
threads may be waiting.

Belongs here: threads of their own, waiting for them no longer than whoever asks. Does not belong here: what they do.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

MAX_THREADS = 256

Result = TypeVar("Result")


class Apart:
    """Runs work by its name; who asks for the same while it is under way shares its outcome."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Any]] = {}

    async def run(self, name: str, work: Callable[[], Result], wait_s: float) -> Result:
        """Return what the work gives, or raise its error.

        Raises:
            TimeoutError: it takes longer, or too much other work hangs.
        """
        outcome: Future[Result] = self._begun(name, work)
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(outcome)), wait_s)

    def _begun(self, name: str, work: Callable[[], Result]) -> Future[Result]:
        with self._lock:
            if known := self._under_way.get(name):
                return known
            if len(self._under_way) >= MAX_THREADS:
                raise TimeoutError
            outcome = self._under_way[name] = Future()
        threading.Thread(target=self._run, args=(name, work, outcome), name=name.split()[0], daemon=True).start()
        return outcome

    def _run(self, name: str, work: Callable[[], Result], outcome: Future[Result]) -> None:
        try:
            result = work()
        except BaseException as error:  # it belongs to whoever waits
            self._end(name)
            outcome.set_exception(error)
        else:
            self._end(name)
            outcome.set_result(result)

    def _end(self, name: str) -> None:
        with self._lock:
            del self._under_way[name]
