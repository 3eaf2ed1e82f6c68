"""The phases of one tenant's questions: what is configured, what an operator chose, what is in force, and the spaces
whose questions try other switches out. What an operator chose while servers run is one signed file for each tenant in
the tenant's folder of the home, so that all processes that read this folder follow it, and a restart keeps it. A file
that this installation did not sign is ignored."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from rag_serving.artifacts.contents import Stamp, stamp_of
from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.config.phases import PHASES, Canary, Degradation, PhaseSettings
from rag_serving.conversations.turns import QuestionRequest
from rag_serving.deadline import LOOK_S, result_within, run_in_thread
from rag_serving.degradation.controller import OFF, Change, PhaseController, PhaseState, PhaseTurn
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.view import HiddenRowError
from rag_serving.models.breaker import Breaker
from rag_serving.query.parsing import read_signs
from rag_serving.records.flags import PHASE_1_FAILED, PHASE_2_FAILED, PHASE_3_FAILED, PHASE_LOWERED
from rag_serving.retrieval.hybrid import DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE, Mode, RetrievalError
from rag_serving.tracing import Listen, StageTrace
from rag_serving.tracing.spans import DATA_SOURCE, OPERATION, PHASE, RETRIEVAL, TENANT, current_span, span

MODES: Mapping[int, Mode] = {3: "hybrid", 2: "keyword_chunks", 1: "keyword_documents"}
"""What is searched in each phase."""
_RERANK = "rerank"
_MODEL_PARTS = frozenset({"embed", _RERANK})
_FAILURES = frozenset({DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE})
"""Flags of a search that went on without a part of itself: for its phase that is a failure."""

Result = TypeVar("Result")
Search = Callable[[Mode, StageTrace], Result]


class NoPhaseError(RetrievalError):
    """No phase could answer a question."""


class RetrievalOffError(RetrievalError):
    """An operator has switched retrieval off."""


class HangingError(Exception):
    """A search took longer than it may, or so many hang that no other is begun."""


class Searches:
    """The searches of one tenant that run in threads of their own: time, breakers, how many hang. Safe to use from
    several threads. A thread cannot be ended: one that hangs is left behind, and so are `max_hanging` at most."""

    def __init__(self, settings: Degradation, open_wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`open_wait_s`: the least time limit of the first search in a generation."""
        self._settings, self._clock = settings, clock
        self._first_s = max(open_wait_s, settings.phase_timeout_s)
        self._breakers = {phase: Breaker(settings.failures, settings.retry_s, clock) for phase in PHASES}
        self._lock = threading.Lock()
        self.hanging = 0  # abandoned searches that are still running
        self._failed_for: dict[int, str | None] = {}  # the caller of the last failure, by phase
        self._searched: dict[int, str] = {}  # the generation that was searched last, by phase

    def allows(self, phase: int) -> bool:
        """Return whether to try a phase now; an admitted caller must call `noted`."""
        return self._breakers[phase].allow()

    def noted(self, phase: int, is_good: bool, asker: str | None = None) -> None:
        """Count the outcome of a phase. Of consecutive failures of one caller only the first counts: nobody closes a
        phase for others."""
        breaker = self._breakers[phase]
        if is_good:
            self._failed_for.pop(phase, None)
            breaker.succeed()
        elif asker is None or breaker.state != "closed" or self._failed_for.get(phase) != asker:
            self._failed_for[phase] = asker
            breaker.fail()

    def run(self, search: Search[Result], phase: int, generation: str, attempt: Attempt) -> Result:
        """Return a search's result within its time. Raises HangingError: it takes longer, or too many hang;
        StoppedError: nobody waits for the answer any more."""
        if self.hanging >= self._settings.max_hanging:
            raise HangingError(f"{self.hanging} searches hang")
        context = copy_context()
        outcome = run_in_thread(lambda: context.run(search, MODES[phase], attempt.trace), f"phase-{phase}")
        seconds = self._settings.phase_timeout_s if self._searched.get(phase) == generation else self._first_s
        try:
            while True:
                left = seconds - attempt.store_s()
                with suppress(TimeoutError):
                    found = result_within(outcome, min(LOOK_S, max(0.0, left)))
                    self._searched[phase] = generation
                    return found
                if outcome.done():  # it ended with a TimeoutError of its own, or just now
                    return outcome.result()
                if left <= 0:
                    raise HangingError(f"it took longer than {seconds:g} s")
        finally:
            if not outcome.done():  # it is abandoned, reports nothing further, and counts as hanging until it ends
                attempt.abandon(outcome)
                self._count(1)
                outcome.add_done_callback(lambda _: self._count(-1))

    def _count(self, more: int) -> None:
        with self._lock:
            self.hanging += more


