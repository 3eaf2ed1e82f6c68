"""The process, or the processes, that serve the API. Python runs one thread at a time, so one process does not use
several cores for searching; processes do. They share the listening socket, map the same files, follow the same pointer
and record into the same database."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import multiprocess
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from rag_serving.api.app import create_app
from rag_serving.api.process import END_S, UNWIND_S, end_unacknowledged, fork_context, hear_signals
from rag_serving.api.reload import Changes, ConfigFile, beyond_switches, schedules_told
from rag_serving.api.service import Service
from rag_serving.config.index import where_home_is
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.config.serving import Serving
from rag_serving.privacy import log_to_stderr
from rag_serving.telemetry.metrics import forget_ended

_CONFIG, _METRICS, _LEAVES, _REFUSED = "config.json", "metrics", "leaves", "refused"
_REMOVALS = 20
MAX_HEADER_BYTES = 262_144

# Malformed requests cause uvicorn's warnings; one line each would fill the log.
_QUIET: dict[str, Any] = {"log_level": "error", "access_log": False, "log_config": None}


def serve(config: Config, path: Path) -> None:
    """Serve until a signal arrives; restart worker processes that die. `path`: the configuration's file, which a
    running server follows and rereads on SIGHUP. Raises ConfigError: the configured tokens or model cannot be used;
    SystemExit: binding the address failed; the reason was logged."""
    serving = config.serving
    if config.object_store.url:
        _log.warning("home: %s", where_home_is(config.object_store, config.home))
    address = uvicorn_settings(serving)
    app = create_app(config, file=ConfigFile(path, serving))  # here, so that errors come before any process starts
    if serving.workers == 1:
        on_hangup(app.state.reload.begin)
        _Server(uvicorn.Config(app, **address, **_QUIET)).run()
        return
    with tempfile.TemporaryDirectory(prefix="citelock-") as folder:  # its owner's alone
        (Path(folder) / _METRICS).mkdir()
        left = Configuration(Path(folder), path, config)
        answering = partial(worker, Path(folder), path)
        settings = uvicorn.Config(answering, factory=True, workers=serving.workers, **address, **_QUIET)
        replaced = partial(forget_ended, Path(folder) / _METRICS)
        leaves = (Path(folder) / _LEAVES).touch
        Processes(settings, left, replaced, leaves, serving.leave_s).run()


class _Server(uvicorn.Server):
    """uvicorn's server in this process, whose connections end where nobody acknowledges what is sent."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            end_unacknowledged(server.sockets, Serving.unread_s)


def uvicorn_settings(serving: Serving) -> dict[str, Any]:
    """Return uvicorn's settings, from the configuration. Of its parsers h11 alone bounds headers, and reads no request
    before the one before it is answered. uvloop accepts one connection each time round, so that a flood of them makes
    all wait."""
    return {
        "host": serving.host,
        "port": serving.port,
        "http": "h11",
        "loop": "asyncio",
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
        "timeout_keep_alive": serving.keep_alive_s,
        "timeout_worker_healthcheck": HANGS_S,
        "timeout_graceful_shutdown": serving.drain_s + UNWIND_S,
        "proxy_headers": bool(serving.trusted_proxies),
        "forwarded_allow_ips": serving.trusted_proxies,
    }


def worker(folder: Path, path: Path) -> FastAPI:
    """Return the API in one of several processes, started by `serve`, with which it ends."""
    log_to_stderr()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the first process replaces us
    hear_signals()
    threading.Thread(target=_end_with_parent, args=(folder,), name="parent", daemon=True).start()
    config = Config.model_validate_json((folder / _CONFIG).read_text("utf-8"))
    file = ConfigFile(path, config.serving, folder / _REFUSED)
    return create_app(config, folder / _METRICS, file, leaves=(folder / _LEAVES).exists)


