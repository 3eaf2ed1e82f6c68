"""Marks by which a server hears that something of a tenant was forgotten, and that its memory has to go.

Belongs here: setting a mark, telling that there is another one. Does not belong here: what is dropped then
(`memory`).

A mark is a file in the home folder, which costs one look at its facts. Servers with a home of their own see it in the
installation's database, where `telemetry.url` names one: they look every `FRESH_S`. A mark tells nothing but that it is
another one, so clocks of several machines need not agree, and whoever forges one has only made a server ask anew.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from rag_serving.artifacts.digests import stamp_of
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store, write_json
from rag_serving.config.loading import Config

if TYPE_CHECKING:
    from pathlib import Path

    from rag_serving.telemetry.guarded import GuardedDatabase

FRESH_S = 2.0
"""Seconds after which a server looks into the database again."""
_WAIT_S = 0.5  # that a question waits for it
_KEY_PURPOSE = "forgotten"

_log = logging.getLogger(__name__)


def mark_forgotten(config: Config, tenant: str) -> None:
    """Tell the servers that run to drop what they keep of a tenant in memory.

    Raises:
        TelemetryError: the database of `telemetry.url` cannot be written.
    """
    mark = secrets.token_hex(16)
    if config.telemetry.url is not None:
        from rag_serving.telemetry.forgotten_table import write_mark

        with closing(_database(config, wait_s=10)) as database:
            digest = _digest(config, tenant)
            database.ask(lambda connection: write_mark(connection, digest, mark))
    path = _path(config, tenant)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"mark": mark})


class ForgottenMarks:
    """The marks of one tenant, as a server sees them. Safe to use from several threads."""

    def __init__(self, config: Config, tenant: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._tenant, self._clock = config, tenant, clock
        self._path = _path(config, tenant)
        self._looking = threading.Lock()
        self._database: GuardedDatabase | None = None
        self._looked_at: float | None = None
        self._row: str | None = None
        self._is_away = False

    def newest(self) -> object:
        """Return what is another value whenever something was forgotten since. While the database does not answer, that
        of the last time stands for it."""
        if self._config.telemetry.url is not None:
            self._look()
        return stamp_of(self._path), self._row

    def close(self) -> None:
        """Close the connections."""
        with self._looking:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _look(self) -> None:
        """Read the row, if that was not done a moment ago; questions at once wait for one of them."""
        if self._is_due():
            with self._looking:
                if self._is_due():
                    self._read()
                    self._looked_at = self._clock()

    def _is_due(self) -> bool:
        return self._looked_at is None or self._clock() - self._looked_at >= FRESH_S

    def _read(self) -> None:
        from rag_serving.telemetry.forgotten_table import read_mark
        from rag_serving.telemetry.recorder import TelemetryError

        try:
            self._database = self._database or _database(self._config, _WAIT_S)
            digest = _digest(self._config, self._tenant)
            self._row = self._database.ask(lambda connection: read_mark(connection, digest))
            self._is_away = False
        except TelemetryError as error:
            if not self._is_away:
                _log.warning("whether something of %s was forgotten cannot be told: %s", self._tenant, error)
            self._is_away = True


def _path(config: Config, tenant: str) -> Path:
    return config.home / "forgotten" / f"{tenant}.json"


def _digest(config: Config, tenant: str) -> str:
    return hmac.new(derived_key(config.home, _KEY_PURPOSE), tenant.encode(), "sha256").hexdigest()


def _database(config: Config, wait_s: float) -> GuardedDatabase:
    from rag_serving.telemetry.forgotten_table import METADATA
    from rag_serving.telemetry.guarded import GuardedDatabase

    return GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA, wait_s)
