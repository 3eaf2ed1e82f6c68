"""A balancer of TCP connections on loopback: each goes to the next address in turn, whoever asks."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Balancer:
    """Passes connections on in turn. `ports` may be changed while it runs, as an orchestrator does."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self._turn = 0
        self._lock = threading.Lock()
        balancer = self

        class Pass(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError), balancer._next() as there:
                    back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
                    back.start()
                    _copy(self.request, there)
                    back.join()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Pass, bind_and_activate=True)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _next(self) -> socket.socket:
        with self._lock:
            self._turn += 1
            ports = [*self.ports]
            turn = self._turn
        for place in range(len(ports)):
            with suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", ports[(turn + place) % len(ports)]))
        raise ConnectionRefusedError("no address takes a connection")

    @contextmanager
    def running(self) -> Iterator[Balancer]:
        """Pass connections on while the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65_536):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
