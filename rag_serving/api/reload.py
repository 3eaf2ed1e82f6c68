"""A running server and its configuration file, which it follows: switches at once, the rest by another service."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_serving.api.auth import check_address
from rag_serving.api.service import Service
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.config.serving import Serving

RETIRED_S = 300.0
"""Seconds after which a service that was exchanged is closed: longer than any question takes."""
NOT_USED = "the configuration file cannot be used; the one before is in force, and the server's log says why"
_AT_START = ("host", "port", "workers", "mcp")

_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class ConfigFile:
    """The file that a server was started with; where it listens, by how many processes, and whether for MCP as well,
    stays as it is. `refused`: where the first process of several says why it does not use the file; None: there is one
    process."""

    path: Path
    serving: Serving
    refused: Path | None = None

    def load(self) -> Config:
        """Return the configuration as file and environment have it now. Raises ConfigError: it cannot be used."""
        return self.kept(load_config(self.path))

    def kept(self, config: Config, served: Collection[str] = ()) -> Config:
        """Return a configuration with the unchanged parts kept. `served`: the current tenants. Raises ConfigError: it
        has none of these, as a file that is still being written, or cannot be used here."""
        if served and config.tenants.keys().isdisjoint(served):
            raise ConfigError(f"{self.path} has none of the tenants that are served")
        kept = {name: getattr(self.serving, name) for name in _AT_START}
        config = config.model_copy(update={"serving": config.serving.model_copy(update=kept)})
        check_address(config.serving)
        return config

    def stamp(self) -> _Stamp:
        """Return a value that changes whenever the file does; None without a file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class Changes:
    """Tells of each change of a configuration file once, when the file stays the same from one look to the next:
    whoever writes may not be done."""

    def __init__(self, file: ConfigFile) -> None:
        self._file = file
        self._seen: _Stamp = None
        self._read: _Stamp = None

    def are_new(self) -> bool:
        """Return whether the file is to be read; true once at the beginning."""
        stamp, before = self._file.stamp(), self._seen
        self._seen = stamp
        if stamp != before or stamp == self._read:
            return False
        self._read = stamp
        return True


class Reload:
    """Follow the configuration file, and reread it on request. Meanwhile the old service answers; an unusable file
    changes nothing. `problem` is why it is not used, `waiting` the changes that need a restart."""

    def __init__(self, state: Any, file: ConfigFile, exchanges: bool = True) -> None:
        """`state`: its `service` is the current one; `exchanges`: False if this process is one of several, which the
        first one replaces."""
        self._state, self._file, self._exchanges = state, file, exchanges
        self._changes, self.path = Changes(file), file.path
        self._lock = threading.Lock()  # one reload at a time
        self._retired: list[Service] = []
        self._in_force = state.service.config
        self._at_start: Config | None = None
        self._problem: str | None = None
        self.waiting: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why the file's current content is not in force; None if it is."""
        with suppress(OSError):
            return self._problem or (self._file.refused.read_text("utf-8") if self._file.refused else None)
        return None

    def look(self) -> None:
        """Take over a file that changed: its switches at once, anything else in a thread."""
        if not self._changes.are_new():
            return
        try:
            config = self._followed()
        except ConfigError as error:
            self._refuse("the configuration that was changed is not used", error)
            return
        self._problem = None
        for line in self._state.service.switch(config):
            _log.warning("%s", line)
        if self._exchanges and beyond_switches(config) != beyond_switches(self._in_force):
            self.begin()

    def begin(self) -> None:
        """Reload in a thread."""
        threading.Thread(target=self.now, name="reload", daemon=True).start()

    def now(self) -> None:
        """Reload; where the configuration cannot be used, the old one stays and a line says why."""
        with self._lock:
            old = self._state.service
            try:
                config = self._file.load()
                service = Service.open(config, like=old)
                service.fetch()
                service.warm()
            except ConfigError as error:
                self._refuse("the configuration is not used", error)
                return
            told = schedules_told(self._in_force, config)
            self._state.service, self._in_force, self._problem = service, config, None
            self._retired.append(old)
        timer = threading.Timer(RETIRED_S, self._close, (old,))
        timer.daemon = True
        timer.start()
        _log.warning("%s was read again and is in force%s", self._file.path, told)

    def close(self) -> None:
        """Close replaced services that may still have been in use."""
        for service in tuple(self._retired):
            self._close(service)

    def _followed(self) -> Config:
        """Return the configuration, and note the changes that need a restart. Raises ConfigError: it cannot be used."""
        said = load_config(self._file.path)
        config = self._file.kept(said, self._state.service.pipelines)
        self._at_start = self._at_start or said
        self.waiting = needing_restart(self._at_start, said)
        if self.waiting:
            _log.warning("%s: restart the server for %s", self._file.path, ", ".join(self.waiting))
        return config

    def _refuse(self, what: str, error: ConfigError) -> None:
        self._problem = str(error)
        _log.error("%s: %s", what, error)

    def _close(self, service: Service) -> None:
        with self._lock:
            if service not in self._retired:
                return
            self._retired.remove(service)
        service.close()


def beyond_switches(config: Config) -> dict[str, Any]:
    """Return all of a configuration except the part that `Service.switch` applies."""
    said = config.model_dump()
    for name, section in (("", said), *said["tenants"].items()):
        section["features"], section["keyword"] = None, config.keyword_of(name).model_dump()
        section["retrieval"] = {**section["retrieval"], "enabled": None, "phase": None, "canary": None}
    return said


def needing_restart(before: Config, after: Config) -> tuple[str, ...]:
    """Return the keys that differ and are read at the start alone."""
    keys = [f"serving.{name}" for name in _AT_START if getattr(before.serving, name) != getattr(after.serving, name)]
    return (*keys, *(["tracing"] if before.tracing != after.tracing else []))


def schedules_told(before: Config, after: Config) -> str:
    """Return the action that Dagster needs for a configuration's schedules; empty if they are the same."""
    old, new = ({key: one.schedule for key, one in each.sources.items() if one.schedule} for each in (before, after))
    return "" if old == new else '; for changed schedules, use "Reload definitions" in Dagster'


EVERY_S = 0.5


class Watch:
    """Calls some functions in turn until it is closed; each must return at once. One that fails does not stop it."""

    def __init__(self, looks: Sequence[Callable[[], object]], every_s: float = EVERY_S) -> None:
        self._looks, self._every_s = looks, every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop looking; the last look has ended when this returns."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            for look in self._looks:
                try:
                    look()
                except Exception as error:  # the next look may go well
                    _log.error("looking for changes failed: %s: %s", type(error).__name__, error)
            self._closed.wait(self._every_s)
