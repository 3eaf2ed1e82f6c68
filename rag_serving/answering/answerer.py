"""From the lock to the answer: gates, generation, verification, the visible text. Nothing here knows an index or a
generation: whatever a model writes, nothing can be retrieved any more, and nothing outside the lock can be cited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rag_serving.answering.citations import shown_numbers
from rag_serving.answering.comparing.conflicts import Comparison, Differing, Other, differing
from rag_serving.answering.comparing.typed import Opening, Standing, differ, mark_of, measures
from rag_serving.answering.composing import AnswerTrace, Composition, VerifiedDraft
from rag_serving.answering.gates import (
    Stop,
    gate_meaning,
    gate_passages,
    gate_question,
    is_close,
    least_confidence,
    likeness,
)
from rag_serving.answering.selection.selector import (
    MODEL,
    QuestionPart,
    Quoting,
    Selecting,
    Similarity,
    StoredSimilarity,
    claims_for,
    select,
    selected_apart,
)
from rag_serving.answering.selection.signs import QuestionFeatures, Tables, WeightsError, calibrated
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.answering.writing.generator import Generator, Selection
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.sections import Gates
from rag_serving.models.protocols import Embedder
from rag_serving.records.answers import Citation
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.decisions import Clarification, Decision
from rag_serving.records.flags import CLOSEST_PASSAGE, CONFLICTING, LOW_OCR, OCR_QUOTE, SUPERSEDED
from rag_serving.records.passages import Lock
from rag_serving.records.queries import PLAIN, Occasion
from rag_serving.text.analyzer import analyze
from rag_serving.text.currency import Mark, docs_version, names_version
from rag_serving.text.question_types import kind_of
from rag_serving.text.small_talk import Remark
from rag_serving.text.stemming import Analyze
from rag_serving.tracing import StageTrace

Vector = NDArray[np.float32]
NO_VECTORS, UNSUPPORTED = "sentence_vectors_unavailable", "unsupported_claims"


@dataclass(frozen=True)
class Question:
    """A question as the stages after the lock need it."""

    text: str  # as it was read
    original: str  # as it was typed
    weights: Mapping[str, float]  # of its terms
    vector: Vector | None = None
    stored: StoredSimilarity | None = None  # of sentences whose vectors were made when their passages were published
    remark: Remark | None = None  # its kind if it is no question about the pages
    opening: Opening = lambda _: ()  # how the page of a passage begins
    is_foreign: bool = False  # in a language that the pages are not in: passages are near by meaning alone
    farther: float = 0.0  # by how much of similarity they are then farther off
    gates: Gates | None = None  # None: those of the configuration
    occasion: Occasion = PLAIN
    analyze: Analyze = analyze  # gives the terms of a text as `weights` have them
    parts: tuple[QuestionPart, ...] = ()  # each for some of the passages; none: the whole question is for all
    decision: Decision | None = None  # whether it is clear what it means, where that was decided


class Answering:
    """Writes answers from locked passages. Safe to use from several threads."""

    def __init__(self, config: Config, embedder: Embedder) -> None:
        """Read the weights of the extractive generator. Raises ConfigError: `gates.confidence_weights` is unusable."""
        self.config, self.embedder = config, embedder
        self.generator = Generator(config.generation, budgets=config.prompt)
        self.tables = open_tables(config)

    def answer(
        self, trace: StageTrace, asked: Question, lock: Lock, generation: str = "", explain: bool = False
    ) -> AnswerTrace:
        """Return the answer from the passages of the lock; `generation` is the id of their generation."""
        return Answerer(self, trace, asked, lock, generation, explain).answer()

    def similarity(self, vector: Vector | None, stored_of: StoredSimilarity | None) -> Similarity | None:
        """Return a comparison of texts with a question by meaning; None without its vector. Texts without a stored
        vector are embedded now."""
        if vector is None:
            return None

        def similarities(texts: Sequence[str]) -> list[float]:
            stored = stored_of(texts) if stored_of else [None] * len(texts)
            missing = [text for text, value in zip(texts, stored, strict=True) if value is None]
            made = iter((self.embedder.embed_documents(missing) @ vector).tolist() if missing else ())
            return [next(made) if value is None else value for value in stored]

        return similarities

    @property
    def rules(self) -> VerificationRules:
        """Return the rules of verdicts, for verifying again."""
        fuzzy_min, settings = self.config.verification.fuzzy_partial_ratio_min, self.config.generation
        return VerificationRules(fuzzy_min, settings.max_citations, settings.require_quotes, settings.quote_max_words)


@dataclass(frozen=True)
class Answerer:
    """One question with the passages that answer it."""

    by: Answering
    trace: StageTrace
    asked: Question
    lock: Lock
    generation: str
    explain: bool

    @property
    def gates(self) -> Gates:
        return self.asked.gates or self.by.config.gates

    @cached_property
    def features(self) -> QuestionFeatures:
        return QuestionFeatures.of(self.asked.text, self.asked.weights, self.asked.analyze)

    def answer(self) -> AnswerTrace:
        """Return the answer from the passages."""
        trace, asked, lock, settings = self.trace, self.asked, self.lock, self.by.config.generation
        found = likeness(lock, set(asked.weights), asked.weights, asked.analyze)
        if stop := self._stop(found):
            return self._stopped(stop, found)
        quoting = Quoting(self.features, asked.analyze, settings.quote_max_words)
        with trace.part("generate"):
            draft = self.by.generator.write(
                asked.text,
                lock,
                Selection(self._selected, lambda index, unit: claims_for(quoting, lock, [(index, unit)])),
                lambda chars: trace.tell("generate", f"{chars} characters written"),
                asked.occasion,
            )
        for flag in draft.flags:
            trace.raise_flag(flag)
        with trace.part("verify"):
            written = self._verified(draft)
        if any(verdict.support == "quoted" for verdict in written.verdicts):
            trace.raise_flag(UNSUPPORTED)
        composed = self._composed(written)
        if composed.doubt and (stop := gate_meaning(asked.decision, "answer")):
            return self._stopped(stop, found)
        with trace.part("render"):
            answer = composed.answer(lock, settings)
            if (tried := composed.tried).draft.confidence is not None:
                least = least_confidence(asked.text, self.gates)
                found |= {"confidence": tried.draft.confidence, "min_confidence": least}
            answer = replace(answer, generation=self.generation, gates=found)
            if composed.is_shown and composed.doubt:
                trace.raise_flag(CLOSEST_PASSAGE)
            _tell_ocr(trace, answer.citations, self.by.config.verification.min_ocr_confidence)
            if composed.is_shown and (told := self._noted(tried)):
                answer = replace(answer, clarification=Clarification(told))
            if self.explain:
                answer = composed.explained(answer, lock)
        return composed.trace(answer, lock)

    def _stop(self, found: dict[str, float]) -> Stop | None:
        """Return the reason not to read the passages; `found` is how close they are."""
        asked, lock = self.asked, self.lock
        chosen = len(lock) == 1 and not lock.passages[0].scores  # a selection is read, however far it seems
        stop = gate_question(asked.text, asked.weights, asked.original, asked.remark)
        stop = stop or gate_meaning(asked.decision, "answer", "unsure")
        if stop or chosen or asked.parts:
            return stop
        return gate_passages(lock, found, self.gates.nearer_by(asked.farther))

    def _composed(self, written: VerifiedDraft) -> Composition:
        """Return the composition of a draft: if it is doubtful, a selected one may be the closest."""
        asked, gates, min_ocr = self.asked, self.gates, self.by.config.verification.min_ocr_confidence
        doubt = written.doubt(asked.text, self.lock, gates, min_ocr, asked.opening)
        if not doubt:
            return Composition(written, written, None, is_shown=True)
        with self.trace.part("closest"):
            draft = written.draft if written.draft.model == MODEL else self._selected()
            widened = replace(draft, claims=(*draft.claims, *draft.further))
            tried = self._verified(widened) if widened != written.draft else written
        is_shown = (asked.is_foreign and gates.min_closest < 1) or is_close(tried.draft.confidence, gates)
        return Composition(written, tried, doubt, tried.stands and is_shown)

    def _stopped(self, stop: Stop, found: dict[str, float]) -> AnswerTrace:
        """Return the trace of a question that was stopped; a draft is selected only to explain it."""
        answer = replace(stop.answer(self.generation), gates=found)
        if self.explain:
            is_far = answer.refusal and answer.refusal.value is not None
            draft = self._selected() if is_far else Draft((), MODEL)
            unread = VerifiedDraft(draft, ())
            answer = Composition(unread, unread, answer.refusal, is_shown=False).explained(answer, self.lock)
        return AnswerTrace(answer, Draft((), MODEL), self.lock, [])

    def _verified(self, draft: Draft) -> VerifiedDraft:
        """Return the draft with its verdicts; where pages disagree, with the other pages' statements beside it."""
        asked, lock, rules = self.asked, self.lock, self.by.rules
        verdicts = verify(draft, lock, asked.original, rules)
        words = self.by.config.generation.quote_max_words
        comparison = Comparison(self.features, lock, asked.analyze, words, asked.opening)
        differs = None if asked.parts else differing(comparison, verdicts)  # two topics may differ
        if differs:
            draft = replace(draft, claims=differs.beside(draft.claims, may_move=draft.model == MODEL))
            verdicts = verify(draft, lock, asked.original, rules)
        return VerifiedDraft(draft, verdicts, differs)

    def _selected(self) -> Draft:
        if self.asked.vector is not None:
            with self.trace.part("sentences", NO_VECTORS):
                return self._compared(by_meaning=True)
        return self._compared(by_meaning=False)

    def _compared(self, by_meaning: bool) -> Draft:
        """Return the selected units, comparing sentences by meaning or by their words alone. Raises ModelError: a
        sentence cannot be embedded."""
        asked, settings = self.asked, self.by.config.generation

        def options(vector: Vector | None, stored: StoredSimilarity | None) -> Selecting:
            similarity = self.by.similarity(vector, stored) if by_meaning else None
            return Selecting(similarity, settings.max_citations, settings.quote_max_words, self.by.tables)

        if asked.parts:
            return selected_apart(asked.parts, self.lock, asked.analyze, lambda part: options(part.vector, part.stored))
        return select(asked.text, self.lock, asked.weights, asked.analyze, options(asked.vector, asked.stored))

    def _noted(self, shown: VerifiedDraft) -> str | None:
        """Return the note on the cited passages: that they disagree, or are no longer in force."""
        text, lock, verdicts, differs = self.asked.text, self.lock, shown.verdicts, shown.differs
        as_versions = told_as_versions(verdicts, differs, lock) if differs else None
        not_agreed = told_to_differ(verdicts, differs) if differs and not as_versions else None
        out_of_force = told_out_of_force(text, verdicts, lock, self.asked.opening)
        other_value = told_other_value(text, verdicts, lock)
        for flag, told in ((CONFLICTING, not_agreed), (SUPERSEDED, out_of_force)):
            if told:
                self.trace.raise_flag(flag)
        return " ".join(filter(None, (other_value, as_versions, not_agreed, out_of_force))) or None


