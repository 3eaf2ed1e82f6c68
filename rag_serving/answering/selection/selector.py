"""The selection: which units of the locked passages answer, best first, and with what confidence. It needs no model.
Each unit is scored by its signs (`signs`); a passage is as good as its best unit. A question of two parts gets the best
unit of each. A claim gets the units that bear on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rag_serving.answering.quotes import best_window
from rag_serving.answering.selection.completion import MOST_WHOLE, extent, short_passage, steps_across
from rag_serving.answering.selection.layout import Excerpt, Layout
from rag_serving.answering.selection.signs import Analyze, QuestionFeatures, SignWeights, Tables, learnt, signs_of
from rag_serving.answering.selection.statements import MOST_SAID, Statement, is_introduced, named, statements
from rag_serving.records.claims import EXTRACTIVE, Claim, Draft, RejectedCandidate
from rag_serving.records.passages import Lock
from rag_serving.text.orders import orders_assistant
from rag_serving.text.question_types import asked_words, is_claim, kind_of, parts_of
from rag_serving.text.units import Unit, cells_of

StoredSimilarity = Callable[[Sequence[str]], Sequence[float | None]]
"""Cosine similarity of each text to the question; None where no vector of it is stored."""


@dataclass(frozen=True)
class QuestionPart:
    """The part of a question that some locked passages answer. `first, count`: its passages, counted from 0. `vector,
    stored`: of the part's own text, as `Question` has them of the whole."""

    text: str
    weights: Mapping[str, float]  # of its terms
    first: int
    count: int
    is_named: bool = False  # they are what it names: no sentence of them is doubted as an answer
    vector: NDArray[np.float32] | None = None
    stored: StoredSimilarity | None = None


def selected_apart(
    parts: Sequence[QuestionPart], lock: Lock, analyze: Analyze, options_of: Callable[[QuestionPart], Selecting]
) -> Draft:
    """Return the answer to each part, in their order; as confident as the least of those in doubt. Each part gets its
    share of the citations, at least one. A part without a sentence leaves the draft without any: half an answer would
    look like a whole one."""
    drafts = [_draft_of(part, lock, analyze, _share(options_of(part), len(parts))) for part in parts]
    if not all(draft.claims for draft in drafts):
        return Draft((), MODEL)
    doubted = [draft for draft, part in zip(drafts, parts, strict=True) if not part.is_named]
    least = min(doubted, key=lambda draft: draft.confidence or 0.0, default=None)
    claims = dict.fromkeys(claim for draft in drafts for claim in draft.claims)
    return Draft(
        tuple(claims),
        MODEL,
        confidence=least.confidence if least else None,
        evidence=(least or drafts[0]).evidence,
        rejected=tuple(each for draft in drafts for each in draft.rejected),
    )


