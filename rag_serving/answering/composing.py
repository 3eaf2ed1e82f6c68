"""The outcomes of a draft: a confident answer, the closest passages, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rag_serving.answering.citations import answer_text, citations_of, explained, shown_claims
from rag_serving.answering.clarifying import closest
from rag_serving.answering.comparing.conflicts import Differing
from rag_serving.answering.comparing.typed import Opening
from rag_serving.answering.gates import (
    CLOSEST,
    NOT_FOUND,
    best_rejected,
    gate_confidence,
    gate_marked,
    gate_named,
    gate_ocr,
    not_written,
    rejected_shapes,
)
from rag_serving.answering.verification import VerificationRules
from rag_serving.config.models import AnswerGeneration
from rag_serving.config.sections import Gates
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Draft, RejectedCandidate, Verdict
from rag_serving.records.decisions import Refusal
from rag_serving.records.passages import Lock
from rag_serving.records.queries import Filters

NEEDS_MORE_CONTEXT = "The passages found do not support an answer. Ask more precisely, or name the page or product."


@dataclass(frozen=True)
class AnswerTrace:
    """An answer with its sources. `question` and `filters`: the question according to its receipt."""

    answer: Answer
    draft: Draft
    lock: Lock
    verdicts: Sequence[Verdict]
    withdrawn: Sequence[Verdict] = ()  # on what a model wrote, where extraction's closest passage is shown instead
    rejected: tuple[RejectedCandidate, ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # digests of cited pages' files, by page id
    question: str = ""
    filters: Filters | None = None
    rules: VerificationRules | None = None  # that the verdicts were reached with; None: the configuration's
    certificate: Mapping[str, Any] | None = None  # of a set: what proves that it is whole
    differences: Sequence[Mapping[str, Any]] = ()  # of a check: the values by which a claim and a quote differ


@dataclass(frozen=True)
class VerifiedDraft:
    """A draft with the verdicts on its claims, and where pages differ about them."""

    draft: Draft
    verdicts: Sequence[Verdict]
    differs: Differing | None = None

    @property
    def stands(self) -> bool:
        """Return whether some claim is true to the passages."""
        return any(verdict.outcome != "dropped" for verdict in self.verdicts)

    def doubt(self, question: str, lock: Lock, gates: Gates, min_ocr: int, opening: Opening) -> Refusal | None:
        """Return why the draft is no confident answer; None if it is one. `min_ocr`: confidence that OCR needs."""
        if not self.stands:
            return not_written(self.draft, lock)
        return (
            gate_confidence(question, self.draft.confidence, gates, len(lock))
            or gate_ocr(self.verdicts, lock, min_ocr)
            or gate_named(question, self.verdicts, lock)
            or gate_marked(question, self.verdicts, lock, opening)
        )


@dataclass(frozen=True)
class Composition:
    """The draft for a question, and the part of it that is shown."""

    written: VerifiedDraft  # by the configured writer
    tried: VerifiedDraft  # extraction's draft, if `written` is doubtful; else the same
    doubt: Refusal | None  # why there is no confident answer
    is_shown: bool  # whether readers see what was tried

    def answer(self, lock: Lock, settings: AnswerGeneration) -> Answer:
        """Return the verified claims, introduced as only the closest if they are; without any, withhold the answer."""
        made = self._shown(lock, settings) if self.is_shown else self._withheld(lock)
        return replace(made, usage=self.written.draft.usage, refusal=self.doubt, features=self.tried.draft.evidence)

    def _shown(self, lock: Lock, settings: AnswerGeneration) -> Answer:
        shown = self.tried
        shows_unverified = settings.unverified == "show" and not self.doubt
        text = answer_text(shown.verdicts, lock, shows_unverified)
        return Answer(
            "answered",
            f"{CLOSEST}\n\n{text}" if self.doubt else text,
            citations_of(shown.verdicts, lock, settings.quote_max_words),
            shown_claims(shown.verdicts, lock, shows_unverified),
            generator=shown.draft.model,
        )

    def _withheld(self, lock: Lock) -> Answer:
        made = Answer("not_found", NOT_FOUND, clarification=closest(lock), generator=self.written.draft.model)
        if self.doubt and self.doubt.gate == "verification":
            return replace(made, status="needs_more_context", answer=NEEDS_MORE_CONTEXT)
        return made

    def explained(self, answer: Answer, lock: Lock) -> Answer:
        """Return the answer with its passages, the rejected candidates, and the best hidden claim of the draft."""
        verdicts = [] if self.written.stands else self.written.verdicts
        is_rest = not self.is_shown or self._is_replaced
        best = best_rejected(self.written.draft, verdicts, lock) if is_rest else None
        return replace(
            answer,
            passages=explained(lock, self._verdicts),
            refusal=answer.refusal and replace(answer.refusal, best=best),
            rejected=rejected_shapes(self._rejected, lock),
        )

    def trace(self, answer: Answer, lock: Lock) -> AnswerTrace:
        """Return the answer with the draft that it was made of; a model's cost and notes are kept with extraction's."""
        written, shown = self.written.draft, self.tried.draft
        if not self.is_shown or not self._is_replaced:
            draft = shown if self.is_shown else written
            return AnswerTrace(answer, draft, lock, self._verdicts, rejected=self._rejected)
        draft = replace(shown, usage=written.usage, notes=(*written.notes, *shown.notes))
        return AnswerTrace(answer, draft, lock, self._verdicts, self.written.verdicts, self._rejected)

    @property
    def _is_replaced(self) -> bool:
        return self.tried.draft.model != self.written.draft.model

    @property
    def _rejected(self) -> tuple[RejectedCandidate, ...]:
        """The candidates that readers do not see."""
        shown = [verdict.claim for verdict in self._verdicts if verdict.outcome != "dropped"]
        return tuple(
            each
            for each in self.tried.draft.rejected
            if not any(claim.index == each.passage and each.text in claim.text for claim in shown)
        )

    @property
    def _verdicts(self) -> Sequence[Verdict]:
        """The verdicts on what is shown; if nothing is, on the rejected draft."""
        if self.is_shown:
            return self.tried.verdicts
        return () if self.written.stands else self.written.verdicts
