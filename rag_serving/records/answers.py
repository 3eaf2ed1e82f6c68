"""Answers: citations as readers see them, results of a search, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from rag_serving.records.claims import Usage
from rag_serving.records.decisions import Clarification, Decision, Refusal
from rag_serving.records.flags import STILL_INDEXING, flags_told
from rag_serving.records.passages import BookPlace, Box, Candidate, Location, PagePart, boxes_payload
from rag_serving.records.queries import Query
from rag_serving.records.sets import SetResult

ClaimVerdict = Literal["verbatim", "otherwise", "closest", "absent", "no_claim"]
"""It stands on a page word for word; a page has another value; the unit that comes closest, for the reader to judge;
nothing of it is in the pages; it states nothing."""
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


@dataclass(frozen=True)
class CheckedClaim:
    """A claim of a text, what the pages say of it, and where. `page_says`: their words, whole."""

    text: str
    start: int
    end: int
    verdict: ClaimVerdict
    citation: Citation | None = None
    page_says: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape: dict[str, Any] = {name: getattr(self, name) for name in ("text", "start", "end", "verdict")}
        if self.citation:
            shape |= {"citation": self.citation.payload(), "page_says": self.page_says}
        return shape


@dataclass(frozen=True)
class CheckedQuote:
    """A quote that was given for a text: `verbatim` if a page has it, exactly or but for a slip, or `absent`."""

    quote: str
    verdict: ClaimVerdict
    citation: Citation | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        cited = {"citation": self.citation.payload()} if self.citation else {}
        return {"quote": self.quote, "verdict": self.verdict, **cited}


@dataclass(frozen=True)
class Checked:
    """A text as it was checked, with the quotes that were given for it."""

    claims: tuple[CheckedClaim, ...] = ()
    quotes: tuple[CheckedQuote, ...] = ()
    generation: str = ""
    receipt_id: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, int]:
        """Return how many claims have each verdict."""
        counts = Counter(claim.verdict for claim in self.claims)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "claims": [claim.payload() for claim in self.claims],
            **({"quotes": [quote.payload() for quote in self.quotes]} if self.quotes else {}),
            "summary": self.summary,
            "generation": self.generation,
            "receipt_id": self.receipt_id,
            "flags": list(self.flags),
        }


Source = Literal["keyword", "hybrid", "embedding"]
"""What found a passage: its words, words and meaning, or its meaning alone."""


@dataclass(frozen=True)
class Evidence:
    """A passage of the lock. Everything is of what its reader may see."""

    doc_slug: str  # short name of its document, else of its file, else the id of its page
    title: str
    category: str  # of its document; empty if it has none
    snippet: str
    """Where its text has most of the question's words. Here and in title, category and headings nothing is left of what
    is meant for an assistant."""
    score: float
    header_path: tuple[str, ...]
    content_hash: str  # of all texts of the page that the reader may see, in order
    matched_terms: tuple[str, ...]  # words of the question that title, labels, headings or text have
    source: Source
    match_explain: tuple[str, ...]  # what speaks for it, a line each
    chunk_index: int  # its place in the page
    chunk_hash: str  # of its text

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; a heading path is one line."""
        lists = {name: list(getattr(self, name)) for name in ("matched_terms", "match_explain")}
        return {**vars(self), **lists, "header_path": " > ".join(self.header_path)}


Status = Literal["answered", "not_found", "needs_more_context", "clarify", "refused", "unavailable"]
Outcome = Literal["told", "closest", "none"]
"""What a question came to: a confident answer; the passages that come closest, without confidence; nothing shown."""
Verification = Literal["exact", "fuzzy", "swapped", "ocr"]
"""How a quote was checked; `ocr`: it stands in the stored text, which was read from a picture of the page."""
Ranker = Literal["sidecar", "heuristic", "none"]
MOST_MEMBERS = 1_000
"""Members of a set in one reply; receipts and the digest cover all."""


