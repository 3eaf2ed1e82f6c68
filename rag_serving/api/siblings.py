"""The processes of one server, which ask each other what they counted.

Belongs here: the sockets between them. Does not belong here: what they tell (`monitoring`), starting them (`server`).

Each listens on a Unix socket in a folder that only their owner may enter; whoever is asked for metrics asks all.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from rag_serving.api.monitoring import Reading

PATIENCE_S = 2.0

_log = logging.getLogger(__name__)


class Siblings:
    """This process among those of its server: `readings` of all of them, itself included."""

    def __init__(
        self, folder: Path, read: Callable[[str], Reading], name: str | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        """Listen in `folder`, by a name of its own; `read` tells what this process counted for a tenant."""
        self._folder, self._read, self._patience_s = folder, read, patience_s
        self._address = folder / f"{name or os.getpid()}.socket"
        self._listener = Listener(str(self._address), "AF_UNIX", backlog=16)
        threading.Thread(target=self._answer, name="siblings", daemon=True).start()

    def readings(self, tenant: str) -> list[Reading]:
        """Return what each process tells; one that died, or does not answer in time, is left out."""
        others = [address for address in self._folder.glob("*.socket") if address != self._address]
        found = [self._ask(address, tenant) for address in sorted(others)]
        return [self._read(tenant), *(reading for reading in found if reading)]

    def close(self) -> None:
        self._listener.close()  # removes its socket, so that nobody asks any more

    def _ask(self, address: Path, tenant: str) -> Reading | None:
        try:
            with Client(str(address), "AF_UNIX") as connection:
                connection.send(tenant)
                if connection.poll(self._patience_s):
                    reading: Reading = connection.recv()
                    return reading
            _log.warning("process %s did not tell its figures in time", address.stem)
        except ConnectionRefusedError:
            address.unlink(missing_ok=True)  # what a process left that was killed
        except (OSError, EOFError):
            _log.info("process %s is ending", address.stem)
        return None

    def _answer(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._tell, args=(connection,), name="sibling", daemon=True).start()

    def _tell(self, connection: Connection) -> None:
        with connection:
            try:
                connection.send(self._read(connection.recv()))
            except (OSError, EOFError):
                _log.info("a process asked for figures and went away")