class Attempt:
    """One search in one phase: its own trace, so that an abandoned one changes nothing of the question's."""

    def __init__(self, listen: Listen | None, abandoned: list[Future[Any]], clock: Callable[[], float]) -> None:
        self.trace = StageTrace(self._heard, watch=self._watched)
        self._listen, self._abandoned, self._clock = listen, abandoned, clock
        self._began = self._part_began = clock()
        self._part, self._model_s = "", dict.fromkeys(_MODEL_PARTS, 0.0)
        self._is_left = False

    def abandon(self, outcome: Future[Any]) -> None:
        self._is_left = True
        self._abandoned.append(outcome)

    def store_s(self) -> float:
        """Return for how many seconds it searches, the time of the model excepted."""
        part, began, model_s = self._part, self._part_began, sum(self._model_s.values())
        now = self._clock()
        return now - self._began - model_s - (now - began if part in _MODEL_PARTS else 0.0)

    def reranker_s(self) -> float:
        """Return for how many seconds it waited for the reranker; once it has ended."""
        self._watched("")
        return self._model_s[_RERANK]

    def _heard(self, part: str, detail: str) -> None:
        if self._listen and not self._is_left:
            self._listen(part, detail)

    def _watched(self, part: str) -> None:
        now = self._clock()
        if self._part in _MODEL_PARTS:
            self._model_s[self._part] += now - self._part_began
        self._part, self._part_began = part, now  # after the sum, which the other thread reads last


@dataclass
class Phases:
    """The phases of one question, from the one in force down. For one question, not for several threads."""

    first: int  # the phase to begin in; `OFF` outside retrieval
    configured: int  # the phase that an operator set; below it, the answer is flagged
    turns: AbstractContextManager[Any]
    mode: Mode | None = None  # the mode of the search in place of any phase, without a chain; None: by the phase
    searches: Searches | None = None  # runs them in threads; None: they run in this one, for as long as they take
    control: PhaseController | None = None
    turn: PhaseTurn | None = None
    clock: Callable[[], float] = time.monotonic
    asker: str | None = None  # the caller; None: one without a name
    features: Mapping[str, bool] = field(default_factory=dict)
    """Switches that differ for this question, as part of a trial."""
    phase: int | None = None  # the phase that answered; None as long as none did
    retrieval_ms: float | None = None
    failed: list[int] = field(default_factory=list)
    abandoned: list[Future[Any]] = field(default_factory=list)
    _began: float = 0.0
    _reranker_s: float = 0.0

    def beside(self) -> Phases:
        """Return the same chain for another question of the same reader, which is not counted."""
        return replace(self, control=None, turn=None, failed=[])

    def run(self, search: Search[Result], generation: str, trace: StageTrace) -> Result:
        """Return the result of `_run`, as a span of its own."""
        with span(RETRIEVAL, {OPERATION: RETRIEVAL, DATA_SOURCE: generation}) as opened:
            found = self._run(search, generation, trace)
            opened.set({PHASE: self.phase})
        return found

    def _run(self, search: Search[Result], generation: str, trace: StageTrace) -> Result:
        """Return the result of the first phase that answers; the trace lists the failed ones. Raises NoPhaseError: none
        answers; HiddenRowError: a stage requested a row hidden from its reader."""
        self._began, self._reranker_s = self.clock(), 0.0
        if self.mode is not None:
            with self.turns:
                return search(self.mode, trace)
        for phase in range(self.first, OFF, -1):
            attempt = Attempt(trace.listen, self.abandoned, self.clock)
            try:
                found = self._searched(search, phase, generation, attempt)
            except HiddenRowError:
                raise
            except Exception as error:  # of an index, a store, a driver: the next phase may do without it
                unknown = None if isinstance(error, RetrievalError | HangingError | RemoteError) else error
                _log.warning("retrieval, phase %d: %s: %s", phase, type(error).__name__, error, exc_info=unknown)
                self.failed.append(phase)
                flag = {3: PHASE_3_FAILED, 2: PHASE_2_FAILED}.get(phase, PHASE_1_FAILED)
                trace.raise_flag(flag)
                continue
            finally:
                self._reranker_s += attempt.reranker_s()
            trace.include(attempt.trace)
            self._end(phase, attempt.trace)
            if phase < self.configured and not self.failed:
                trace.raise_flag(PHASE_LOWERED)
            return found
        self._end(None)
        raise NoPhaseError("no phase of retrieval can answer")

    def release(self, lease: ExitStack) -> None:
        """Close the searches' resources once the last abandoned one has ended."""
        waiting = [outcome for outcome in self.abandoned if not outcome.done()]
        if not waiting:
            lease.close()
            return
        left, lock = len(waiting), threading.Lock()

        def ended(_: Future[Any]) -> None:
            nonlocal left
            with lock:
                left -= 1
                is_last = left == 0
            if is_last:
                lease.close()

        for outcome in waiting:
            outcome.add_done_callback(ended)

    def close(self) -> None:
        """End a question that was not counted: it ended for other reasons than its phases."""
        if self.control and self.turn:
            self.control.drop(self.turn)
            self.turn = None

    def _searched(self, search: Search[Result], phase: int, generation: str, attempt: Attempt) -> Result:
        """Return the result of a search in one phase, in turn with those of other questions."""
        if self.searches is None:
            with self.turns:
                return search(MODES[phase], attempt.trace)
        if not self.searches.allows(phase):
            raise HangingError("it failed several times in a row and is left alone for a while")
        try:
            with self.turns:
                found = self.searches.run(search, phase, generation, attempt)
        except HiddenRowError:
            raise
        except Exception:
            self.searches.noted(phase, False, self.asker)
            raise
        self.searches.noted(phase, True)
        return found

    def _end(self, phase: int | None, found: StageTrace | None = None) -> None:
        """Record the phase that answered, and tell the controller: without the reranker's time, which has a limit."""
        self.phase = phase
        self.retrieval_ms = round((self.clock() - self._began - self._reranker_s) * 1000, 3)
        if self.control and self.turn:
            is_error = phase != self.turn.phase or not _FAILURES.isdisjoint(found.flags if found else ())
            self.control.end(self.turn, self.retrieval_ms, is_error, phase is None)
            self.turn = None


