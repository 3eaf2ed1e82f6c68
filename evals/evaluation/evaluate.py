"""The quality of answers to a gold set, run one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evals.evaluation.gold import GoldQuestion, GoldSet
from evals.evaluation.metrics import percentiles
from rag_serving.answering.citations import claims_of
from rag_serving.ask import Pipeline
from rag_serving.indexes.generation import Generation
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.flags import FINDINGS
from rag_serving.text.normalization import fold
from rag_serving.text.structure import decode, page_anchor

_CHUNKS = 50  # that a ranking of pages is made of
_MARKER = re.compile(r"(?<!\s)\s*\[\d{1,3}\]$")

Report = Callable[[str, int, int], None]  # what is done, how much of it, of how much
Anchors = Mapping[str, frozenset[str]]  # the anchors of a page, by page id


class EvaluationError(Exception):
    """The answers would not be the product's; the message says why."""


@dataclass(frozen=True)
class Judged:
    """An answer beside what is known of its question."""

    gold: GoldQuestion
    answer: Answer
    anchored: int  # citations whose link lands on an anchor of the cited page

    @property
    def answered(self) -> bool:
        """Return whether the answer is confident: the closest passages are no answer."""
        return self.answer.outcome == "told"

    @property
    def cited(self) -> tuple[Citation, ...]:
        """The citations of a confident answer."""
        return self.answer.citations if self.answered else ()

    @property
    def closest(self) -> tuple[Citation, ...]:
        """The citations of the closest passages."""
        return () if self.answered else self.answer.citations

    @property
    def cited_right(self) -> int:
        """Citations of a confident answer that are of a page which the gold set names."""
        return self.right_of(self.cited)

    def right_of(self, citations: Iterable[Citation]) -> int:
        """Return how many citations are of a page that the gold set names."""
        return sum(page_of(citation) in self.gold.pages for citation in citations)

    @property
    def is_precise(self) -> bool:
        """Return whether every cited page is in the gold set."""
        return self.answered and self.cited_right == len(self.cited)

    @cached_property
    def says_it(self) -> bool:
        """Return whether the answer contains a gold quote, or a shown quote is part of one, on a right page."""
        if not self.cited_right:
            return False
        shown = [citation.quote for citation in self.answer.citations if page_of(citation) in self.gold.pages]
        return any(says(part, self.gold.quotes) for part in (*claims_of(self.answer), *shown))

    @property
    def fault(self) -> str | None:
        """The fault in words; None without one."""
        if not self.gold.answerable:
            return "answered although there is no answer" if self.answered else None
        if not self.answered:
            is_closest = self.answer.outcome == "closest"
            return "not answered: shown as the closest" if is_closest else f"not answered: {self.answer.status}"
        if not self.cited_right:
            return "no citation of the right page"
        if not self.is_precise:
            return "a citation of another page"
        return None if self.says_it or not self.gold.quotes else "the sentence is another one"

    def failure(self) -> dict[str, Any]:
        """Return question, outcome, fault and citations."""
        payload = self.payload()
        told = {name: payload[name] for name in ("id", "question", "status", "outcome", "fault")}
        return {**told, "cited": [citation.url for citation in self.answer.citations]}

    def payload(self) -> dict[str, Any]:
        """Return question, answer and faults."""
        return {
            "id": self.gold.id,
            "question": self.gold.question,
            "answerable": self.gold.answerable,
            "status": self.answer.status,
            "outcome": self.answer.outcome,
            "confidence": self.answer.gates.get("confidence"),
            "fault": self.fault,
            "answer": self.answer.answer,
            "timings_ms": dict(self.answer.timings_ms),
        }