def _tell_ocr(attempt: StageTrace, citations: Sequence[Citation], least: int) -> None:
    """Raise the flags of quotes that OCR read: that it did, and apart from these, that it was not sure."""
    read = [one.ocr_confidence for one in citations if one.ocr_confidence is not None]
    for flag, is_so in ((OCR_QUOTE, max(read, default=-1) >= least), (LOW_OCR, min(read, default=least) < least)):
        if is_so:
            attempt.raise_flag(flag)


def open_tables(config: Config) -> Tables:
    """Return the extractive generator's weights. Raises ConfigError: `gates.confidence_weights` is unusable."""
    try:
        return calibrated(config.gates.confidence_weights, f"{config.embedding.provider}/{config.embedding.model}")
    except WeightsError as error:
        raise ConfigError(f"gates.confidence_weights: {error}") from error


def told_as_versions(verdicts: Sequence[Verdict], differs: Differing, lock: Lock) -> str | None:
    """Return which version each of the differing passages is about; None if one is of none, or two are of the same."""
    numbers, versions = _numbers(verdicts), dict[int, str]()
    for claim in (differs.claim, *(other.claim for other in differs.others)):
        passage = lock.passage(claim.index)
        if claim in numbers and passage and (version := docs_version(passage.chunk.title)):
            versions[numbers[claim]] = version
    if len(versions) <= len(differs.others) or len(set(versions.values())) < len(versions):
        return None
    told = [f"[{number}] is about version {version}" for number, version in sorted(versions.items())]
    return f"{', '.join(told)}."


