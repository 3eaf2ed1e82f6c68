"""What travels between the stages of a question: candidates, the lock, citations, the answer.

Belongs here: plain immutable records, their JSON shapes (the documented interface).
Does not belong here: anything that computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rag_serving.flags import flags_told
from rag_serving.places import BookPlace, Box, Location, PagePart, boxes_payload
from rag_serving.queries import Query
from rag_serving.refusal import Clarification, Refusal
from rag_serving.text.page_marks import confidence_of, page_at
from rag_serving.text.structure import Structure, decode, structure_of

Status = Literal["answered", "not_found", "needs_more_context", "clarify", "refused", "unavailable"]
Outcome = Literal["told", "closest", "none"]
"""What a question came to: a confident answer; the passages that come closest, without confidence; nothing shown."""
Verification = Literal["exact", "fuzzy", "swapped", "ocr"]
"""How a quote was checked; `ocr`: it stands in the stored text, which was read from a picture of the page."""
Support = Literal["verbatim", "carried", "quoted", "unchecked"]
"""What the sentence of a claim is worth: its passage's own words; carried by them word by word; not carried, so that
readers see the passage's own sentence in its place; not looked at, because the claim was dropped."""
EXTRACTIVE = "extractive"
"""The writer whose sentences are cut out of passages."""
Ranker = Literal["sidecar", "heuristic", "none"]


@dataclass(frozen=True)
class Chunk:
    """A citable passage of one page version, as a generation stores it."""

    chunk_id: str
    page_id: str
    version: int
    chunk_idx: int
    space: str
    title: str
    heading_path: tuple[str, ...]
    anchor: str
    url: str
    text: str
    start: int
    end: int
    content_type: str
    context_before: str = ""
    context_after: str = ""
    labels: tuple[str, ...] = ()
    is_boilerplate: bool = False
    text_hash: str = ""
    updated_at: datetime | None = None
    structure: str = ""  # of the text, as ingest knew it; empty where no ingest has read it
    section_id: str = ""
    source: str = ""
    kind: str = "page"  # page, comments, attachment or document
    passage_id: str | None = None  # place in its book, such as ch3-sec2-p45; None: no book
    chapter: str | None = None  # number and title of its chapter
    section: str | None = None  # number and title of its page below the chapter's own
    page_order: int | None = None  # place of its page in the source's reading order, from 1; None: it has none
    source_file: str | None = None  # that its page was read from, below the source's folder
    also_at: tuple[Location, ...] = ()

    @property
    def page_number(self) -> int | None:
        """The page of a paged document that the text begins on, from 1."""
        return self.page_at(0)

    def page_at(self, position: int) -> int | None:
        """Return the page of a paged document that a character of the text stands on, from 1; of what no ingest has
        read its anchor tells (RFC 8118)."""
        if marks := self.parts.marks:
            return page_at(marks, position)
        number = self.anchor.removeprefix("page=")
        return int(number) if number != self.anchor and number.isdecimal() and len(number) < 10 else None

    def ocr_confidence(self, start: int, end: int) -> int | None:
        """Return the least confidence that OCR read some of `text[start:end]` with; None: OCR read none of it."""
        return confidence_of(self.parts.marks, start, end)

    @property
    def in_book(self) -> BookPlace | None:
        """Where the passage stands in its book; None outside of books."""
        if self.passage_id is None:
            return None
        page = self.page_number or self.page_order
        return BookPlace(self.passage_id, self.chapter, self.section, page, self.source_file)

    @property
    def parts(self) -> Structure:
        """The units of the text and what they belong to."""
        return decode(self.structure) if self.structure else structure_of(self.text)

    @property
    def headings(self) -> str:
        """The page's title and the headings that the passage stands under, a line each."""
        return "\n".join(dict.fromkeys((self.title, *self.heading_path)))


