"""Serving processes that are killed, one after the other.

Belongs here: the stage. Does not belong here: who starts them again (`rag_serving.api.processes`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from evals.load.stages import Place, Stage, workers_of

_EVERY_S = 4.0
_KILLS = 3


def processes_killed(of_both: bool) -> Callable[[Place], AbstractContextManager[Stage]]:
    """Return the stage of a server of two processes of which both are killed, or one and twice its successor."""

    @contextmanager
    def staged(place: Place) -> Iterator[Stage]:
        place.copy_home()
        config = place.config()
        with place.serving(config) as server:
            killed: list[int] = []

            def kill() -> None:
                chosen = workers_of(server) if of_both else workers_of(server)[-1:]
                for worker in chosen:
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                killed.extend(chosen)

            def kill_more() -> None:
                for _ in range(0 if of_both else _KILLS - 1):
                    time.sleep(_EVERY_S)
                    kill()

            def facts() -> dict[str, Any]:
                return {"processes_again": len(set(workers_of(server)) - set(killed)) == 2, "killed": len(killed)}

            yield Stage(server, place.installation(config), kill, lambda: None, kill_more, facts)

    return staged


@contextmanager
def worker_frozen(place: Place) -> Iterator[Stage]:
    """Let one of two processes not run for a while, as on a machine with too much to do; it goes on, and is not
    replaced."""
    place.copy_home()
    config = place.config()
    with place.serving(config) as server:
        workers = workers_of(server)

        def facts() -> dict[str, Any]:
            return {"processes_kept": workers_of(server) == workers}

        yield Stage(
            server, place.installation(config), lambda: os.kill(workers[0], signal.SIGSTOP),
            lambda: os.kill(workers[0], signal.SIGCONT), facts=facts,
        )  # fmt: skip
