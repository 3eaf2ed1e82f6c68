"""The first process of a server of several: replaces those that died, and all of them for another configuration, or on
SIGHUP.

Belongs here: what SIGHUP means, how a process ended. Does not belong here: what a process serves (`server`).
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Protocol

import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from rag_serving.api.drain import END_S
from rag_serving.api.forks import fork_context

START_S = 120
"""Seconds that a process may take to start before the one that it replaces is kept."""
HANGS_S = 30
"""Seconds after which a process that does not react counts as hung. On a machine with too much to do, a process that
starts needs more than uvicorn's 5 s; killing it there leaves nobody who answers, and starts the next one in vain."""
_LATE_S = 2.0

_log = logging.getLogger(__name__)


def on_hangup(reload: Callable[[], object]) -> None:
    """Let SIGHUP call `reload`; where it says that this process's terminal was closed, end as by SIGTERM."""
    had_terminal = _has_terminal()

    def handle(*_: object) -> None:
        if had_terminal and not _has_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, handle)


class Configuration(Protocol):
    """What the processes serve by."""

    def is_new(self) -> bool:
        """Return whether it changed, so that processes are to be replaced."""
        ...

    def renew(self) -> bool:
        """Leave it for processes that start from now on; False where it cannot be used."""
        ...


class Processes(Multiprocess):
    """uvicorn's supervisor, which logs how a process ended, and replaces all where the configuration is another one."""

    _configuration: Configuration
    _replaced: Callable[[], object]
    _leaves: Callable[[], object]
    _had_terminal: bool
    _leave_s: float

    @classmethod
    def listening(
        cls,
        config: uvicorn.Config,
        configuration: Configuration,
        replaced: Callable[[], object],
        leaves: Callable[[], object],
        leave_s: float,
    ) -> Processes:
        """Return the supervisor of processes that share the socket which is bound here; `replaced` is called when some
        were, `leaves` before all are told to end, for which they may take `leave_s` longer.

        Raises:
            SystemExit: the address cannot be listened on; the reason was logged.
        """
        _subprocess.spawn = fork_context()  # type: ignore[assignment]  # where uvicorn starts new interpreters
        made = cls(config, [config.bind_socket()])
        made._configuration, made._replaced, made._had_terminal = configuration, replaced, _has_terminal()
        made._leaves, made._leave_s = leaves, leave_s
        return made

    def handle_term(self) -> None:
        self._leaves()
        super().handle_term()

    def handle_hup(self) -> None:
        if self._had_terminal and not _has_terminal():
            self.should_exit.set()
        else:
            self._renew()

    def _renew(self) -> None:
        """Replace the processes one by one, where the configuration as it is now can be used."""
        if self._configuration.renew():
            patience_s = self.config.timeout_worker_healthcheck
            self.config.timeout_worker_healthcheck = START_S  # uvicorn gives successors as long as a ping, 5 s
            try:
                super().handle_hup()
            finally:
                self.config.timeout_worker_healthcheck = patience_s
            self._replaced()

    def join_all(self) -> None:
        """Wait for the processes, which end by themselves within their bound; kill one that does not."""
        patience_s = self._leave_s + (self.config.timeout_graceful_shutdown or 0) + END_S + _LATE_S
        until = time.monotonic() + patience_s
        for process in self.processes:
            process.process.join(max(0.0, until - time.monotonic()))
            if process.process.is_alive():
                _log.error("process %s does not end and is killed", process.pid)
                process.process.kill()
                process.process.join()

    def keep_subprocess_alive(self) -> None:
        if self._configuration.is_new():
            self._renew()
        before: list[Process] = list(self.processes)
        for process in before:
            process.child_conn.close()  # its own end; while ours is open, asking a process that dies waits in vain
        dead = {process for process in before if not process.process.is_alive()}
        began = time.monotonic()
        super().keep_subprocess_alive()
        # One that dies while it is asked whether it lives has not been waited for.
        waited = time.monotonic() - began >= self.config.timeout_worker_healthcheck
        for old, new in zip(before, self.processes, strict=True):
            if old is not new:
                how = "did not react and was killed" if waited and old not in dead else _ended(old.exitcode)
                _log.warning("process %s %s; process %s takes its place", old.pid, how, new.pid)
        if before != self.processes:
            self._replaced()


def _ended(exit_code: int | None) -> str:
    """Return how a process ended, by its exit code: minus a signal's number where that killed it."""
    if exit_code is None or exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    why = " (by hand, or because the machine had no memory left)" if name == "SIGKILL" else ""
    return f"was killed by {name}{why}"


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal; one that was closed is none any more."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