class Configuration:
    """The configuration that the first process leaves for the others, as its file has it."""

    def __init__(self, folder: Path, path: Path, config: Config) -> None:
        self.file = ConfigFile(path, config.serving, folder / _REFUSED)
        self._folder, self._changes = folder, Changes(self.file)
        self._leave(config)

    def is_new(self) -> bool:
        """Return whether the file changed in more than switches, which the processes follow themselves; a file that
        cannot be used is none, which they say themselves."""
        if not self._changes.are_new():
            return False
        (self._folder / _REFUSED).unlink(missing_ok=True)
        try:
            config = self.file.kept(load_config(self.file.path), self._in_force.tenants)
        except ConfigError:
            return False
        return beyond_switches(config) != beyond_switches(self._in_force)

    def renew(self) -> bool:
        """Leave the configuration as its file has it now; False if it cannot be used."""
        try:
            config = self.file.load()
            Service.open(config).close()
            told = schedules_told(self._in_force, config)
            self._leave(config)
        except (ConfigError, OSError) as error:
            (self._folder / _REFUSED).write_text(str(error), "utf-8")
            _log.error("the configuration is not used: %s", error)
            return False
        (self._folder / _REFUSED).unlink(missing_ok=True)
        _log.warning("%s was read again; the processes are replaced one by one%s", self.file.path, told)
        return True

    def _leave(self, config: Config) -> None:
        new = self._folder / f".{_CONFIG}"
        new.write_text(config.model_dump_json(exclude_unset=True), "utf-8")  # settings override defaults
        new.replace(self._folder / _CONFIG)
        self._in_force = config


def _end_with_parent(folder: Path) -> None:
    """End with the parent; otherwise workers of a killed server would keep its port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        for _ in range(_REMOVALS):  # another process may just be making a file there
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
        os.kill(os.getpid(), signal.SIGTERM)


START_S = 120
"""Seconds that a process may take to start before the one that it replaces is kept."""
HANGS_S = 30
"""Seconds after which a process that does not react counts as hung. On a machine with too much to do, a process that
starts needs more than uvicorn's 5 s; killing it there leaves nobody who answers, and starts the next one in vain."""
_LATE_S = 2.0

_log = logging.getLogger(__name__)


def on_hangup(reload: Callable[[], object]) -> None:
    """Let SIGHUP call `reload`; if it says that this process's terminal was closed, end as by SIGTERM."""
    had_terminal = _has_terminal()

    def handle(*_: object) -> None:
        if had_terminal and not _has_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, handle)


class Processes(Multiprocess):
    """uvicorn's supervisor, which logs how a process ended, and replaces all where the configuration is another one."""

    def __init__(
        self,
        config: uvicorn.Config,
        configuration: Configuration,
        replaced: Callable[[], object],
        leaves: Callable[[], object],
        leave_s: float,
    ) -> None:
        """Bind the socket that the processes share. `replaced` is called after workers were replaced, `leaves` before
        all are ended, which then may take `leave_s` longer. Raises SystemExit: binding the address failed; the reason
        was logged."""
        multiprocess.get_subprocess = partial(_forked, fork_context())  # type: ignore[assignment, attr-defined]
        bound = config.bind_socket()
        end_unacknowledged([bound], Serving.unread_s)
        super().__init__(config, [bound])
        self._configuration, self._replaced, self._had_terminal = configuration, replaced, _has_terminal()
        self._leaves, self._leave_s = leaves, leave_s

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
        # One that dies during the check has not been waited for.
        waited = time.monotonic() - began >= self.config.timeout_worker_healthcheck
        for old, new in zip(before, self.processes, strict=True):
            if old is not new:
                how = "did not react and was killed" if waited and old not in dead else _ended(old.exitcode)
                _log.warning("process %s %s; process %s takes its place", old.pid, how, new.pid)
        if before != self.processes:
            self._replaced()


def _forked(
    context: ForkServerContext, config: uvicorn.Config, target: Callable[..., None], sockets: list[Any]
) -> BaseProcess:
    """Return a process where uvicorn would start a new interpreter."""
    return context.Process(target=_answer, args=(config, target, sockets))


def _answer(config: uvicorn.Config, target: Callable[..., None], sockets: list[Any]) -> None:
    config.configure_logging()
    target(sockets=sockets)


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