@dataclass(frozen=True)
class Candidate:
    """A chunk that may become a passage, with what each stage said of it."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)  # in each index that found it, from 1
    dropped_by: str | None = None  # the stage that kept it from being a passage

    def explanation(self) -> dict[str, Any]:
        """Return the JSON shape of a candidate of an explained search."""
        return {
            "chunk_id": self.chunk.chunk_id,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
            "dropped_by": self.dropped_by,
        }

    def result(self) -> dict[str, Any]:
        """Return the JSON shape of one search result."""
        chunk = self.chunk
        return {
            "chunk_id": chunk.chunk_id,
            "page_id": chunk.page_id,
            "page_version": chunk.version,
            "space": chunk.space,
            "title": chunk.title,
            "heading_path": list(chunk.heading_path),
            "anchor": chunk.anchor,
            "url": chunk.url,
            "text": chunk.text,
            "score": self.score,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
            "also_at": [vars(place) for place in chunk.also_at],
            **({"book": chunk.in_book.payload()} if chunk.in_book else {}),
        }


@dataclass(frozen=True)
class Lock:
    """The frozen passages `[1..N]` of one answer; nothing outside can be cited."""

    passages: tuple[Candidate, ...]

    def __len__(self) -> int:
        return len(self.passages)

    def passage(self, index: int) -> Candidate | None:
        """Return the passage cited as `[index]`, counted from 1, or None outside the lock."""
        return self.passages[index - 1] if 1 <= index <= len(self.passages) else None

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        return tuple(candidate.chunk.chunk_id for candidate in self.passages)


@dataclass(frozen=True)
class Claim:
    """A sentence a generator wrote, the passage it cites, and the words it quotes from there."""

    text: str
    index: int
    quote: str
    others: tuple[str, ...] = ()  # what else the sentence quotes; it must stand, too


@dataclass(frozen=True)
class RejectedCandidate:
    """A sentence that extraction ranked and did not choose, with what speaks for it."""

    passage: int  # its place in the lock, from 1
    text: str
    score: float  # by which sentences of one question are ordered
    features: Mapping[str, float]


@dataclass(frozen=True)
class Usage:
    """What a reply of a model took."""

    prompt_tokens: int
    completion_tokens: int
    cost: float  # by the configuration's prices

    def payload(self) -> dict[str, float]:
        return dict(vars(self))


@dataclass(frozen=True)
class Draft:
    """What a generator wrote, before anything is believed. No claim, or declined: it found nothing."""

    claims: tuple[Claim, ...]
    model: str
    declined: bool = False
    flags: tuple[str, ...] = ()  # what is not as it should be
    notes: tuple[str, ...] = ()  # what was done on the way, a line each
    usage: Usage | None = None
    confidence: float | None = None  # how likely the best claim answers, 0 to 1; None: the writer does not say
    evidence: Mapping[str, float] = field(default_factory=dict)  # what speaks for the best claim, by name
    rejected: tuple[RejectedCandidate, ...] = ()  # the next best, best first
    further: tuple[Claim, ...] = ()  # what comes next, for who is shown what comes closest


@dataclass(frozen=True)
class CarriedWord:
    """A word of a sentence, and the words of a cited passage that carry it."""

    word: str
    by: str
    how: Literal["exact", "inflection", "synonym", "figure"]


@dataclass(frozen=True)
class Verdict:
    """What verification said of one claim's quote."""

    claim: Claim
    outcome: Literal["exact", "fuzzy", "swapped", "dropped"]
    reason: str
    index: int | None = None
    start: int | None = None  # offsets of the quote in the passage's text
    end: int | None = None
    told: str = ""  # the claim's sentence, with what it quotes only nearly as the passages have it
    support: Support = "unchecked"
    carried: tuple[CarriedWord, ...] = ()  # which words of the passage carry each word of the sentence
    judged: bool | None = None  # whether it follows from the passage, as a model says; None: not asked, or no answer


@dataclass(frozen=True)
class Citation:
    """A verified quote as the reader sees it.

    Quotes of one passage share its number: passages are numbered by their first appearance in the answer, from 1
    without gaps.
    """

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
    book: BookPlace | None = None  # where its passage stands in a book; None: in none

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
class SearchResults:
    """Ranked candidates with the generation that gave them."""

    results: tuple[Candidate, ...]
    generation: str
    degraded: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] | None = None  # how the query was read, where that was asked for
    reranker: Ranker = "none"  # who ranked them after fusion
    query: Query | None = None  # as it was read, where that was asked for
    candidates: Sequence[Candidate] = ()  # all that were found, best first, where that was asked for

    def payload(self) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "results": [candidate.result() for candidate in self.results],
            "generation": self.generation,
            "reranker": self.reranker,
            "degraded": list(self.degraded),
            "timings_ms": dict(self.timings_ms),
        }
        if self.notes is not None:
            shape["notes"] = list(self.notes)
        if self.query is not None:
            shape["query"] = self.query.payload()
            shape["candidates"] = [candidate.explanation() for candidate in self.candidates]
        return shape


@dataclass(frozen=True)
class Answer:
    """What the reader gets."""

    status: Status
    answer: str
    citations: tuple[Citation, ...] = ()
    clarification: Clarification | None = None
    refusal: Refusal | None = None  # why it is none, or not told with confidence
    understood: str | None = None  # the question as it was completed from earlier ones
    passages: Sequence[Mapping[str, Any]] | None = None
    notes: tuple[str, ...] | None = None  # how the question was read, where that was asked for
    generation: str = ""
    generator: str = ""  # who wrote it: extractive, or provider/model
    usage: Usage | None = None  # what the model took
    reranker: Ranker = "none"  # who ranked the passages after fusion
    receipt_id: str | None = None
    gates: Mapping[str, float] = field(default_factory=dict)  # what the gates decided by
    evidence: Mapping[str, float] = field(default_factory=dict)  # what the confidence among them was told from
    rejected: Sequence[Mapping[str, Any]] = ()  # the next best sentences with their features, where asked for
    why: Mapping[str, Any] | None = None  # why these passages and not others, where asked for
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

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
            "clarification": self.clarification.payload() if self.clarification else None,
            "refusal": self.refusal.payload() if self.refusal else None,
            "understood": self.understood,
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
            shape["evidence"] = dict(self.evidence)
            shape["rejected"] = [dict(candidate) for candidate in self.rejected]
            shape["why"] = {**(self.why or {"passages": [], "left_out": []}), "flags": flags_told(self.flags)}
        if self.notes is not None:
            shape["notes"] = list(self.notes)
        return shape
