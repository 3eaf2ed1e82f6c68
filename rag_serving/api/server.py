"""The process, or the processes, that serve the API.

Belongs here: how many there are, what they hand on to each other, when they end. Does not belong here: routes (`app`),
what is counted (`siblings`).

Python runs one thread at a time, so one process does not use several cores for searching; processes do. They share the
listening socket, map the same files, follow the same pointer and record into the same database.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from rag_serving.app import create_app
from rag_serving.config import Config
from rag_serving.logs import log_to_stderr

_FOLDER = "CITELOCK_WORKERS_FOLDER"
_CONFIG = "config.json"
_QUIET: dict[str, Any] = {"log_level": "warning", "access_log": False, "log_config": None}


def serve(config: Config) -> None:
    """Serve until told to stop; a process that dies is started again.

    Raises:
        ConfigError: tokens are asked for, or a model, that cannot be used.
        SystemExit: the address cannot be listened on; the reason was logged.
    """
    serving = config.serving
    address: dict[str, Any] = {"host": serving.host, "port": serving.port}
    app = create_app(config)  # here, so that what cannot be served is told before any process starts
    if serving.workers == 1:
        uvicorn.Server(uvicorn.Config(app, **address, **_QUIET)).run()
        return
    with tempfile.TemporaryDirectory(prefix="citelock-", dir=_short_folder()) as folder:  # its owner's alone
        (Path(folder) / _CONFIG).write_text(config.model_dump_json(), "utf-8")
        os.environ[_FOLDER] = folder
        uvicorn.run(f"{__name__}:worker", factory=True, workers=serving.workers, **address, **_QUIET)


def worker() -> FastAPI:
    """The API in one of several processes, started by `serve`, with which it ends."""
    log_to_stderr()
    folder = Path(os.environ[_FOLDER])
    threading.Thread(target=_end_with_parent, args=(folder,), name="parent", daemon=True).start()
    return create_app(Config.model_validate_json((folder / _CONFIG).read_text("utf-8")), folder)


def _short_folder() -> str | None:
    """Where to make the processes' folder: the path of a Unix socket may have 104 characters, some of them ours."""
    return None if len(tempfile.gettempdir()) < 60 else "/tmp"


def _end_with_parent(folder: Path) -> None:
    """Else the processes of a server that was killed would hold its port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)
