"""A running server and its configuration file: switches that are followed, everything else read anew on request.

Belongs here: when the file is read again, what becomes of a bad edit, exchanging one service for another.
Does not belong here: what a service is made of (`service`), signals and processes (`server`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rag_serving.api.auth import check_address
from rag_serving.api.service import Service
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.config.serving import Serving

RETIRED_S = 300.0
"""Seconds after which a service that was exchanged is closed: longer than any question takes."""

_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int] | None


class State(Protocol):
    """Where requests find the service."""

    service: Service


@dataclass(frozen=True)
class ConfigFile:
    """The file that a server was started with; where it listens, by how many processes, and whether for MCP as well,
    stays as it is."""

    path: Path
    serving: Serving

    def load(self) -> Config:
        """Return the configuration as the file and the environment have it now.

        Raises:
            ConfigError: it cannot be used.
        """
        config = load_config(self.path)
        kept = {name: getattr(self.serving, name) for name in ("host", "port", "workers", "mcp")}
        config = config.model_copy(update={"serving": config.serving.model_copy(update=kept)})
        check_address(config.serving)
        return config

    def stamp(self) -> _Stamp:
        """Return what changes whenever the file does; None where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class Switches:
    """Follows of the configuration file, the tenants' own too, the section `features`, and of `retrieval` `enabled`,
    `phase` and `canary`. A file that cannot be used changes nothing."""

    def __init__(self, file: ConfigFile, service: Callable[[], Service]) -> None:
        self._file, self._service = file, service
        self._seen: _Stamp = None
        self._read: _Stamp = None

    def look(self) -> None:
        """Take over the switches of a file that changed, once it stays the same from one look to the next."""
        stamp = self._file.stamp()
        if stamp != self._seen:  # whoever writes may not be done
            self._seen = stamp
        elif stamp != self._read:
            self._read = stamp
            self._take_over()

    def _take_over(self) -> None:
        service = self._service()
        try:
            config = self._file.load()
            if service.pipelines and service.pipelines.keys().isdisjoint(config.tenants):
                raise ConfigError(f"{self._file.path} has none of the tenants that are served")
        except ConfigError as error:
            _log.error("the configuration that was changed is not used: %s", error)
            return
        for line in service.switch(config):
            _log.warning("%s", line)


class Reload:
    """Reads the configuration again and serves by it. What is asked meanwhile is answered by the old one."""

    def __init__(self, state: State, file: ConfigFile, retired_s: float = RETIRED_S) -> None:
        self._state, self._file, self._retired_s = state, file, retired_s
        self._lock = threading.Lock()  # one reload at a time
        self._retired: list[Service] = []

    def begin(self) -> None:
        """Reload in a thread."""
        threading.Thread(target=self.now, name="reload", daemon=True).start()

    def now(self) -> None:
        """Reload; where the configuration cannot be used, the old one stays and a line says why."""
        with self._lock:
            old = self._state.service
            try:
                service = Service.open(self._file.load(), like=old)
                service.fetch()
                service.warm()
            except ConfigError as error:
                _log.error("the configuration is not used: %s", error)
                return
            self._state.service = service
            self._retired.append(old)
        timer = threading.Timer(self._retired_s, self._close, (old,))
        timer.daemon = True
        timer.start()
        _log.warning("%s was read again and is in force", self._file.path)

    def close(self) -> None:
        """Close what was exchanged and may still have been in use."""
        for service in tuple(self._retired):
            self._close(service)

    def _close(self, service: Service) -> None:
        with self._lock:
            if service not in self._retired:
                return
            self._retired.remove(service)
        service.close()
