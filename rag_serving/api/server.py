"""The process, or the processes, that serve the API.

Belongs here: how many there are, what they hand on to each other, when they end. Does not belong here: routes
(`api.app`), what is counted (`telemetry.metrics`), signals and replacing processes (`processes`).

Python runs one thread at a time, so one process does not use several cores for searching; processes do. They share the
listening socket, map the same files, follow the same pointer and record into the same database.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from rag_serving.api.app import create_app
from rag_serving.api.drain import UNWIND_S
from rag_serving.api.forks import hear_signals
from rag_serving.api.processes import HANGS_S, Processes, on_hangup
from rag_serving.api.reload import Changes, ConfigFile, beyond_switches, schedules_told
from rag_serving.api.service import Service
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.config.logging import log_to_stderr
from rag_serving.config.object_store import where_home_is
from rag_serving.config.serving import Serving
from rag_serving.telemetry.metrics import forget_ended

_CONFIG, _METRICS, _LEAVES, _REFUSED = "config.json", "metrics", "leaves", "refused"
_REMOVALS = 20
_CONNECTION = "rag_serving.api.connections:Connection"

_log = logging.getLogger(__name__)
_QUIET: dict[str, Any] = {"log_level": "warning", "access_log": False, "log_config": None}


def serve(config: Config, path: Path) -> None:
    """Serve until a signal ends it; a process that dies is started again.

    `path`: the file of the configuration, which a running server follows, and which SIGHUP reads again.

    Raises:
        ConfigError: tokens are asked for, or a model, that cannot be used.
        SystemExit: the address cannot be listened on; the reason was logged.
    """
    serving = config.serving
    if config.object_store.url:
        _log.warning("home: %s", where_home_is(config.object_store, config.home))
    address = uvicorn_settings(serving)
    app = create_app(config, file=ConfigFile(path, serving))  # here, so that errors come before any process starts
    if serving.workers == 1:
        on_hangup(app.state.reload.begin)
        uvicorn.Server(uvicorn.Config(app, **address, **_QUIET)).run()
        return
    with tempfile.TemporaryDirectory(prefix="citelock-") as folder:  # its owner's alone
        (Path(folder) / _METRICS).mkdir()
        left = _Configuration(Path(folder), path, config)
        answering = partial(worker, Path(folder), path)
        settings = uvicorn.Config(answering, factory=True, workers=serving.workers, **address, **_QUIET)
        replaced = partial(forget_ended, Path(folder) / _METRICS)
        leaves = (Path(folder) / _LEAVES).touch
        Processes.listening(settings, left, replaced, leaves, serving.leave_s).run()


def uvicorn_settings(serving: Serving) -> dict[str, Any]:
    """Return uvicorn's settings, from the configuration."""
    return {
        "host": serving.host,
        "port": serving.port,
        "http": _CONNECTION,
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


class _Configuration:
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
        """Leave the configuration as its file has it now; False where it cannot be used."""
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
        new.write_text(config.model_dump_json(exclude_unset=True), "utf-8")  # what is set stands over defaults
        new.replace(self._folder / _CONFIG)
        self._in_force = config


def _end_with_parent(folder: Path) -> None:
    """Else the processes of a server that was killed would hold its port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        for _ in range(_REMOVALS):  # another process may just be making a file there
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
        os.kill(os.getpid(), signal.SIGTERM)
