"""Rows of the telemetry tables: of a question, and of a reader's verdict on its answer. Nobody's name and no page's
text is kept. A user is a keyed hash, a question too, unless its text was opted for; personal data is taken out of that,
and of comments."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from rag_serving.access.principals import Principal
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.records.claims import RejectedCandidate, Verdict
from rag_serving.records.passages import Lock

Kind = Literal["ask", "selected_text", "search", "check"]
Origin = Literal["server", "terminal"]
Redact = Callable[[str], str]
Ranking = Sequence[tuple[str, float]]  # chunk ids with scores
FeedbackVerdict = Literal["helpful", "not_helpful", "wrong_citation", "missing"]

MAX_CANDIDATES = 20  # of which the scores of every stage are kept
MAX_RANKED = 100  # of each index alone and of both fused: ids and scores
MAX_COMMENT_CHARS = 2_000
_HASH_CHARS = 32
_ACTIONS: Mapping[str, str] = {
    "answered": "answer",
    "clarify": "clarify",
    "not_found": "no_match",
    "needs_more_context": "no_match",
    "refused": "refuse",
    "unavailable": "unavailable",
}
"""What was done with a question, by the status of its answer."""


@dataclass(frozen=True)
class Found:
    """The outcome of one question's search."""

    phase: int | None = None  # of retrieval, that answered
    retrieval_ms: float | None = None  # from the question to its passages, without the reranker
    matched: int | None = None  # candidates
    corrected: int | None = None  # words that were read as others


@dataclass(frozen=True)
class Trace:
    """The results of one question's stages."""

    candidates: Sequence[tuple[str, Mapping[str, float]]] = ()  # chunk ids with the score of each stage
    lock: Lock = field(default_factory=lambda: Lock(()))
    verdicts: Sequence[Verdict] = ()
    rankings: Mapping[str, Ranking] = field(default_factory=dict)  # dense, lexical, fused: best first
    features: Sequence[str] = ()  # the switches that were on
    rejected: Sequence[RejectedCandidate] = ()  # the next best sentences, best first
    found: Found = field(default_factory=Found)


