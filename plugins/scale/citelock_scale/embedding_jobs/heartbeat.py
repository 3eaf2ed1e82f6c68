"""A job's lease while a worker is at it: renewed in time, or known to be lost.

Belongs here: the thread that renews it. Does not belong here: what is done meanwhile (`worker`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.embedding_jobs.records import Claim
from rag_assets.embedding_usage import JobsError

BEATS_A_LEASE = 4

_log = logging.getLogger(__name__)


class Heartbeat:
    """Renews a job's lease, and the worker's own sign of life, until the block is left."""

    def __init__(self, queue: JobQueue, claim: Claim, sign: Callable[[], object]) -> None:
        """`sign`: gives the worker's own sign of life."""
        self._queue, self._claim, self._sign = queue, claim, sign
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.is_lost = False

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        pause_s = self._queue.settings.lease_s / BEATS_A_LEASE
        while not self._ended.wait(pause_s):
            try:
                if not self._queue.renew(self._claim):
                    self.is_lost = True
                    return
                self._sign()
            except JobsError as error:  # the next beat may be in time
                _log.warning("a lease could not be renewed: %s", error)
