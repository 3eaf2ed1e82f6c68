"""The phase of one question: which one it begins in, and falling through to the next where one fails or hangs.

Belongs here: the chain 3 → 2 → 1, the time that a search may take, searches that hang. Does not belong here: which
phase is in force (`controller`), what is answered when none is left (`ask`), what a phase
searches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rag_serving.config.phases import PHASES, Degradation
from rag_serving.deadline import LOOK_S, result_within, run_in_thread
from rag_serving.degradation.controller import OFF, PhaseController, PhaseTurn
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.protocols import HiddenRowError
from rag_serving.models.breaker import Breaker
from rag_serving.records.flags import PHASE_1_FAILED, PHASE_2_FAILED, PHASE_3_FAILED, PHASE_LOWERED
from rag_serving.retrieval.hybrid import DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE, Mode, RetrievalError
from rag_serving.tracing import Listen, StageTrace
from rag_serving.tracing.names import DATA_SOURCE, OPERATION, PHASE, RETRIEVAL
from rag_serving.tracing.spans import span

MODES: Mapping[int, Mode] = {3: "hybrid", 2: "keyword_chunks", 1: "keyword_documents"}
"""What is searched in each phase."""
_RERANK = "rerank"
_MODEL_PARTS = frozenset({"embed", _RERANK})
_FAILURES = frozenset({DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE})
"""Flags of a search that went on without a part of itself: for its phase that is a failure."""

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
Search = Callable[[Mode, StageTrace], Result]


class NoPhaseError(RetrievalError):
    """No phase could answer a question."""


class RetrievalOffError(RetrievalError):
    """An operator has switched retrieval off."""


class HangingError(Exception):
    """A search took longer than it may, or so many hang that no other is begun."""


class Searches:
    """The searches of one tenant that run in threads of their own: time, breakers, how many hang.

    Safe to use from several threads. A thread cannot be ended: one that hangs is left behind, and so are `max_hanging`
    at most.
    """

    def __init__(self, settings: Degradation, open_wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`open_wait_s`: the least time limit of the first search in a generation."""
        self._settings, self._clock = settings, clock
        self._first_s = max(open_wait_s, settings.phase_timeout_s)
        self._breakers = {phase: Breaker(settings.failures, settings.retry_s, clock) for phase in PHASES}
        self._lock = threading.Lock()
        self._hanging = 0
        self._failed_for: dict[int, str | None] = {}  # the caller of the last failure, by phase
        self._searched: dict[int, str] = {}  # the generation that was searched last, by phase

    @property
    def hanging(self) -> int:
        """The number of abandoned searches that are still running."""
        return self._hanging

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
        """Return a search's result within its time.

        Raises:
            HangingError: it takes longer, or too many hang.
            StoppedError: nobody waits for the answer any more.
        """
        if self._hanging >= self._settings.max_hanging:
            raise HangingError(f"{self._hanging} searches hang")
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
            if not outcome.done():
                self._leave(outcome, attempt)

    def _leave(self, outcome: Future[Any], attempt: Attempt) -> None:
        """Abandon a search: it reports nothing further, and counts as hanging until it ends."""
        attempt.abandon(outcome)
        with self._lock:
            self._hanging += 1
        outcome.add_done_callback(lambda _: self._ended())

    def _ended(self) -> None:
        with self._lock:
            self._hanging -= 1


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
    """The phases of one question, from the one in force down. For one question, not for several threads.

    Attributes:
        first: the phase to begin in; `OFF` outside retrieval.
        mode: the mode of the search in place of any phase, without a chain; None: by the phase.
        configured: the phase that an operator set; below it, the answer is flagged.
        searches: runs them in threads; None: they run in this one, for as long as they take.
        asker: the caller; None: one without a name.
        features: switches that differ for this question, as part of a trial.
        phase: the phase that answered; None as long as none did.
    """

    first: int
    configured: int
    turns: AbstractContextManager[Any]
    mode: Mode | None = None
    searches: Searches | None = None
    control: PhaseController | None = None
    turn: PhaseTurn | None = None
    clock: Callable[[], float] = time.monotonic
    asker: str | None = None
    features: Mapping[str, bool] = field(default_factory=dict)
    phase: int | None = None
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
        """Return the result of the first phase that answers; the trace lists the failed ones.

        Raises:
            NoPhaseError: none answers.
            HiddenRowError: a stage requested a row hidden from its reader.
        """
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
        """Record the phase that answered, and inform the controller. The reranker's time is not counted: it has a time
        limit of its own."""
        self.phase = phase
        self.retrieval_ms = round((self.clock() - self._began - self._reranker_s) * 1000, 3)
        if self.control and self.turn:
            is_error = phase != self.turn.phase or not _FAILURES.isdisjoint(found.flags if found else ())
            self.control.end(self.turn, self.retrieval_ms, is_error, phase is None)
            self.turn = None
