"""A proxy between two programs of this machine that hands bytes on, late, or not at all."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Mode = Literal["", "slow", "failing", "reset", "swallow"]
"""slow: bytes of answers come `DELAY_S` late; failing: each request is answered with 503; reset: connections are cut
(RST); swallow: connections are accepted, and nothing ever comes back."""

DELAY_S = 1.0
_BODY = b"<Error><Code>SlowDown</Code></Error>"
_FAILURE = b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_BODY), _BODY)
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class TcpProxy:
    """Listens on a port of its own until `close`; `mode` may be changed at any time and applies to open connections."""

    def __init__(self, target: int) -> None:
        self.mode: Mode = ""
        self._target, self._ended = target, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def turn(self, mode: Mode) -> None:
        """Let another fault, or none, apply from now on."""
        self.mode = mode

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake `accept`
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError):
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self.mode == "reset":
                return self._reset(client)
            with socket.create_connection(("127.0.0.1", self._target), timeout=30) as server:
                self._pump(client, server)
        return None

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on until one side ends, or a fault ends both."""
        swallowed = False
        while not self._ended.is_set():
            readable, _, _ = select.select([client, server], [], [], 0.05)
            if self.mode == "reset":
                return self._reset(client)
            if swallowed and self.mode != "swallow":
                return self._reset(client)  # what was lost does not come again
            for source in readable:
                data = source.recv(65_536)
                if not data:
                    return None
                if self.mode == "failing" and source is client:
                    client.sendall(_FAILURE)
                    return None
                if self.mode == "swallow":
                    swallowed = True
                    continue
                if self.mode == "slow" and source is server:
                    time.sleep(DELAY_S)
                (server if source is client else client).sendall(data)
        return None

    def _reset(self, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


@contextmanager
def tcp_proxy(target: int) -> Iterator[TcpProxy]:
    """Yield a proxy before a port of this machine."""
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
