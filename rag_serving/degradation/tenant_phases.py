"""The phases of one tenant's questions: what is configured, what an operator chose, what is in force, and the spaces
whose questions try other switches out.

What an operator chose while servers run is one signed file for each tenant in the tenant's folder of the home, so that
all processes that read this folder follow it, and a restart keeps it. A file that this installation did not sign is
ignored.

Belongs here: beginning a question in its phase, following a changed configuration, reading, writing and lifting the
choice. Does not belong here: the chain of one question (`phases`), deciding what is in force (`controller`), who may
choose (`api.operations`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.config.phases import PHASES, Canary, PhaseSettings
from rag_serving.conversations.turns import QuestionRequest
from rag_serving.degradation.controller import Change, PhaseController, PhaseState
from rag_serving.degradation.phases import Phases, RetrievalOffError, Searches
from rag_serving.query.operators import read_signs
from rag_serving.retrieval.hybrid import Mode
from rag_serving.tracing.names import TENANT
from rag_serving.tracing.spans import current_span

OnChange = Callable[[str, str, int], object]
"""Told of a tenant's step: the tenant, the direction, the phase that is in force now."""

FILE = "phase.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenPhase:
    """An operator's choice.

    Attributes:
        phase: the phase of every question; None: as configured.
        enabled: False switches retrieval off. True does not switch on what the configuration switches off.
        at: the time of the choice, ISO 8601.
    """

    phase: int | None
    enabled: bool
    at: str

    def over(self, settings: PhaseSettings) -> PhaseSettings:
        """Return the settings in force. While a phase is chosen, nothing is tried out on some questions."""
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
        """Return the choice in force; None: the configuration applies. The file is reread when it changes."""
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
            return _parsed_choice(read_signed(self._store, self._path))
        except (StoreError, SecretError) as error:
            _log.error("tenant %s: the phase that an operator chose is ignored: %s", self._tenant, error)
            return None


def _parsed_choice(content: Mapping[str, Any]) -> ChosenPhase | None:
    phase = content.get("phase")
    if phase is not None and phase not in PHASES:
        return None
    return ChosenPhase(phase, bool(content.get("enabled", True)), str(content.get("at", "")))


def tried_out(canary: Canary, request: QuestionRequest) -> Mapping[str, bool]:
    """Return the switches that differ for a question: it is narrowed to spaces of the canary, and to no other."""
    asked = request.filters.space if request.filters else ()
    spaces = {space.casefold() for space in (*asked, *read_signs(request.text).filters.space)}
    return canary.features if spaces and spaces <= {space.casefold() for space in canary.spaces} else {}


@dataclass(frozen=True)
class Watched:
    """The watched state of a tenant's questions, of this process alone."""

    searches: Searches
    control: PhaseController
    clock: Callable[[], float]


class TenantPhases:
    """Begins the questions of one tenant. Safe to use from several threads."""

    def __init__(self, config: Config, tenant: str, turns: AbstractContextManager[Any]) -> None:
        """`turns`: entered while passages are searched, by so many questions at once as the processors allow."""
        self._config, self._tenant, self.turns = config, tenant, turns
        self._settings = self._configured = config.phases_of(tenant)
        self._choices = ChosenPhases(Store(config.home), tenant)
        self._chosen: ChosenPhase | None = None
        self._watched: Watched | None = None

    @property
    def settings(self) -> PhaseSettings:
        """The settings in force: the configured ones, overridden by an operator."""
        return self._settings

    @property
    def configured(self) -> PhaseSettings:
        """The configured settings."""
        return self._configured

    @property
    def chosen(self) -> ChosenPhase | None:
        """The operator's choice; None without one."""
        return self._chosen

    def watch(self, on_change: OnChange | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Bound the time of searches and leave a phase that fails, as a server does; before the first question.

        `clock`: seconds, that all of it goes by.
        """

        def changed(change: Change) -> None:
            after = f"phase {change.after}" if change.after else "no retrieval"
            before = f"phase {change.before}" if change.before else "no retrieval"
            _log.warning("tenant %s: %s → %s: %s", self._tenant, before, after, change.why)
            if on_change:
                on_change(self._tenant, change.direction, change.after)

        self.follow()
        settings = self._config.degradation
        self._watched = Watched(
            Searches(settings, self._config.serving.open_wait_s, clock),
            PhaseController(settings, self._settings.phase, clock, changed),
            clock,
        )

    def switch(self, settings: PhaseSettings) -> None:
        """Ask as another configuration says from the next question on."""
        self._configured = settings
        self._put_in_force()

    def follow(self) -> None:
        """Ask as an operator chose, if he chose anew, from the next question on."""
        chosen = self._choices.current()
        if chosen != self._chosen:
            self._chosen = chosen
            self._put_in_force()
            _log.warning("tenant %s: an operator chose: %s", self._tenant, chosen or "what is configured")

    def _put_in_force(self) -> None:
        settings = self._chosen.over(self._configured) if self._chosen else self._configured
        if watched := self._watched:
            watched.control.configure(settings.phase)
        self._settings = settings

    def state(self) -> PhaseState | None:
        """Return the controller's state; None if nothing is watched."""
        return self._watched.control.state() if self._watched else None

    @property
    def hanging(self) -> int:
        """The number of hanging searches."""
        return self._watched.searches.hanging if self._watched else 0

    @contextmanager
    def begun(self, request: QuestionRequest, mode: Mode | None = None) -> Iterator[Phases]:
        """Yield the chain of a question that begins now. `mode`: searched in place of any phase.

        Raises:
            RetrievalOffError: an operator has switched retrieval off; no generation is looked at.
        """
        settings, watched, user = self._settings, self._watched, request.principal.user
        if not settings.enabled:
            raise RetrievalOffError("retrieval.enabled is false")
        current_span().set({TENANT: self._tenant})
        features = tried_out(settings.canary, request) if settings.canary else {}
        phases = Phases(settings.phase, settings.phase, self.turns, mode, features=features, asker=user)
        if watched:
            phases.searches, phases.clock = watched.searches, watched.clock
            phases.control = watched.control
            phases.turn = phases.control.begin(user)
            phases.first = phases.turn.phase
        try:
            yield phases
        finally:
            phases.close()