OnChange = Callable[[str, str, int], object]
"""Told of a tenant's step: the tenant, the direction, the phase that is in force now."""

FILE = "phase.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenPhase:
    """An operator's choice."""

    phase: int | None  # the phase of every question; None: as configured
    enabled: bool  # False switches retrieval off. True does not switch on what the configuration switches off
    at: str  # the time of the choice, ISO 8601

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
        self._stamp: Stamp | None = None
        self._choice: ChosenPhase | None = None

    def current(self) -> ChosenPhase | None:
        """Return the choice in force; None: the configuration applies. The file is reread when it changes."""
        stamp = stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp, self._choice = stamp, self._read() if stamp else None
        return self._choice

    def choose(self, phase: int | None, enabled: bool) -> None:
        """Write a choice; one that changes nothing lifts the last one. Raises OSError: the folder cannot be written."""
        if phase is None and enabled:
            self._path.unlink(missing_ok=True)
            return
        choice = ChosenPhase(phase, enabled, datetime.now(UTC).isoformat(timespec="seconds"))
        write_signed(self._store, self._path, vars(choice))

    def _read(self) -> ChosenPhase | None:
        try:
            content = read_signed(self._store, self._path)
        except (StoreError, SecretError) as error:
            _log.error("tenant %s: the phase that an operator chose is ignored: %s", self._tenant, error)
            return None
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
    """Begins the questions of one tenant. Safe to use from several threads. `settings`: those in force, which are the
    `configured` ones, overridden by what an operator has `chosen`."""

    def __init__(self, config: Config, tenant: str, turns: AbstractContextManager[Any]) -> None:
        """`turns`: entered while passages are searched, by so many questions at once as the processors allow."""
        self._config, self._tenant, self.turns = config, tenant, turns
        self.settings = self.configured = config.phases_of(tenant)
        self._choices = ChosenPhases(Store(config.home), tenant)
        self.chosen: ChosenPhase | None = None
        self._watched: Watched | None = None

    def watch(self, on_change: OnChange | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Bound the time of searches and leave a phase that fails, as a server does; before the first question.
        `clock`: seconds, that all of it goes by."""

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
            PhaseController(settings, self.settings.phase, clock, changed),
            clock,
        )

    def switch(self, settings: PhaseSettings) -> None:
        """Ask as another configuration says from the next question on."""
        self.configured = settings
        self._put_in_force()

    def follow(self) -> None:
        """Ask as an operator chose, if he chose anew, from the next question on."""
        chosen = self._choices.current()
        if chosen != self.chosen:
            self.chosen = chosen
            self._put_in_force()
            _log.warning("tenant %s: an operator chose: %s", self._tenant, chosen or "what is configured")

    def _put_in_force(self) -> None:
        settings = self.chosen.over(self.configured) if self.chosen else self.configured
        if watched := self._watched:
            watched.control.configure(settings.phase)
        self.settings = settings

    def state(self) -> PhaseState | None:
        """Return the controller's state; None if nothing is watched."""
        return self._watched.control.state() if self._watched else None

    @property
    def hanging(self) -> int:
        """The number of hanging searches."""
        return self._watched.searches.hanging if self._watched else 0

    @contextmanager
    def begun(self, request: QuestionRequest, mode: Mode | None = None) -> Iterator[Phases]:
        """Yield the chain of a question that begins now. `mode`: searched in place of any phase. Raises
        RetrievalOffError: an operator has switched retrieval off; no generation is looked at."""
        settings, watched, user = self.settings, self._watched, request.principal.user
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
