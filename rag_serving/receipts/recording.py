"""The records of a question: a receipt of its answer, and a row of telemetry.

Belongs here: handing both over. Does not belong here: a receipt's fields (`receipt`), rows (`telemetry.events`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.why import index_rankings, scored_ids
from rag_serving.telemetry.events import MAX_CANDIDATES, MAX_RANKED, Found, Trace
from rag_serving.tracing import StageTrace

NO_RECEIPT = "receipt_not_stored"


def telemetry_of(search: Search, features: Features, phase: int | None, retrieval_ms: float | None) -> Trace:
    """Return a search's row of telemetry, with the switches that were on."""
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

    def with_receipt(self, trace: StageTrace, written: AnswerTrace, asker: Principal) -> Answer:
        """Return the answer with flags, timings and the id of its receipt; that no receipt can be stored is only a
        flag."""
        return self._stored(trace, written.answer, asker, lambda answer: self.of(replace(written, answer=answer)))

    def of(self, written: AnswerTrace) -> dict[str, Any]:
        """Return the receipt of an answer; nothing is stored."""
        return make_receipt(self.tenant, written, written.rules or self.rules)

    def repeated(
        self, trace: StageTrace, answer: Answer, first: Mapping[str, Any], asker: Principal, question: str
    ) -> Answer:
        """Return an answer that is given again with a receipt of its own, made from the first one's."""
        return self._stored(trace, answer, asker, lambda again: repeated_receipt(first, question, again))

    def _stored(
        self, trace: StageTrace, answer: Answer, asker: Principal, receipt_of: Callable[[Answer], dict[str, Any]]
    ) -> Answer:
        answer = replace(answer, flags=tuple(trace.flags), timings_ms=dict(trace.timings_ms), receipt_id=None)
        with trace.part("receipt", NO_RECEIPT):
            receipt = self.secrecy.kept(asker, receipt_of(answer))
            answer = replace(answer, receipt_id=self.receipts.put(receipt))
        return replace(answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)
