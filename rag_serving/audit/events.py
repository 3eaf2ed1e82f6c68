"""What is logged: questions, and acts on documents, keys, generations and people.

Belongs here: kinds of events and their facts. Does not belong here: rows and their hashes (`chain`), writing them
(`ledger`).
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from rag_serving.access.principals import Principal
from rag_serving.records.answers import Answer, SearchResults

if TYPE_CHECKING:
    from rag_serving.documents.inbox import Upload

Kind = Literal[
    "question", "search", "selected_text", "document.uploaded", "document.deleted", "key.created", "key.revoked",
    "generation.rolled_back", "index.claims_signed", "gates.overridden", "user.forgotten", "phase.changed",
    "audit.lost", "audit.cut", "audit.read", "audit.restarted",
]  # fmt: skip
MAX_RETRIEVED = 100
MAX_SUBJECT_CHARS = 200


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Event:
    """Something that was done, by whom and to what.

    Attributes:
        user: account id or name of who acted; None where there is none.
        subject: id of what was acted on.
        query: the words of a question; kept only where `audit.store_queries` says so.
        facts: columns of a question's row: status, model, tokens_in, tokens_out, cost, latency_ms, generation.
        details: anything else, as JSON; no personal data belongs there.
    """

    kind: Kind
    user: str | None = None
    subject: str | None = None
    query: str | None = None
    retrieved: Sequence[str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=_now)


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


def of_upload(user: str | None, source: str, upload: Upload) -> Event:
    """Return the event of a document that is put into the inbox of a source; its bytes are named by their digest."""
    facts = {"source": source, "sha256": upload.spool.sha256, "bytes": upload.spool.size}
    return Event("document.uploaded", user, upload.document_id, details=facts)


def local_account() -> str | None:
    """Return who runs a command on this machine, as `os:NAME`; None where the account has no name."""
    try:
        return f"os:{getpass.getuser()}"
    except (KeyError, OSError):
        return None
