"""The process that the processes of a server are forked from.

Belongs here: what it imports, when it starts. Does not belong here: the processes (`server`), what they serve
(`server`).

It imports what they need while the first process does the same on another core. A process that is started, or that
takes another one's place, then imports nothing, and shares the memory of what was imported.
"""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

_IMPORTED = ("rag_serving.api.server", "onnxruntime")
_ENDING = frozenset({signal.SIGTERM, signal.SIGHUP})


def fork_context() -> ForkServerContext:
    """Return the fork server's context, starting the server if needed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_IMPORTED])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def hear_signals() -> None:
    """Unblock the ending signals in a forked process; its parent blocks them.

    systemd and a closed terminal signal all processes. The fork server must outlive the others, because it reports
    their exits to the first process. It ends with the first process.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
