"""The extractive generator: it answers with verbatim parts of the locked passages and needs no model.

First the passage is chosen, by what speaks for it and for its best sentences (`features`), then how much of it is shown
around its best sentence (`extent`). A question of two parts gets the best passage of each. Who states a claim gets the
sentences that bear on it.

Belongs here: which passages and sentences answer, as claims.
Does not belong here: which sentences there are (`statements`), the weight of evidence (`ranker`), what is quoted
(`quote_window`), when an answer is withheld (`answering.gates`), and belief in what was written
(`answering.verification.verifier`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_serving.answering.extraction.excerpts import Excerpt, Layout
from rag_serving.answering.extraction.extent import extent, short_passage
from rag_serving.answering.extraction.features import (
    Analyze,
    QuestionFeatures,
    RankedStatement,
    Statement,
    defines,
    features,
    section_features,
)
from rag_serving.answering.extraction.list_continuation import steps_across
from rag_serving.answering.extraction.ranker import FeatureWeights, Tables, learnt
from rag_serving.answering.extraction.statements import MOST_SAID, is_introduced, named, statements
from rag_serving.answering.quote_window import best_window
from rag_serving.records.claims import EXTRACTIVE, Claim, Draft, RejectedCandidate
from rag_serving.records.passages import Lock
from rag_serving.text.orders import orders_assistant
from rag_serving.text.question_types import asked_words, is_claim, kind_of, parts_of
from rag_serving.text.units import cells_of

Similarity = Callable[[Sequence[str]], Sequence[float]]
"""Cosine similarity of each text to the question."""

MODEL = EXTRACTIVE

# Sentences that are compared by meaning, of each passage and at least in all.
_FRONT_OF_A_PASSAGE, _FRONT = 4, 12
# How much worse than the best, by the rank model, a further sentence may be that bears on a claim.
_BEHIND = 2.0
# The sets that the weights were learnt from have no code, tables or lists: a question for a command is answered by one,
# one that names an identifier by the row that begins with it, one what a thing is by the sentence that says so or that
# opens its section, and one how to do something by the steps or the code for it, above all where a heading says just
# that.
_CODE_FOR_COMMANDS = 1.0
_PROCEDURE = 1.0
_PROCEDURE_NAMED = 2.0
_PROCEDURE_OF_SECTION = 2.0
_ROW_OF_IDENTIFIER = 2.0
_DEFINITION, _OPENING = 2.0, 1.0
_REPETITION = 0.7
_FAR_AHEAD = 3.0
_MOST_REJECTED = 5
# How much worse than the best, by the section model, a passage may be that is told beside it.
_NEARLY_AS_GOOD = 0.35
# The same for one that is shown where none is told.
_WORTH_SHOWING = 4.0


@dataclass(frozen=True)
class Extraction:
    """How sentences are chosen and quoted.

    Attributes:
        similarity: compares sentences with the question by meaning; without it words alone decide.
        tables: what evidence weighs; without them the package's.
    """

    similarity: Similarity | None = None
    max_citations: int = 3
    quote_max_words: int = 12
    tables: Tables | None = None


@dataclass(frozen=True)
class Section:
    """A passage of the lock with its sentences, best first, and what speaks for it as the one that answers."""

    index: int  # in the lock, from 1
    ranked: Sequence[RankedStatement]
    evidence: Mapping[str, float]
    score: float


DEFAULTS = Extraction()


def extract(
    question: str, lock: Lock, weights: Mapping[str, float], analyze: Analyze, options: Extraction = DEFAULTS
) -> Draft:
    """Return what the lock says to a question as claims, best first, with the confidence of the best; none without a
    sentence.

    `weights` are those of the question's analyzed terms.
    """
    asked = QuestionFeatures.of(question, weights, analyze)
    table = (options.tables or learnt()).of(options.similarity is not None)
    ranked = rank(asked, lock, analyze, options.similarity, table)
    if not ranked:
        return Draft((), MODEL)
    sections = rank_sections(asked, lock, ranked, table)
    evidence = evidence_of(sections)
    chosen, further = _chosen(asked, lock, ranked, sections, table)
    claims = _claims(asked, lock, chosen, analyze, options.quote_max_words)
    beside = _claims(asked, lock, further[: options.max_citations], analyze, options.quote_max_words)
    return Draft(
        claims[: options.max_citations],
        MODEL,
        confidence=table.told(evidence),
        evidence=evidence,
        rejected=_rejected(sections, chosen),
        further=tuple(claim for claim in beside if claim not in claims),
    )


def _rejected(sections: Sequence[Section], chosen: Sequence[Statement]) -> tuple[RejectedCandidate, ...]:
    """Return the best sentences of the passages that were not chosen, best first."""
    others = [section for section in sections if section.ranked[0].statement not in chosen][:_MOST_REJECTED]
    return tuple(
        RejectedCandidate(
            section.index,
            section.ranked[0].statement.text,
            section.score,
            {**section.ranked[0].evidence, **section.evidence},
        )
        for section in others
    )


def rank(
    asked: QuestionFeatures, lock: Lock, analyze: Analyze, similarity: Similarity | None, weights: FeatureWeights
) -> list[RankedStatement]:
    """Return the sentences in front with their evidence, best first."""
    front = _front(asked, list(statements(asked, lock, analyze)))
    names = named(asked.text, analyze)
    near = similarity([each.said[:MOST_SAID] for each in front]) if similarity and front else [None] * len(front)
    ranked = []
    for statement, value in zip(front, near, strict=True):
        passage = lock.passages[statement.index - 1]
        evidence = features(asked, statement, passage, None if value is None else float(value))
        score = weights.score(evidence) + _bonus(asked, statement, names, analyze)
        score += _OPENING * (asked.wants_definition and statement.is_first and passage.chunk.start == 0)
        ranked.append(RankedStatement(statement, evidence, score))
    return sorted(ranked, key=lambda each: -each.score)


def rank_sections(
    asked: QuestionFeatures, lock: Lock, ranked: Sequence[RankedStatement], weights: FeatureWeights
) -> list[Section]:
    """Return the passages that have sentences among the ranked ones, best first."""
    best = max(candidate.score for candidate in lock.passages)
    members: dict[int, list[RankedStatement]] = {}
    for each in ranked:
        members.setdefault(each.statement.index, []).append(each)
    sections = []
    for index, own in members.items():
        evidence = section_features(asked, lock.passages[index - 1], own, best)
        score = weights.section_score(evidence) + _PROCEDURE_OF_SECTION * evidence["section_procedure"]
        sections.append(Section(index, own, evidence, score))
    return sorted(sections, key=lambda section: -section.score)


def evidence_of(sections: Sequence[Section]) -> dict[str, float]:
    """Return what the confidence in the best passage and its best sentence is made of."""
    first = sections[0]
    ahead = first.score - sections[1].score if len(sections) > 1 else _FAR_AHEAD
    own = first.ranked[0]
    return {
        **own.evidence,
        "score": own.score,
        **first.evidence,
        "section_ahead": min(ahead, _FAR_AHEAD),
    }


def _front(asked: QuestionFeatures, found: Sequence[Statement]) -> list[Statement]:
    """Return the sentences that words put in front, of all passages and of each."""

    def promise(statement: Statement) -> float:
        around = (statement.headings | statement.previous) - statement.terms
        return asked.share(statement.terms) + asked.share(around) / 2 + 0.5 / statement.index

    ordered = sorted(found, key=promise, reverse=True)
    taken: dict[int, int] = {}
    front = []
    for place, statement in enumerate(ordered):
        count = taken[statement.index] = taken.get(statement.index, 0) + 1
        if place < _FRONT or count <= _FRONT_OF_A_PASSAGE:
            front.append(statement)
    return front


def _bonus(asked: QuestionFeatures, statement: Statement, names: frozenset[str], analyze: Analyze) -> float:
    bonus = _DEFINITION * defines(asked, statement)
    if statement.procedure:
        bonus += _PROCEDURE + _PROCEDURE_NAMED * statement.named
    elif is_introduced(asked, statement.unit):
        bonus += _CODE_FOR_COMMANDS
    if statement.unit.kind == "table" and names:
        bonus += _ROW_OF_IDENTIFIER * names.issubset(analyze(cells_of(statement.text)[0]))
    return bonus


def _chosen(
    asked: QuestionFeatures,
    lock: Lock,
    ranked: Sequence[RankedStatement],
    sections: Sequence[Section],
    weights: FeatureWeights,
) -> tuple[list[Statement], list[Statement]]:
    """Return the sentences that are told for, and those that come next."""
    if is_claim(asked.text):
        return _bearing(ranked), []
    best = [section.ranked[0].statement for section in sections if section.score > sections[0].score - _WORTH_SHOWING]
    told = [_opening(asked, lock, sections), *_of_parts(asked, lock, ranked, weights)]
    if len(sections) > 1 and sections[1].score > sections[0].score - _NEARLY_AS_GOOD:
        told.append(sections[1].ranked[0].statement)
    return told, best


def _opening(asked: QuestionFeatures, lock: Lock, sections: Sequence[Section]) -> Statement:
    """Return the best sentence of the best passage; to who asks what a thing is, where that passage does not say so,
    that of the passage which opens the same section.
    """
    first = sections[0]
    if asked.wants_definition and not first.evidence["section_defines"]:
        own = lock.passages[first.index - 1].chunk
        for section in sections[1:]:
            other = lock.passages[section.index - 1].chunk
            if (other.page_id, other.heading_path, other.start) == (own.page_id, own.heading_path, 0):
                return section.ranked[0].statement
    return first.ranked[0].statement


def _of_parts(
    asked: QuestionFeatures, lock: Lock, ranked: Sequence[RankedStatement], weights: FeatureWeights
) -> list[Statement]:
    """Return the best sentence for each part of a question that asks two things."""
    best = []
    for part in parts_of(asked.text):
        own = replace(asked, text=part, kind=kind_of(part), words=asked_words(part), terms=asked.terms_of(part))
        if own.terms:
            again = [_seen_again(own, lock, each, weights) for each in ranked]
            best.append(max(again, key=lambda each: each.score).statement)
    return best


def _seen_again(
    asked: QuestionFeatures, lock: Lock, ranked: RankedStatement, weights: FeatureWeights
) -> RankedStatement:
    """Return a sentence with what speaks for it as an answer to a part of the question."""
    statement, similarity = ranked.statement, ranked.evidence.get("similarity")
    evidence = features(asked, statement, lock.passages[statement.index - 1], similarity)
    return RankedStatement(statement, evidence, weights.score(evidence))


def _bearing(ranked: Sequence[RankedStatement]) -> list[Statement]:
    """Return the best sentence and those nearly as good that do not repeat a chosen one."""
    chosen: list[Statement] = []
    for each in ranked:
        if each.score < ranked[0].score - _BEHIND:
            break
        if all(_overlap(each.statement.terms, other.terms) < _REPETITION for other in chosen):
            chosen.append(each.statement)
    return chosen


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    """Jaccard similarity of two sets of terms."""
    return len(one & two) / (len(one | two) or 1)


def _claims(
    asked: QuestionFeatures, lock: Lock, chosen: Sequence[Statement], analyze: Analyze, quote_max_words: int
) -> tuple[Claim, ...]:
    """Return what is shown for the chosen sentences, none that was shown with one before it."""
    claims: dict[str, Claim] = {}
    covered: list[tuple[int, int, int]] = []
    for statement in chosen:
        index, unit = statement.index, statement.unit
        if any(index == other and start <= unit.start and unit.end <= end for other, start, end in covered):
            continue
        for place, shown in _shown(asked, statement, lock):
            if orders_assistant(shown.text):
                continue
            quoted = shown.quoted.of(lock.passages[place - 1].chunk.text)
            start, end = best_window(quoted, asked.weights, analyze, quote_max_words)
            claims.setdefault(shown.text, Claim(shown.text, place, quoted[start:end], shown.parts))
            covered.append((place, shown.start, shown.end))
    return tuple(claims.values())


def _shown(asked: QuestionFeatures, statement: Statement, lock: Lock) -> list[tuple[int, Excerpt]]:
    """Return what is shown for a sentence, and of which passage: for who asks how to do something the steps or the
    code, for who states a claim the sentence alone, else what goes with it.
    """
    unit, index = statement.unit, statement.index
    layout = Layout(lock.passages[index - 1].chunk)
    if is_claim(asked.text):
        return [(index, layout.alone(unit))]
    if asked.kind != "steps":
        return [(index, extent(layout, unit))]
    steps = layout.steps(unit)
    across = steps_across(lock, index, steps) if steps else []
    if len(across) < 2 and (whole := short_passage(layout, unit)):
        return [(index, whole)]
    if across:
        return across
    return [(index, extent(layout, layout.code_after(unit) or unit))]
