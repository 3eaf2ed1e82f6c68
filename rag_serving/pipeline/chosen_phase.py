"""The phase of retrieval that an operator chose while servers run: one signed file for each tenant.

Belongs here: reading, writing and lifting the choice, what it changes of the configured settings. Does not belong here:
who may choose (`api.operations`), what is in force (`tenant_phases`).

The file lies in the tenant's folder of the home, so that all processes that read this folder follow it, and a restart
keeps it. A file that this installation did not sign is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.phases import PHASES, PhaseSettings

FILE = "phase.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenPhase:
    """What an operator chose.

    Attributes:
        phase: the phase of every question; None: as configured.
        enabled: False switches retrieval off. True does not switch on what the configuration switches off.
        at: when it was chosen, ISO 8601.
    """

    phase: int | None
    enabled: bool
    at: str

    def over(self, settings: PhaseSettings) -> PhaseSettings:
        """Return the settings in force. While a phase is chosen, no other one is tried out on some questions."""
        if self.phase is not None:
            settings = replace(settings, phase=self.phase, canary=None)
        return replace(settings, enabled=settings.enabled and self.enabled)


class ChosenPhases:
    """The choice for one tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._path = store.tenant(tenant) / FILE
        self._stamp: tuple[int, int, int] | None = None
        self._choice: ChosenPhase | None = None

    def current(self) -> ChosenPhase | None:
        """Return the choice in force; None: the configuration holds. The file is read when it changes."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp, self._choice = stamp, self._read() if stamp else None
        return self._choice

    def choose(self, phase: int | None, enabled: bool) -> None:
        """Write a choice; one that changes nothing lifts the last one.

        Raises:
            OSError: the folder cannot be written.
        """
        if phase is None and enabled:
            self._path.unlink(missing_ok=True)
            return
        choice = ChosenPhase(phase, enabled, datetime.now(UTC).isoformat(timespec="seconds"))
        write_signed(self._store, self._path, vars(choice))

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> ChosenPhase | None:
        try:
            return _parsed(read_signed(self._store, self._path))
        except (StoreError, SecretError) as error:
            _log.error("tenant %s: the phase that an operator chose is ignored: %s", self._tenant, error)
            return None


def _parsed(content: Mapping[str, Any]) -> ChosenPhase | None:
    phase = content.get("phase")
    if phase is not None and phase not in PHASES:
        return None
    return ChosenPhase(phase, bool(content.get("enabled", True)), str(content.get("at", "")))
