"""What a question leaves behind: a receipt of its answer, and a row of telemetry.

Belongs here: handing both over. Does not belong here: what a receipt says (`receipt`), rows (`telemetry.events`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.verification import VerificationRules
from rag_serving.config.sections import Features
from rag_serving.receipts.receipt import make_receipt, repeated_receipt
from rag_serving.receipts.secrecy import Secrecy
from rag_serving.receipts.store import ReceiptStore
from rag_serving.records.answers import Answer
from rag_serving.records.occasion import PLAIN, Occasion
from rag_serving.records.queries import Filters
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.why import index_rankings, scored_ids
from rag_serving.telemetry.events import MAX_CANDIDATES, MAX_RANKED, Found, Trace
from rag_serving.tracing import StageTrace

NO_RECEIPT = "receipt_not_stored"


@dataclass(frozen=True)
class QuestionRequest:
    """What a caller asks, and who the caller is.

    Attributes:
        text: the question as it is searched, completed from the conversation before it.
        original: as it was typed, where that is something else.
        page: the title of a page that the conversation is about, whose passages are preferred.
        occasion: what it is asked of and beside.
    """

    principal: Principal
    text: str
    filters: Filters | None = None
    explain: bool = False
    original: str | None = None
    page: str | None = None
    occasion: Occasion = PLAIN

    @property
    def understood(self) -> str | None:
        """Return the question as it was completed; None where it is the one that was typed."""
        return self.text if self.original is not None else None


def telemetry_of(search: Search, features: Features, phase: int | None, retrieval_ms: float | None) -> Trace:
    """Return what telemetry keeps of a search, and which switches were on."""
    rankings, query = index_rankings(search, MAX_RANKED), search.query
    found = Found(phase, retrieval_ms, len(search.candidates), len(query.corrections))
    return Trace(scored_ids(search, MAX_CANDIDATES), rankings=rankings, features=features.enabled, found=found)


def answer_trace(recorded: Trace, written: AnswerTrace) -> Trace:
    """Return the same with what telemetry keeps of an answer: what a model wrote counts, shown or not."""
    verdicts = (*written.withdrawn, *written.verdicts)
    return replace(recorded, lock=written.lock, verdicts=verdicts, rejected=written.rejected)


@dataclass(frozen=True)
class ReceiptWriter:
    """Makes and stores the receipts of one tenant's answers."""

    tenant: str
    receipts: ReceiptStore
    secrecy: Secrecy
    rules: VerificationRules

    def with_receipt(self, trace: StageTrace, written: AnswerTrace, request: QuestionRequest) -> Answer:
        """Return the answer with flags, timings and the id of its receipt; that no receipt can be stored is only a
        flag."""
        answer = replace(written.answer, flags=tuple(trace.flags), timings_ms=dict(trace.timings_ms))
        with trace.part("receipt", NO_RECEIPT):
            written = replace(written, answer=answer)
            receipt = self.of(written, request)
            answer = replace(answer, receipt_id=self.receipts.put(self.secrecy.kept(request.principal, receipt)))
        return replace(answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)

    def of(self, written: AnswerTrace, request: QuestionRequest) -> dict[str, Any]:
        """Return the receipt of an answer; nothing is stored."""
        return make_receipt(self.tenant, request.text, written, self.rules, request.filters)

    def repeated(self, trace: StageTrace, answer: Answer, first: Mapping[str, Any], request: QuestionRequest) -> Answer:
        """Return an answer that is given again with a receipt of its own, made from the first one's."""
        answer = replace(answer, flags=tuple(trace.flags), timings_ms=dict(trace.timings_ms), receipt_id=None)
        with trace.part("receipt", NO_RECEIPT):
            receipt = repeated_receipt(first, request.text, answer)
            answer = replace(answer, receipt_id=self.receipts.put(self.secrecy.kept(request.principal, receipt)))
        return replace(answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