@dataclass(frozen=True)
class GoldEvaluation:
    """The figures of a gold set."""

    judged: tuple[Judged, ...]

    @property
    def citation_precision(self) -> float | None:
        """Citations of a right page over all citations in confident answers to questions with a known page."""
        known = [case for case in self.judged if case.gold.pages]
        return _share(sum(case.cited_right for case in known), sum(len(case.cited) for case in known))

    @property
    def closest(self) -> dict[str, float | None]:
        """The number of closest passages shown instead of an answer, of answerable questions among them, and the share
        of their citations on a right page."""
        shown = [case for case in self.judged if case.closest]
        known = [case for case in shown if case.gold.pages]
        right = sum(case.right_of(case.closest) for case in known)
        return {
            "shown": len(shown),
            "answerable": sum(case.gold.answerable for case in shown),
            "citation_precision": _share(right, sum(len(case.closest) for case in known)),
        }

    @property
    def sentence_precision(self) -> float | None:
        """Answers that say a gold quote over the answered answerable questions that have one."""
        asked = [case for case in self.judged if case.gold.answerable and case.gold.quotes and case.answered]
        return _share(sum(case.says_it for case in asked), len(asked))

    @property
    def answerability(self) -> dict[str, float | None]:
        """Accuracy of answering with confidence at all; precision and recall of not doing so."""
        right = sum(case.answered == case.gold.answerable for case in self.judged)
        declined = [case for case in self.judged if not case.answered]
        missed = sum(not case.gold.answerable for case in declined)
        return {
            "accuracy": _share(right, len(self.judged)),
            "precision": _share(missed, len(declined)),
            "recall": _share(missed, sum(not case.gold.answerable for case in self.judged)),
        }

    @property
    def anchor_validity(self) -> float | None:
        """Citations whose link lands on an anchor of the cited page over all citations."""
        return _share(
            sum(case.anchored for case in self.judged), sum(len(case.answer.citations) for case in self.judged)
        )

    @property
    def latency_ms(self) -> dict[str, dict[str, float]]:
        """p50 and p95 of each stage over the questions that went through it."""
        return percentiles(judged.answer.timings_ms for judged in self.judged)

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of `evaluate --json`."""
        return {
            "questions": len(self.judged),
            "answered": sum(case.answered for case in self.judged),
            "citation_precision": self.citation_precision,
            "sentence_precision": self.sentence_precision,
            "answerability": self.answerability,
            "anchor_validity": self.anchor_validity,
            "closest": self.closest,
            "latency_ms": self.latency_ms,
            "failed": [case.failure() for case in self.judged if case.fault],
        }


def evaluate(pipeline: Pipeline, gold: GoldSet, report: Report | None = None, explain: bool = False) -> GoldEvaluation:
    """Ask every question of the set as the one it names, and judge the answers; `explain` keeps their passages.

    Raises:
        EvaluationError: a question could not be answered because a part of the product is down.
        UnpublishedError: there is no generation to ask.
    """
    anchors = _anchors(pipeline)
    judged = []
    for done, question in enumerate(gold.questions, start=1):
        answer = pipeline.ask(question.asker(pipeline.tenant), question.question, explain=explain)
        faults = [flag for flag in answer.flags if flag not in FINDINGS]  # what pages say is no fault of ours
        if answer.status == "unavailable" or faults:
            why = ", ".join(faults) or answer.answer
            raise EvaluationError(f"question {question.id!r} was not answered as built ({why}); see `citelock doctor`")
        judged.append(judge(question, answer, anchors))
        if report:
            report("questions asked", done, len(gold.questions))
    return GoldEvaluation(tuple(judged))


def rank_pages(pipeline: Pipeline, gold: GoldSet) -> dict[str, list[str]]:
    """Return the results of search for every answerable question with a known page, best first, each page once."""
    ranked = {}
    for question in gold.questions:
        if question.answerable and question.pages:
            results = pipeline.search(question.asker(pipeline.tenant), question.question, _CHUNKS).results
            ranked[question.id] = list(dict.fromkeys(result.chunk.page_id for result in results))
    return ranked


def judge(question: GoldQuestion, answer: Answer, anchors: Anchors) -> Judged:
    """Return an answer beside its question; `anchors` are those of the generation that answered."""
    anchored = sum(
        citation.url.partition("#")[2] in anchors.get(page_of(citation), frozenset()) for citation in answer.citations
    )
    return Judged(question, answer, anchored)


def says(text: str, quotes: Iterable[str]) -> bool:
    """Return whether the text contains one of the quotes or is part of one, white space, case and typography aside."""
    said = _plain(_MARKER.sub("", text))
    return bool(said) and any(quote in said or said in quote for quote in map(_plain, quotes))


def page_of(citation: Citation) -> str:
    """Return the page id inside a chunk id (`{page_id}:{version}:{chunk_idx}`)."""
    return citation.chunk_id.rsplit(":", 2)[0]


def _anchors(pipeline: Pipeline) -> Anchors:
    with pipeline.published.acquire() as generation:
        if not isinstance(generation, Generation):
            raise EvaluationError("a generation in a database is not evaluated; set CITELOCK_INDEX__KIND=disk")
        columns = [generation.table[name].to_pylist() for name in ("page_id", "url", "structure")]
        anchors: dict[str, set[str]] = {}
        for page, url, structure in zip(*columns, strict=True):
            names = anchors.setdefault(page, set())
            if anchor := url.partition("#")[2]:
                names.add(anchor)
            if anchor.startswith("page=") and structure:  # a quote may be on a later page than its passage begins
                names |= {page_anchor(mark.page) for mark in decode(structure).marks}
    return {page: frozenset(names) for page, names in anchors.items()}


def _plain(text: str) -> str:
    return fold(text).text.strip().casefold()


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
