"""The folders that a process writes: one lease for each, whichever of its threads are at it.

Belongs here: who of a process takes and ends a lease. Does not belong here: other machines (`leases`).
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from citelock_scale.object_home.leases import Lease
from citelock_scale.object_home.sending import send
from citelock_scale.object_home.shared_folder import SharedFolder
from rag_serving.shared_home import HeldError, ObjectHomeError

Begin = Callable[[str, float], tuple[SharedFolder, Lease]]
"""Takes the lease of a folder within so many seconds, and makes the folder what was shared last."""
Ended = Callable[[SharedFolder, Lease], None]
"""Called where somebody else took the lease, so that nothing was shared."""
_log = logging.getLogger(__name__)


@dataclass
class _Held:
    """Of one folder: `lock` is held while its lease is taken, and while what was written is sent."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    writers: int = 0
    is_told_to_end: bool = False
    begun: tuple[SharedFolder, Lease] | None = None


class Writing:
    """The right of this process to write folders. Safe to use from several threads."""

    def __init__(self, begin: Begin, lost: Ended) -> None:
        self._begin, self._lost = begin, lost
        self._lock, self._held = threading.Lock(), defaultdict[str, _Held](_Held)

    @contextmanager
    def of(self, name: str, wait_s: float) -> Iterator[None]:
        """Hold the right to write a folder; whoever enters while it is held joins, and the last one shares.

        What was done before an error is shared, too; what a process did that is told to end stays on this machine.

        Raises:
            HeldError: another machine writes there, or took over.
            ObjectHomeError: the store cannot be used; nothing is lost on this machine.
        """
        with self._lock:
            held = self._held[name]
        with held.lock:
            if not held.writers:
                held.begun, held.is_told_to_end = self._begin(name, wait_s), False
            held.writers += 1
        try:
            yield
        except Exception:
            self._end(held, is_failing=True)
            raise
        except BaseException:
            held.is_told_to_end = True
            self._end(held, is_failing=True)
            raise
        self._end(held, is_failing=False)

    def _end(self, held: _Held, is_failing: bool) -> None:
        with held.lock:
            held.writers -= 1
            if held.writers:
                return
            assert held.begun
            (folder, lease), held.begun = held.begun, None
            if held.is_told_to_end:
                let_go(lease)
                return
            try:
                self._share(folder, lease)
            except ObjectHomeError as error:
                if not is_failing:  # else the first error is the one to tell
                    raise
                _log.error("%s", error)

    def _share(self, folder: SharedFolder, lease: Lease) -> None:
        try:
            tree = send(folder, lease)
        except HeldError:
            let_go(lease)
            self._lost(folder, lease)
            raise
        except BaseException:
            let_go(lease)
            raise
        try:
            folder.sent(lease.release(tree))
        except HeldError:
            self._lost(folder, lease)
            raise


def let_go(lease: Lease) -> None:
    """End a lease with the tree as it was; where the store does not answer it ends by itself."""
    try:
        lease.release(lease.head.tree)
    except ObjectHomeError as error:
        _log.warning("%s", error)