def _share(options: Selecting, parts: int) -> Selecting:
    return replace(options, max_citations=max(1, options.max_citations // parts))


def _draft_of(part: QuestionPart, lock: Lock, analyze: Analyze, options: Selecting) -> Draft:
    own = Lock(lock.passages[part.first : part.first + part.count])
    draft = select(part.text, own, part.weights, analyze, options)
    return replace(
        draft,
        claims=tuple(replace(claim, index=claim.index + part.first) for claim in draft.claims),
        rejected=tuple(replace(each, passage=each.passage + part.first) for each in draft.rejected),
    )


Similarity = Callable[[Sequence[str]], Sequence[float]]  # cosine similarity of each text to the question

MODEL = EXTRACTIVE

_FRONT_OF_A_PASSAGE, _FRONT = 4, 12  # units that are compared by meaning, of each passage and at least in all
_BEHIND = 2.0  # how much less than the best a further unit may score that bears on a claim
# The handbooks that the weights were learnt from have hardly any tables of settings and commands.
_ROW_OF_IDENTIFIER, _PROCEDURE, _PROCEDURE_NAMED = 2.0, 0.5, 1.5
_REPETITION, _AGREES = 0.7, 0.4  # Jaccard similarity of the terms of two units
FAR_AHEAD = 6.0  # where no other page says something else, or one that is hardly about the question
_MOST_REJECTED = 5
_NEARLY_AS_GOOD = 0.25  # the greatest distance from the best score of a second passage in the answer
_WORTH_SHOWING = 2.5  # the same for one that is only shown
_MOST_BESIDE = 60  # words of such a passage: three whole ones had 220 words at the median, and helped no more people


@dataclass(frozen=True)
class Selecting:
    """The settings for choosing and quoting units."""

    similarity: Similarity | None = None  # compares units with the question by meaning; without it words alone decide
    max_citations: int = 3
    quote_max_words: int = 12
    tables: Tables | None = None  # the weights of signs; without them the package's


@dataclass(frozen=True)
class Ranked:
    """A unit with its signs."""

    statement: Statement
    signs: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0


DEFAULTS = Selecting()


@dataclass(frozen=True)
class Quoting:
    """The criteria for the words of a quote."""

    asked: QuestionFeatures
    analyze: Analyze  # gives the terms of a text as the question has them
    most: int  # words of a quote


def select(
    question: str, lock: Lock, weights: Mapping[str, float], analyze: Analyze, options: Selecting = DEFAULTS
) -> Draft:
    """Return the lock's answer to a question as claims, best first, with the confidence of the best; none without a
    unit that could answer. `weights` are those of the question's analyzed terms."""
    asked = QuestionFeatures.of(question, weights, analyze)
    table = (options.tables or learnt()).of(options.similarity is not None)
    ranked = rank(asked, lock, analyze, options.similarity, table)
    if not ranked:
        return Draft((), MODEL)
    best = best_of_passages(ranked)
    evidence = evidence_of(lock, best)
    chosen = _chosen(asked, lock, ranked, best, table)
    quoting, most = Quoting(asked, analyze, options.quote_max_words), options.max_citations
    claims = claims_for(quoting, lock, [(each.index, each.unit) for each in chosen])[:most]
    near = [each.statement for each in best[:most] if each.score > best[0].score - _WORTH_SHOWING]
    beside = claims_for(quoting, lock, [(each.index, each.unit) for each in near if each not in chosen], _MOST_BESIDE)
    return Draft(
        claims,
        MODEL,
        confidence=table.told(evidence),
        evidence=evidence,
        rejected=tuple(
            RejectedCandidate(each.statement.index, each.statement.text, each.score, each.signs)
            for each in best
            if each.statement not in chosen
        )[:_MOST_REJECTED],
        further=tuple(claim for claim in beside if claim not in claims),
    )


def rank(
    asked: QuestionFeatures, lock: Lock, analyze: Analyze, similarity: Similarity | None, weights: SignWeights
) -> list[Ranked]:
    """Return the units in front with their signs, best first."""
    front = _front(asked, list(statements(asked, lock, analyze)))
    names = named(asked.text, analyze)
    near = similarity([each.said[:MOST_SAID] for each in front]) if similarity and front else [None] * len(front)
    best = max((candidate.score for candidate in lock.passages), default=0.0)
    ranked = []
    for statement, value in zip(front, near, strict=True):
        passage = lock.passages[statement.index - 1]
        signs = signs_of(asked, statement, passage, None if value is None else float(value), best)
        ranked.append(Ranked(statement, signs, weights.score(signs) + _bonus(asked, statement, names, analyze)))
    return sorted(ranked, key=lambda each: -each.score)


def _bonus(asked: QuestionFeatures, statement: Statement, names: frozenset[str], analyze: Analyze) -> float:
    """Return the bonus for the row of a named identifier, and for steps or code where the question wants these."""
    if statement.unit.kind == "table" and names:
        return _ROW_OF_IDENTIFIER * names.issubset(analyze(cells_of(statement.text)[0]))
    if statement.procedure or is_introduced(asked, statement.unit):
        return _PROCEDURE + _PROCEDURE_NAMED * statement.named
    return 0.0


def best_of_passages(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Return the best unit of each passage, best first."""
    best: dict[int, Ranked] = {}
    for each in ranked:
        best.setdefault(each.statement.index, each)
    return list(best.values())


def evidence_of(lock: Lock, best: Sequence[Ranked]) -> dict[str, float]:
    """Return the features of the confidence in the first unit: its signs, its score, and its lead over different
    answers of other pages."""
    first, others = best[0], best[1:]
    page = lock.passages[first.statement.index - 1].chunk.page_id
    alike = [_overlap(first.statement.terms, other.statement.terms) for other in others]
    rivals = [
        other.score
        for other, likeness in zip(others, alike, strict=True)
        if likeness < _AGREES and lock.passages[other.statement.index - 1].chunk.page_id != page
    ]
    ahead = min(first.score - max(rivals), FAR_AHEAD) if rivals else FAR_AHEAD
    return {**first.signs, "score": first.score, "ahead": ahead}


def _front(asked: QuestionFeatures, found: Sequence[Statement]) -> list[Statement]:
    """Return the units that words put in front, of all passages and of each."""

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


def _chosen(
    asked: QuestionFeatures, lock: Lock, ranked: Sequence[Ranked], best: Sequence[Ranked], weights: SignWeights
) -> list[Statement]:
    if is_claim(asked.text):
        chosen: list[Statement] = []
        for each in ranked:
            if each.score < ranked[0].score - _BEHIND:
                break
            if all(_overlap(each.statement.terms, other.terms) < _REPETITION for other in chosen):
                chosen.append(each.statement)
        return chosen
    told = [best[0].statement, *_of_parts(asked, lock, ranked, weights)]
    if len(best) > 1 and best[1].score > best[0].score - _NEARLY_AS_GOOD:
        told.append(best[1].statement)
    return told


def _of_parts(asked: QuestionFeatures, lock: Lock, ranked: Sequence[Ranked], weights: SignWeights) -> list[Statement]:
    best = []
    for part in parts_of(asked.text):
        own = replace(asked, text=part, kind=kind_of(part), words=asked_words(part), terms=asked.terms_of(part))
        if own.terms:
            again = dict[Statement, float]()
            for said, near in ((each.statement, each.signs.get("similarity")) for each in ranked):
                again[said] = weights.score(signs_of(own, said, lock.passages[said.index - 1], near, 0.0))
            best.append(max(again, key=lambda each: again[each]))
    return best


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / (len(one | two) or 1)


def claims_for(
    quoting: Quoting, lock: Lock, chosen: Sequence[tuple[int, Unit]], most_words: int = MOST_WHOLE
) -> tuple[Claim, ...]:
    """Return the claims that show units of locked passages, none that an earlier one shows already."""
    claims: dict[str, Claim] = {}
    covered: list[tuple[int, int, int]] = []
    for index, unit in chosen:
        if any(index == other and start <= unit.start and unit.end <= end for other, start, end in covered):
            continue
        for place, shown in _shown(quoting.asked, index, unit, lock, most_words):
            if orders_assistant(shown.text):
                continue
            text = lock.passages[place - 1].chunk.text
            claims.setdefault(shown.text, claim_of(shown, place, text, quoting))
            covered.append((place, shown.start, shown.end))
    return tuple(claims.values())


def claim_of(shown: Excerpt, index: int, text: str, quoting: Quoting) -> Claim:
    """Return an excerpt of the passage at `index` as a claim that quotes the words around the answer."""
    quoted = shown.quoted.of(text)
    start, end = best_window(quoted, quoting.asked, quoting.analyze, quoting.most)
    return Claim(shown.text, index, quoted[start:end], shown.parts, is_selected=True)


def _shown(asked: QuestionFeatures, index: int, unit: Unit, lock: Lock, most_words: int) -> list[tuple[int, Excerpt]]:
    """Return the excerpt for a unit and its passage: for a how-to question the steps or the code, for a claim the unit
    alone, else the unit with its context."""
    layout = Layout(lock.passages[index - 1].chunk)
    if is_claim(asked.text):
        return [(index, layout.alone(unit))]
    if asked.kind != "steps":
        return [(index, extent(layout, unit, most_words))]
    steps = layout.steps(unit)
    across = steps_across(lock, index, steps) if steps else []
    if len(across) < 2 and (whole := short_passage(layout, unit)):
        return [(index, whole)]
    if across:
        return across
    return [(index, extent(layout, layout.code_after(unit) or unit, most_words))]