def told_to_differ(verdicts: Sequence[Verdict], differs: Differing) -> str | None:
    """Return the sentence that names the differing passages and the more current one; None unless both are verified."""
    numbers = _numbers(verdicts)
    others = [other for other in differs.others if other.claim in numbers]
    if differs.claim not in numbers or not others:
        return None
    shown = dict.fromkeys(sorted([numbers[differs.claim], *(numbers[other.claim] for other in others)]))
    told = " and ".join(f"[{number}]" for number in shown)
    reasons = dict.fromkeys(_reason(differs, other, numbers) for other in others)
    return " ".join([f"The pages do not agree: {told} say different things.", *filter(None, reasons), _READ])


def told_out_of_force(question: str, verdicts: Sequence[Verdict], lock: Lock, opening: Opening) -> str | None:
    """Return which cited passages are marked as no longer in force, and how; None if none is. A version that the
    question names is not."""
    marked: dict[Mark, list[str]] = {}
    for index, number in shown_numbers(verdicts).items():
        candidate = lock.passage(index)
        if candidate is None or names_version(question, docs_version(candidate.chunk.title) or "-"):
            continue
        if mark := mark_of(candidate.chunk, opening(candidate.chunk)):
            marked.setdefault(mark, []).append(f"[{number}]")
    told = []
    for mark, numbers in marked.items():
        place = "in a section" if mark.of == "section" else "on a page"
        verb = "stands" if len(numbers) == 1 else "each stand"
        told.append(f"{' and '.join(numbers)} {verb} {place} that is marked as {mark.told}.")
    return " ".join(told) or None


