"""Answers of calm servers to each question, and the comparison with a server under load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rag_serving.records.flags import CACHED, CACHED_OLDER, FINDINGS

Verdict = Literal["same", "degraded", "unproved", "refused", "wrong"]
"""same: what the calm server said; degraded: the same or another known answer, which says what was missing; unproved:
an answer that says so and is not known, to be compared with the pages (`proofs`); refused: it says that it has none at
the moment; wrong: anything else."""

_CITED = ("page_id", "page_version", "url", "quote")
_EARLIER = {CACHED, CACHED_OLDER}


def substance(payload: Mapping[str, Any]) -> str:
    """Return a digest of an answer's or a search's substance; times, ids of receipts and flags are left out."""
    if "results" in payload:
        kept: Any = [result["chunk_id"] for result in payload["results"]]
    else:
        cited = [[citation[name] for name in _CITED] for citation in payload["citations"]]
        clarification = payload["clarification"] if not _EARLIER.intersection(payload["flags"]) else None
        kept = [payload["status"], payload["answer"], cited, clarification]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]


def degraded(payload: Mapping[str, Any]) -> list[str]:
    """Return the flags of an answer or a search that name missing parts."""
    return sorted(set(payload.get("flags", payload.get("degraded", ()))) - FINDINGS)


@dataclass
class ExpectedAnswers:
    """Answers that may be given, by tenant, door and question: the calm server's first, then those of the same server
    with another generation, or without a part."""

    known: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, asked: Iterable[str], payload: Mapping[str, Any]) -> bool:
        """Take an answer of a calm server; return whether it was known."""
        answers, told = self.known.setdefault(_key(asked), []), substance(payload)
        if told in answers:
            return True
        answers.append(told)
        return False

    def verdict(self, asked: Iterable[str], payload: Mapping[str, Any]) -> Verdict:
        """Return the verdict on an answer. One to a question that the calm server did not get is unproved."""
        if payload.get("status") == "unavailable":
            return "refused"
        answers, told, missing = self.known.get(_key(asked)), substance(payload), degraded(payload)
        if answers is None:
            return "unproved"
        if told == answers[0]:
            return "degraded" if missing else "same"
        if not missing:
            return "wrong"
        return "degraded" if told in answers else "unproved"


def _key(asked: Iterable[str]) -> str:
    return "\n".join(asked)
