"""Servers on a real socket of this machine, for tests in which the wire matters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import Any, TypeVar

import uvicorn

Server = TypeVar("Server", bound=BaseServer)


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """The server while a thread of its own serves; it is closed at the end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running(app: Any, port: int = 0, **more: Any) -> Iterator[str]:
    """The app's address while it runs; it is shut down as by a signal. `more`: of uvicorn's settings."""
    quiet = {"log_config": None, "log_level": "warning", "timeout_graceful_shutdown": 10}
    server = uvicorn.Server(uvicorn.Config(app, **{**quiet, **more, "host": "127.0.0.1", "port": port}))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server did not start in time"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
