"""A text against the pages: each claim is searched within its reader's access, all on one view, and judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rag_serving.answering.citations import answer_text, citations_of, excerpt
from rag_serving.answering.comparing.typed import beginning, other_values
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.lock import has_anchor
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.checking.verdicts import CheckedPassage, ClaimFinding, TextClaim, claims_of, finding
from rag_serving.deadline import check
from rag_serving.indexes.view import ReaderView, Vector
from rag_serving.models.protocols import Embedder, ModelError, Progress
from rag_serving.pipeline.tenant import Inquiry
from rag_serving.records.answers import Answer, Checked, CheckedClaim, CheckedQuote, Citation
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.retrieval.hygiene import Hygiene
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.stage import Stage
from rag_serving.text.normalization import folded

TOGETHER = 25  # claims that are searched for in one go
_DEPTH = 10  # passages that a claim is compared with
_ASKED = 300  # characters of the text that logs and receipts have in place of a question
_OPERATORS = re.compile(r"[\"“”]|\b(?=(?:space|label|title):)", re.IGNORECASE)
_WRITER = "check"
NOTHING = "The pages have nothing of what this text claims."


def asked_in(text: str) -> str:
    """Return the beginning of a text, which represents it in stored questions."""
    return " ".join(text[:_ASKED].split())


@dataclass(frozen=True)
class _Known:
    """The model with the vectors of some texts, which were made together."""

    embedder: Embedder
    vectors: dict[str, Vector]

    @property
    def name(self) -> str:
        return self.embedder.name

    @property
    def dimension(self) -> int:
        return self.embedder.dimension

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Any:
        return self.embedder.embed_documents(texts, progress)

    def embed_query(self, text: str) -> Vector:
        known = self.vectors.get(text)
        return self.embedder.embed_query(text) if known is None else known

    def check(self) -> str:
        return self.embedder.check()


class _Quoted(NamedTuple):
    """A quote that was given for a text, and the passage that has it; None if no readable one has."""

    quote: str
    chunk: Chunk | None


def _alone(chunk: Chunk) -> Lock:
    return Lock((Candidate(chunk, 0.0),))


class Checking:
    """One text on one reader's view. `candidates` searches for an inquiry: `ask.candidates`."""

    def __init__(self, inquiry: Inquiry, candidates: Callable[[Inquiry, int], Search]) -> None:
        self._inquiry, self._candidates = inquiry, candidates
        self._passages: dict[str, CheckedPassage] = {}

    def run(self, quotes: Sequence[str] = ()) -> tuple[Checked, AnswerTrace]:
        """Return the claims of the text with their verdicts, the quotes that were given for it, and what a receipt
        keeps of both."""
        every = list(claims_of(self._inquiry.selection))
        pending = iter([claim for claim in every if claim.claims])
        count, findings = sum(claim.claims for claim in every), dict[int, ClaimFinding]()
        while batch := list(islice(pending, TOGETHER)):
            self._inquiry.trace.tell("check", f"{len(findings)} of {count} claims")
            findings |= zip(
                [claim.start for claim in batch], self._inquiry.in_phase(partial(self._found, batch)), strict=True
            )
        quoted = self._inquiry.in_phase(partial(self._quoted, quotes)) if quotes else []
        return self._cited(every, findings, quoted)

    def _found(self, batch: Sequence[TextClaim], inquiry: Inquiry) -> list[ClaimFinding]:
        texts = {claim.start: _OPERATORS.sub(" ", folded(claim.alone)) for claim in batch}
        known = self._known(texts.values(), inquiry)
        return [self._finding(claim, inquiry, texts[claim.start], known) for claim in batch]

    def _quoted(self, quotes: Sequence[str], inquiry: Inquiry) -> list[_Quoted]:
        """Return each quote with the first passage that has it: exactly, or but for a slip."""
        texts = [_OPERATORS.sub(" ", folded(quote)) for quote in quotes]
        known, found = self._known(texts, inquiry), list[_Quoted]()
        for quote, text in zip(quotes, texts, strict=True):
            draft, (_, chunks) = Draft((Claim(quote, 1, quote),), _WRITER), self._search(text, inquiry, known)
            locks = ((chunk, _alone(chunk)) for chunk in chunks)
            having = (chunk for chunk, lock in locks if citations_of(verify(draft, lock, rules=self._rules(1)), lock))
            found.append(_Quoted(quote, next(having, None)))
        return found

    def _known(self, texts: Iterable[str], inquiry: Inquiry) -> _Known:
        embedder = inquiry.vectors
        try:
            wanted = [*dict.fromkeys(texts)] if inquiry.mode not in ("lexical", "keyword") else []
            with inquiry.trace.part("embed"):
                vectors = dict(zip(wanted, np.asarray(embedder.embed_documents(wanted)), strict=True)) if wanted else {}
        except ModelError:
            vectors = {}  # the search says so itself
        return _Known(embedder, vectors)

    def _search(self, text: str, inquiry: Inquiry, known: Embedder) -> tuple[Search, list[Chunk]]:
        check()
        one = inquiry.variant(request=replace(inquiry.request, text=text))
        one.embedder = known
        found = self._candidates(one, 3 * _DEPTH)
        labels = frozenset(inquiry.config.ingestion.drop_labels)
        found = found.then((Stage("hygiene", Hygiene(labels)),), inquiry.trace)
        chunks = found.context.passages.read(found.ranking.head(_DEPTH).rows)
        return found, [chunk for chunk in chunks if has_anchor(chunk.url)]

    def _finding(self, claim: TextClaim, inquiry: Inquiry, text: str, known: Embedder) -> ClaimFinding:
        found, chunks = self._search(text, inquiry, known)
        passages = [self._passage(chunk, inquiry.view) for chunk in chunks]
        similarity = found.stored_similarity([passage.chunk.chunk_id for passage in passages])
        return finding(claim, passages, found.context.term_weights, similarity)

    def _passage(self, chunk: Chunk, view: ReaderView) -> CheckedPassage:
        if chunk.chunk_id not in self._passages:
            self._passages[chunk.chunk_id] = CheckedPassage(chunk, beginning(view.beside, chunk))
        return self._passages[chunk.chunk_id]

    def _rules(self, count: int) -> VerificationRules:
        return VerificationRules(self._inquiry.answering.rules.fuzzy_min, max_citations=count)

    def _cited(
        self, every: Sequence[TextClaim], findings: dict[int, ClaimFinding], quoted: Sequence[_Quoted]
    ) -> tuple[Checked, AnswerTrace]:
        """Return the claims and quotes with citations that were verified, numbered by passage."""
        chunks = {found.passage.chunk.chunk_id: found.passage.chunk for found in findings.values() if found.passage}
        chunks |= {one.chunk.chunk_id: one.chunk for one in quoted if one.chunk}
        numbers = {chunk_id: number for number, chunk_id in enumerate(chunks, start=1)}
        rules = self._rules(len(findings) + len(quoted) + 1)
        checked, drafted, differences = list[CheckedClaim](), dict[Claim, int](), list[dict[str, Any]]()
        for claim in every:
            found = findings.get(claim.start, ClaimFinding("no_claim"))
            place = claim.text, claim.start, claim.end
            if found.passage is None or found.unit is None:
                checked.append(CheckedClaim(*place, found.verdict))
                continue
            chunk = found.passage.chunk
            number = numbers[chunk.chunk_id]
            drawn = Claim(found.said or claim.alone, number, found.unit.of(chunk.text))
            place_of = drafted.setdefault(drawn, len(drafted) + 1)
            differences += ({"verdict": place_of, **values} for values in _noted(found, drawn))
            verdicts, cited = self._verified(drawn, chunk, rules)
            is_own = verdicts[0].support == "verbatim"
            verdict = found.verdict if cited and (found.verdict != "verbatim" or is_own) else "closest"
            says = excerpt(verdicts[0].told) if cited else None
            checked.append(CheckedClaim(*place, verdict if cited else "absent", cited, says))
        looked_for = list[CheckedQuote]()
        for given in quoted:
            cited = None
            if given.chunk:
                drawn = Claim(given.quote, numbers[given.chunk.chunk_id], given.quote)
                drafted.setdefault(drawn, len(drafted) + 1)
                _, cited = self._verified(drawn, given.chunk, rules)
            looked_for.append(CheckedQuote(given.quote, "verbatim" if cited else "absent", cited))
        lock = Lock(tuple(Candidate(chunk, 0.0) for chunk in chunks.values()))
        told = Checked(tuple(checked), tuple(looked_for), self._inquiry.view.id)
        return told, replace(self._trace(Draft(tuple(drafted), _WRITER), lock, rules), differences=differences)

    def _verified(
        self, drawn: Claim, chunk: Chunk, rules: VerificationRules
    ) -> tuple[Sequence[Verdict], Citation | None]:
        """Return the verdicts on a claim by its passage alone, and its citation if its quote is there."""
        alone = _alone(chunk)
        verdicts = verify(Draft((replace(drawn, index=1),), _WRITER), alone, rules=rules)
        cited = (replace(one, index=drawn.index, passage=drawn.index) for one in citations_of(verdicts, alone))
        return verdicts, next(cited, None)

    def _trace(self, draft: Draft, lock: Lock, rules: VerificationRules) -> AnswerTrace:
        verdicts, generation = verify(draft, lock, self._inquiry.request.text, rules), self._inquiry.view.id
        answer = Answer("not_found", NOTHING, generation=generation, generator=_WRITER)
        if citations := citations_of(verdicts, lock):
            answer = replace(answer, status="answered", answer=answer_text(verdicts, lock), citations=citations)
        return AnswerTrace(answer, draft, lock, verdicts, rules=rules)


def _noted(found: ClaimFinding, claim: Claim) -> list[dict[str, Any]]:
    """Return the values by which a claim and its quote differ, where both texts alone have them."""
    if found.values is None:
        return []
    said = [value.said for value in found.values]
    pairs = other_values(claim.text, claim.quote)
    return [pair for pair in pairs if [pair["claim"]["said"], pair["page"]["said"]] == said][:1]