class RowBuilder:
    """Makes rows for one tenant."""

    def __init__(
        self, tenant: str, key: bytes, store_questions: bool = False, origin: Origin = "server", redact: Redact = str
    ) -> None:
        """`origin`: where questions come from; in a terminal their time is mostly that of opening model and pages.
        `redact`: removes personal data from readers' words."""
        self._tenant, self._origin, self._redact = tenant, origin, redact
        self._key, self._store_questions = key, store_questions

    def of_answer(
        self, principal: Principal | None, question: str, answer: Answer, trace: Trace, kind: Kind = "ask"
    ) -> dict[str, Any]:
        """Return the row of QUESTIONS for an answered, or not answered, question. Texts of pages are not kept."""
        refusal, ids = answer.refusal, trace.lock.chunk_ids
        return {
            **self._asked(principal, question, kind),
            **_measured(answer.status, answer.generation, answer.flags, answer.timings_ms),
            **_traced(trace),
            "tokens_in": answer.usage.prompt_tokens if answer.usage else 0,
            "tokens_out": answer.usage.completion_tokens if answer.usage else 0,
            "cost": answer.usage.cost if answer.usage else 0.0,  # in the currency of the configured table
            "generator": answer.generator,
            "reranker": answer.reranker,
            "receipt_id": answer.receipt_id,
            "refusal": refusal and {"gate": refusal.gate, "value": refusal.value, "threshold": refusal.threshold},
            "outcome": answer.outcome,
            "confidence": answer.gates.get("confidence"),
            "threshold": answer.gates.get("min_confidence"),
            "evidence": _rounded(answer.features),
            "rejected": [
                {"chunk_id": ids[one.passage - 1], "score": round(one.score, 4), "features": _rounded(one.features)}
                for one in trace.rejected
            ],
            "action": _ACTIONS.get(answer.status),
        }

    def of_search(self, principal: Principal | None, query: str, found: SearchResults, trace: Trace) -> dict[str, Any]:
        """Return the row of QUESTIONS for a search."""
        status = "found" if found.results else "not_found"
        return {
            **self._asked(principal, query, "search"),
            **_measured(status, found.generation, found.degraded, found.timings_ms),
            **_traced(trace),
            **{"tokens_in": 0, "tokens_out": 0, "cost": 0.0},
            "generator": "",
            "reranker": found.reranker,
            "receipt_id": None,
            "refusal": None,
            **dict.fromkeys(("outcome", "confidence", "threshold", "evidence", "rejected", "action")),
        }

    def of_feedback(
        self,
        principal: Principal | None,
        receipt_id: str,
        verdict: FeedbackVerdict,
        citation: int | None = None,
        comment: str | None = None,
    ) -> dict[str, Any]:
        """Return the row of FEEDBACK for a reader's verdict on an answer: one for each reader and answer."""
        identity = json.dumps([self._tenant, principal.user if principal else None, receipt_id])
        return {
            **_stamp(),
            "id": self._hash(identity),
            "tenant": self._tenant,
            "user_hash": self._hash(principal.user if principal else None),
            "receipt_id": receipt_id,
            "verdict": verdict,
            "citation": citation,
            "comment": self._redact(_writable(comment)[:MAX_COMMENT_CHARS]) if comment else None,
        }

    def of_loss(self, rows: int) -> dict[str, Any]:
        """Return the row of LOSSES for rows that were dropped."""
        return {**_stamp(), "tenant": self._tenant, "rows": rows}

    def _asked(self, principal: Principal | None, question: str, kind: Kind) -> dict[str, Any]:
        return {
            **_stamp(),
            "tenant": self._tenant,
            "user_hash": self._hash(principal.user if principal else None),
            "kind": kind,
            "origin": self._origin,
            "question": self._redact(_writable(question)) if self._store_questions else None,
            "question_hash": self._hash(question),
        }

    def user_hash(self, user: str) -> str | None:
        """Return the keyed hash that rows have of a user."""
        return self._hash(user)

    def _hash(self, text: str | None) -> str | None:
        """Return an HMAC-SHA256 under the installation's key: the log alone does not allow names to be tried out."""
        if text is None:
            return None
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_HASH_CHARS]


def _stamp() -> dict[str, Any]:
    now = datetime.now(UTC)
    return {"id": uuid.uuid4().hex, "at": now.timestamp(), "day": now.date().isoformat()}


def _measured(status: str, generation: str, flags: Sequence[str], timings_ms: Mapping[str, float]) -> dict[str, Any]:
    return {
        "status": status,
        "generation": generation,
        "flags": list(flags),
        "total_ms": float(timings_ms.get("total", 0.0)),
        "timings_ms": dict(timings_ms),
    }


def _traced(trace: Trace) -> dict[str, Any]:
    rankings: dict[str, Any] = dict.fromkeys(("dense", "lexical", "fused"))
    for name in rankings.keys() & trace.rankings.keys():
        rankings[name] = [(chunk_id, round(score, 4)) for chunk_id, score in trace.rankings[name][:MAX_RANKED]]
    first = trace.candidates[:MAX_CANDIDATES]
    return {
        "candidates": [{"chunk_id": chunk_id, "scores": _rounded(scores)} for chunk_id, scores in first],
        **rankings,
        "features": list(trace.features),
        **vars(trace.found),
        "locked": list(trace.lock.chunk_ids),
        "verdicts": [{"outcome": verdict.outcome, "reason": verdict.reason} for verdict in trace.verdicts],
        "claims": len(trace.verdicts),
        "verified": sum(verdict.outcome != "dropped" for verdict in trace.verdicts),
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def _writable(text: str) -> str:
    """Return a text without characters that databases refuse: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