def told_other_value(question: str, verdicts: Sequence[Verdict], lock: Lock) -> str | None:
    """Return which value the page gives where a yes-or-no question names another one: `The page says 7 days.`"""
    first = next((v for v in verdicts if v.outcome != "dropped" and v.index and v.start is not None), None)
    asked = measures(question)
    if first is None or first.start is None or not asked or kind_of(question) != "yes_no":
        return None
    passage = lock.passage(first.index or 0)
    unit = passage.chunk.parts.unit_at(first.start) if passage else None
    if passage is None or unit is None or not differ(asked, measures(text := unit.of(passage.chunk.text))):
        return None
    given = next((found[0] for found in _FIGURE.finditer(text) if differ(asked, measures(found[0]))), None)
    return f"The page says {given.strip()}." if given else None


_FIGURE = re.compile(r"(?<!\d)(?<!\d[.,])\d++(?:[.,]\d++)*+[ \u00a0]?(?:%|[^\W\d_]+)")
_READ = "Read both before you rely on one."


def _numbers(verdicts: Sequence[Verdict]) -> Mapping[Claim, int]:
    numbers = shown_numbers(verdicts)
    return {v.claim: numbers[v.index] for v in verdicts if v.outcome != "dropped" and v.index}


def _reason(differs: Differing, other: Other, numbers: Mapping[Claim, int]) -> str:
    """Return why one of two is the more current; empty if unknown."""
    if other.precedence is None:
        return ""
    pair = (other.standing, numbers[other.claim]), (differs.standing, numbers[differs.claim])
    (leading, first), (behind, second) = pair if other.precedence.is_first else pair[::-1]
    match other.precedence.reason:
        case "asked":
            return f"[{first}] is about {_version(leading)}, which was asked for."
        case "mark":
            return f"[{second}] is marked as {behind.mark.told if behind.mark else ''}."
        case "version":
            return f"[{first}] is about {_version(leading)}, [{second}] about {_version(behind)}."
        case "change":
            return f"[{first}] tells of a change of what [{second}] says."
        case "date":
            return f"[{first}] was updated on {_day(leading)}, [{second}] on {_day(behind)}."


def _version(found: Standing) -> str:
    return ".".join(map(str, found.version or ()))


def _day(found: Standing) -> str:
    return f"{found.updated_at:%Y-%m-%d}" if found.updated_at else ""
