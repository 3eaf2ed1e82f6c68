"""Work beside the threads that answer questions, which may all be waiting: probes and metrics.

Belongs here: threads of their own, sharing an outcome, waiting for it. Does not belong here: what they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from rag_serving.deadline import run_in_thread

MAX_THREADS = 256

Result = TypeVar("Result")


class BackgroundWork:
    """Runs work by its name; callers that ask for the same while it is under way share its outcome.

    Only the event loop's thread calls `run`.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, Future[Any]] = {}

    async def run(self, name: str, work: Callable[[], Result], wait_s: float) -> Result:
        """Return what the work gives, or raise its error.

        Raises:
            TimeoutError: it takes longer, or too much other work hangs.
        """
        outcome: Future[Result] | None = self._under_way.get(name)
        if outcome is None:
            if len(self._under_way) >= MAX_THREADS:
                raise TimeoutError
            outcome = self._under_way[name] = run_in_thread(work, name.split()[0])
            outcome.add_done_callback(lambda _: self._under_way.pop(name, None))
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(outcome)), wait_s)
