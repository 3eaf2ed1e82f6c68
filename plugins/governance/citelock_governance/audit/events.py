"""Questions and searches as events of the audit log.

Belongs here: what a row says of them. Does not belong here: other events (`rag_serving.hooks`), rows and their hashes
(`chain`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.access.principals import Principal
from rag_serving.hooks import Event, Kind
from rag_serving.records.answers import Answer, SearchResults

MAX_RETRIEVED = 100


def of_answer(
    principal: Principal | None, question: str, answer: Answer, locked: Sequence[str], is_selected: bool = False
) -> Event:
    """Return the event of a question that was answered, or not. `locked`: ids of the chunks that it was answered from;
    `is_selected`: it was of a text that the caller gave."""
    usage = answer.usage
    facts = {
        "status": answer.status,
        "model": answer.generator,
        "tokens_in": usage.prompt_tokens if usage else 0,
        "tokens_out": usage.completion_tokens if usage else 0,
        "cost": float(usage.cost) if usage else 0.0,
        "latency_ms": float(answer.timings_ms.get("total", 0.0)),
        "generation": answer.generation or None,
    }
    details = {"receipt_id": answer.receipt_id, "flags": list(answer.flags)}
    user = principal.user if principal else None
    kind: Kind = "selected_text" if is_selected else "question"
    return Event(kind, user, None, question, list(locked)[:MAX_RETRIEVED], facts, details)


def of_search(principal: Principal, query: str, results: SearchResults) -> Event:
    """Return the event of a search."""
    facts = {
        "status": "found" if results.results else "not_found",
        "latency_ms": float(results.timings_ms.get("total", 0.0)),
        "generation": results.generation,
    }
    chunks = [candidate.chunk.chunk_id for candidate in results.results[:MAX_RETRIEVED]]
    return Event("search", principal.user, None, query, chunks, facts, {"flags": list(results.degraded)})
