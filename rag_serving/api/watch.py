"""Looking for changes, every so often, in a thread of its own.

Belongs here: when to look. Does not belong here: what is looked at (whoever gives the looks), what follows from it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

EVERY_S = 0.5

_log = logging.getLogger(__name__)


class Watch:
    """Calls some functions in turn until it is closed; each must return at once. One that fails does not stop it."""

    def __init__(self, looks: Sequence[Callable[[], object]], every_s: float = EVERY_S) -> None:
        self._looks = looks
        self._every_s = every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop looking; the last look has ended when this returns."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            for look in self._looks:
                try:
                    look()
                except Exception as error:  # the next look may go well
                    _log.error("looking for changes failed: %s: %s", type(error).__name__, error)
            self._closed.wait(self._every_s)