@dataclass(frozen=True)
class Citation:
    """A verified quote as the reader sees it. Quotes of one passage share its number: passages are numbered by their
    first appearance in the answer, from 1 without gaps."""

    index: int  # the number shown, `[index]` in the answer
    chunk_id: str
    title: str
    heading_path: tuple[str, ...]
    url: str
    fragment_url: str
    quote: str
    space: str
    page_version: int
    verification: Verification
    start: int  # offsets of the quote in the chunk's text
    end: int
    also_at: tuple[Location, ...] = ()
    passage: int = 0  # its place in the lock, counted from 1
    page_id: str = ""
    source: str = ""
    updated_at: datetime | None = None  # when the page's version was made
    page: int | None = None  # of a paged document, from 1: where the quote begins
    page_label: str | None = None  # the document's own name of that page; None: not looked up, or it has none
    boxes: tuple[Box, ...] | None = None  # of the quote on that page; None: not looked up
    continued: tuple[PagePart, ...] = ()  # the pages that it goes on over
    ocr_confidence: int | None = None  # the least that OCR read it with, 0 to 100; None: no OCR read it
    book: BookPlace | None = None  # its passage's place in a book; None: in none

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; the place in the lock is for receipts alone."""
        also_at = [vars(place) for place in self.also_at]
        updated_at = self.updated_at.isoformat() if self.updated_at else None
        lists = {"heading_path": list(self.heading_path), "also_at": also_at, "boxes": boxes_payload(self.boxes)}
        lists["continued"] = [part.payload() for part in self.continued]
        lists["book"] = self.book.payload() if self.book else None
        shape = {**vars(self), **lists, "updated_at": updated_at}
        del shape["passage"]
        return shape


@dataclass(frozen=True)
class ShownClaim:
    """A part of an answer: words of a page, or a sentence of a model that is not verified."""

    text: str
    verified: Literal["verbatim", "model"]
    units: tuple[tuple[int, int], ...] = ()  # (passage of the lock from 1, number of its unit from 0)
    citation: int | None = None  # the number shown

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {**vars(self), "units": [list(unit) for unit in self.units]}


@dataclass(frozen=True)
class SearchResults:
    """Ranked candidates with the generation that gave them."""

    results: tuple[Candidate, ...]
    generation: str
    degraded: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] | None = None  # the reading of the query, if requested
    reranker: Ranker = "none"  # the ranker after fusion
    query: Query | None = None  # as it was read, if requested
    candidates: Sequence[Candidate] = ()  # all results, best first, if requested

    def payload(self) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "results": [candidate.result() for candidate in self.results],
            "generation": self.generation,
            "reranker": self.reranker,
            "degraded": list(self.degraded),
            "timings_ms": dict(self.timings_ms),
        }
        if STILL_INDEXING in self.degraded:
            shape[STILL_INDEXING] = True
        if self.notes is not None:
            shape["notes"] = list(self.notes)
        if self.query is not None:
            shape["query"] = self.query.payload()
            shape["candidates"] = [candidate.explanation() for candidate in self.candidates]
        return shape


@dataclass(frozen=True)
class Answer:
    """The answer for the reader."""

    status: Status
    answer: str
    citations: tuple[Citation, ...] = ()
    claims: tuple[ShownClaim, ...] = ()
    clarification: Clarification | None = None
    refusal: Refusal | None = None  # why it is none, or unconfident
    understood: str | None = None  # the question as it was completed from earlier ones
    passages: Sequence[Mapping[str, Any]] | None = None
    notes: tuple[str, ...] | None = None  # the reading of the question, if requested
    phase: int | None = None  # of retrieval that returned the passages: 3, 2, 1; None: none did
    generation: str = ""
    generator: str = ""  # the writer: extractive, or provider/model
    usage: Usage | None = None  # what the model took
    reranker: Ranker = "none"  # the ranker of the passages after fusion
    receipt_id: str | None = None
    gates: Mapping[str, float] = field(default_factory=dict)  # what the gates decided by
    features: Mapping[str, float] = field(default_factory=dict)  # the features behind the confidence among them
    evidence: tuple[Evidence, ...] = ()  # of every passage that was read
    rejected: Sequence[Mapping[str, Any]] = ()  # the next best sentences with their features, if requested
    decision: Decision | None = None  # on a question that only names a topic, or has two
    why: Mapping[str, Any] | None = None  # why these passages and not others, if requested
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    session_id: str | None = None  # of the stored session that it is kept in
    set: SetResult | None = None  # the whole requested set

    @property
    def outcome(self) -> Outcome:
        """Return whether this is a confident answer, the closest passages, or neither."""
        if self.status != "answered":
            return "none"
        return "closest" if self.refusal else "told"

    def payload(self) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "status": self.status,
            "outcome": self.outcome,
            "confidence": self.gates.get("confidence"),
            "threshold": self.gates.get("min_confidence"),
            "answer": self.answer,
            "citations": [citation.payload() for citation in self.citations],
            "claims": [claim.payload() for claim in self.claims],
            "clarification": self.clarification.payload() if self.clarification else None,
            "refusal": self.refusal.payload() if self.refusal else None,
            "understood": self.understood,
            "phase": self.phase,
            "evidence": [each.payload() for each in self.evidence],
            "generation": self.generation,
            "generator": self.generator,
            "usage": self.usage.payload() if self.usage else None,
            "reranker": self.reranker,
            "receipt_id": self.receipt_id,
            "timings_ms": dict(self.timings_ms),
            "flags": list(self.flags),
        }
        if self.passages is not None:
            shape["passages"] = [dict(passage) for passage in self.passages]
            shape["gates"] = dict(self.gates)
            shape["features"] = dict(self.features)
            shape["rejected"] = [dict(candidate) for candidate in self.rejected]
            shape["why"] = {**(self.why or {"passages": [], "left_out": []}), "flags": flags_told(self.flags)}
        if self.notes is not None:
            shape["notes"] = list(self.notes)
        if STILL_INDEXING in self.flags:
            shape[STILL_INDEXING] = True
        if self.session_id is not None:
            shape["session_id"] = self.session_id
        if self.set is not None:
            shape["set"] = self.set.payload(MOST_MEMBERS)
        return shape
