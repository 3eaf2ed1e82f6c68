"""A question with what was locked for it.

Belongs here: what the stages after the lock are given. Does not belong here: searching and locking
(`pipeline.answers`), deciding what is meant (`retrieval.clarity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from rag_serving.answering.answerer import Question
from rag_serving.answering.comparing.precedence import beginning
from rag_serving.answering.gates import is_heading
from rag_serving.answering.selection.selector import Part
from rag_serving.config.sections import Gates
from rag_serving.indexes.protocols import ReaderView
from rag_serving.query.languages import FARTHER_ABROAD, knows
from rag_serving.receipts.recording import Request
from rag_serving.records.decisions import Contender
from rag_serving.records.evidence import Evidence
from rag_serving.records.passages import Candidate, Lock
from rag_serving.retrieval.clarity import introduction, topic_asked
from rag_serving.retrieval.evidence import evidence_of
from rag_serving.retrieval.search import Search


@dataclass(frozen=True)
class Asked:
    """A question with the passages that were locked for it.

    Attributes:
        is_foreign: it is in a language that the pages are not in.
        parts: what is asked of some of the passages, apart from the others.
        told: the two things that it asks for, where it asks for two.
        gates: None: those of the configuration.
        second: the search for the second of two things; its passages are those of the second part.
    """

    view: ReaderView
    search: Search
    lock: Lock
    is_foreign: bool
    parts: tuple[Part, ...] = ()
    told: tuple[Contender, ...] = ()
    gates: Gates | None = None
    second: Search | None = None

    @property
    def is_known(self) -> bool:
        """Whether the search model knows the language of the question."""
        return knows(self.view.embedder.name, self.search.query.language)

    def question(self, request: Request) -> Question:
        """Return the question as the stages after the lock need it."""
        query, view = self.search.query, self.view
        return Question(
            text=request.text if self.told else query.text,
            original=request.original or request.text,
            weights=self._weights,
            vector=self.search.context.vector,
            stored=self.search.stored_similarity(self.lock.chunk_ids),
            remark=query.remark and (None if is_heading(query.text, self.lock) else query.remark),
            opening=partial(beginning, view.beside),
            is_foreign=self.is_foreign,
            farther=FARTHER_ABROAD if self.is_foreign and self.is_known else 0.0,
            analyze=query.analyze,
            parts=self.parts,
            decision=self.search.decision,
            gates=self.gates,
            occasion=request.occasion,
        )

    def introduced(self, count: int) -> Asked:
        """Return the question with the passages first that begin the page or section which it names, where it is clear
        which one that is: of these alone it is answered."""
        decision = self.search.decision
        if decision is None or decision.action != "answer" or not decision.contenders or not topic_asked(self.search):
            return self
        meant = decision.contenders[0]
        others = [each for each in self.lock.passages if each.chunk.page_id == meant.page_id]
        first = introduction(self.search, meant)
        if not first:
            return replace(self, lock=Lock(tuple(others))) if others else self
        lock = _once([*first, *others])
        return replace(self, lock=Lock(lock[: max(count, len(first))]), parts=(self.part(0, len(first), True),))

    def evidence(self, lock: Lock, has_snippets: bool) -> tuple[Evidence, ...]:
        """Return the evidence of the passages of a lock, each by the search that found it."""
        if self.second is None:
            return evidence_of(self.search, lock, has_snippets)
        at = self.parts[1].first
        found = ((self.search, lock.passages[:at]), (self.second, lock.passages[at:]))
        return tuple(each for search, part in found for each in evidence_of(search, Lock(part), has_snippets))

    def part(self, first: int, count: int, is_named: bool) -> Part:
        """Return the question as what is asked of some passages of a lock."""
        context, query = self.search.context, self.search.query
        text = f"What is {query.text.strip(' ?!.')}?" if is_named else query.text
        stored = self.search.stored_similarity(self.lock.chunk_ids)
        return Part(text, context.term_weights, first, count, is_named, context.vector, stored)

    @property
    def _weights(self) -> dict[str, float]:
        """The weights of the terms of all that is asked."""
        weights = dict(self.search.context.term_weights)
        for part in self.parts:
            weights |= part.weights
        return weights


def _once(candidates: list[Candidate]) -> tuple[Candidate, ...]:
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.chunk.chunk_id, candidate)
    return tuple(found.values())
