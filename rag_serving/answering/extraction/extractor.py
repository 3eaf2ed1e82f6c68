"""The extractive generator: it answers with whole verbatim sentences of the locked passages and needs no model.

The sentences that words and passage rank put in front are ordered by what speaks for each (`features`); the best is the
answer, with how confident it is, told so that it is understood alone. Who states a claim gets what else bears on it;
who asks, or types keywords, gets one answer, unless another sentence is as good to a hair.

Belongs here: which sentences there are, which of them answer, as claims.
Does not belong here: retrieval, the weight of evidence (`features`), what is quoted (`quote_window`) and told with it
(`excerpts`), when an answer is withheld (`answering.gates`), and belief in what was written
(`answering.verification.verifier`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag_serving.answering.extraction.excerpts import Excerpt, Layout
from rag_serving.answering.extraction.features import Analyze, QuestionFeatures, Statement, features
from rag_serving.answering.extraction.list_continuation import steps_across
from rag_serving.answering.extraction.ranker import FeatureWeights, Tables, learnt
from rag_serving.answering.quote_window import best_window
from rag_serving.answering.verification.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.deadline import check
from rag_serving.records import EXTRACTIVE, Candidate, Chunk, Claim, Draft, Lock, RejectedCandidate
from rag_serving.text.analyzer import SEPARATED_NAME
from rag_serving.text.orders import orders_assistant
from rag_serving.text.units import Unit, cells_of, words

Similarity = Callable[[Sequence[str]], Sequence[float]]
"""Cosine similarity of each text to the question."""

MODEL = EXTRACTIVE

_IDENTIFIER = re.compile(SEPARATED_NAME)

# Sentences whose vectors are computed while somebody waits: about 5 ms each on one core.
_FRONT = 12
_FEWEST_WORDS = {"sentence": 4, "list": 3, "table": 2, "code": 2}
# How much worse than the best, by the rank model, a further sentence may be: for a claim, for questions and keywords.
_BEHIND_CLAIM, _BEHIND_OTHERS = 2.0, 0.1
_FEWEST_WORDS_OF_A_CLAIM = 5
# The sets that the weights were learnt from have no code, tables or lists: a question for a command is answered by one,
# one that names an identifier by the row that begins with it, and one how to do something by the steps or the code for
# it, above all where a heading says just that.
_CODE_FOR_COMMANDS = 1.0
_PROCEDURE = 1.0
_PROCEDURE_NAMED = 2.0
_ROW_OF_IDENTIFIER = 2.0
_REPETITION = 0.7
# Sentences that were not chosen and are kept to explain the choice.
_MOST_REJECTED = 5
# Terms that the lines of a block of code hand on to the next one.
_MOST_CARRIED = 200
# Characters of a statement that are compared by meaning: models read no more.
_MOST_SAID = 4_000


@dataclass(frozen=True)
class Ranked:
    """A sentence with what speaks for it."""

    statement: Statement
    evidence: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0


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


DEFAULTS = Extraction()


def extract(
    question: str, lock: Lock, weights: Mapping[str, float], analyze: Analyze, options: Extraction = DEFAULTS
) -> Draft:
    """Return the best sentences of the lock as claims, best first, with the confidence of the best; none without a
    sentence.

    `weights` are those of the question's analyzed terms.
    """
    similarity, most = options.similarity, options.max_citations
    asked = QuestionFeatures.of(question, weights, analyze)
    table = (options.tables or learnt()).of(similarity is not None)
    ranked = rank(asked, lock, analyze, similarity, table)
    chosen = _chosen(asked, ranked, most)
    statements = [each.statement for each in chosen]
    claims = _claims(asked, lock, statements, analyze, options.quote_max_words)[:most]
    if not ranked:
        return Draft(claims, MODEL)
    best = ranked[0]
    evidence = {**best.evidence, "score": best.score}
    confidence, rejected = table.confident(best.evidence, best.score), _rejected(ranked, chosen)
    return Draft(claims, MODEL, confidence=confidence, evidence=evidence, rejected=rejected)


def _rejected(ranked: Sequence[Ranked], chosen: Sequence[Ranked]) -> tuple[RejectedCandidate, ...]:
    """Return the best sentences that were not chosen, best first."""
    others = [each for each in ranked if each not in chosen][:_MOST_REJECTED]
    return tuple(
        RejectedCandidate(each.statement.index, each.statement.text, each.score, each.evidence) for each in others
    )


def rank(
    asked: QuestionFeatures, lock: Lock, analyze: Analyze, similarity: Similarity | None, weights: FeatureWeights
) -> list[Ranked]:
    """Return the sentences in front with their evidence, best first."""
    front = _front(asked, list(statements(asked, lock, analyze)))
    names = named(asked.text, analyze)
    near = (
        similarity([statement.said[:_MOST_SAID] for statement in front])
        if similarity and front
        else [None] * len(front)
    )
    ranked = []
    for statement, value in zip(front, near, strict=True):
        passage = _passage(lock, statement)
        found = features(asked, statement, passage, None if value is None else float(value))
        bonus = _bonus(asked, statement, names, analyze)
        ranked.append(Ranked(statement, found, weights.score(found) + bonus))
    return sorted(ranked, key=lambda each: -each.score)


def statements(asked: QuestionFeatures, lock: Lock, analyze: Analyze) -> Iterator[Statement]:
    """Yield what can answer: no headings, no questions, no fragments of a few words, nothing about another identifier,
    and nothing that is meant for an assistant.
    """
    names = named(asked.text, analyze)
    for index, candidate in enumerate(lock.passages, start=1):
        check()
        chunk = candidate.chunk
        headings = frozenset(analyze(" ".join(chunk.heading_path)))
        passage = headings.union(analyze(chunk.text))
        if names and not names <= passage:
            continue
        layout, before = Layout(chunk), frozenset[str]()
        leads: dict[str, frozenset[str]] = {}
        for place, (unit, procedure) in enumerate(_parts(layout, asked.kind == "steps")):
            check()
            text = unit.of(chunk.text)
            terms = frozenset(analyze(procedure.text if procedure else text))
            if procedure or _is_introduced(asked, unit):
                terms |= before
            elif lead := layout.lead_in(unit):
                if lead not in leads:
                    leads[lead] = frozenset(analyze(lead))
                terms |= leads[lead]
            found = Statement(index, unit, text, terms, headings, before, passage, place == 0)
            if procedure:
                named_by = max((asked.passage_support(analyze(heading)) for heading in chunk.heading_path), default=0.0)
                told = _under_heading(chunk, procedure)
                yield replace(found, terms=terms | headings, procedure=told, named=named_by)
            elif _can_answer(chunk, unit) and unit not in layout.directed:
                yield found
            if len(terms) < _MOST_CARRIED or not _is_introduced(asked, unit):
                before = terms


def sentence_texts(chunk: Chunk) -> Iterator[str]:
    """Yield each text of a passage that may be compared with a question by meaning: its heading path, then sentences
    and procedures.
    """
    layout = Layout(chunk)
    if not chunk.is_boilerplate:
        yield heading_text(chunk)
    for unit in () if chunk.is_boilerplate else layout.units:
        if _can_answer(chunk, unit) and unit not in layout.directed:
            yield unit.of(chunk.text)[:_MOST_SAID]
    for _, procedure in () if chunk.is_boilerplate else _parts(layout, has_procedures=True):
        if procedure:
            yield _under_heading(chunk, procedure)[:_MOST_SAID]


def heading_text(chunk: Chunk) -> str:
    """Return the heading path of a passage as it is compared with a question."""
    return (" → ".join(chunk.heading_path) or chunk.title)[:_MOST_SAID]


def _under_heading(chunk: Chunk, procedure: Excerpt) -> str:
    return "\n".join((*chunk.heading_path[-1:], procedure.text))


def _parts(layout: Layout, has_procedures: bool) -> Iterator[tuple[Unit, Excerpt | None]]:
    """Yield the units of a passage; to who asks how to do something the steps of a list, or a block of code, are
    one."""
    end, refused = 0, set[tuple[int, int]]()
    for unit in layout.units:
        if unit.end <= end:
            continue
        procedure = layout.procedure(unit) if has_procedures else None
        if procedure and ((procedure.start, procedure.end) in refused or not _can_be_followed(procedure, layout)):
            refused.add((procedure.start, procedure.end))
            procedure = None
        end = procedure.end if procedure else end
        yield unit, procedure


def _can_be_followed(procedure: Excerpt, layout: Layout) -> bool:
    """Return whether steps, or code, say enough to be quoted, and no assistant what to do."""
    if weight(procedure.quoted.of(layout.text)) < MIN_QUOTE_BYTES:
        return False
    return not any(procedure.start <= other.start < procedure.end for other in layout.directed)


def named(question: str, analyze: Analyze) -> frozenset[str]:
    """Return the identifiers of a question as terms: `max.poll.records`, `DB_POOL`, `ERR-4012`.

    Who asks for one by name means no other, so a passage without it answers nothing, however alike its words are.
    """
    return frozenset(analyze(name)[0] for name in _IDENTIFIER.findall(question))


def _is_introduced(asked: QuestionFeatures, unit: Unit) -> bool:
    """Return whether the unit is code that a question for a command is answered by: what it does stands before it."""
    return unit.kind == "code" and asked.kind in ("command", "steps")


def _can_answer(chunk: Chunk, unit: Unit) -> bool:
    return (
        unit.kind not in ("heading", "header")
        and chunk.text[unit.end - 1] not in "?？:"
        and weight(unit.of(chunk.text)) >= MIN_QUOTE_BYTES
        and len(words(chunk.text, unit.start, unit.end)) >= _FEWEST_WORDS[unit.kind]
    )


def _front(asked: QuestionFeatures, found: Sequence[Statement]) -> list[Statement]:
    """Return the sentences that words and passage rank put in front."""

    def promise(statement: Statement) -> float:
        around = (statement.headings | statement.previous) - statement.terms
        return asked.share(statement.terms) + asked.share(around) / 2 + 0.5 / statement.index

    return sorted(found, key=promise, reverse=True)[:_FRONT]


def _passage(lock: Lock, statement: Statement) -> Candidate:
    return lock.passages[statement.index - 1]


def _bonus(asked: QuestionFeatures, statement: Statement, names: frozenset[str], analyze: Analyze) -> float:
    bonus = 0.0
    if statement.procedure:
        bonus = _PROCEDURE + _PROCEDURE_NAMED * statement.named
    elif _is_introduced(asked, statement.unit):
        bonus = _CODE_FOR_COMMANDS
    if statement.unit.kind == "table" and names:
        bonus += _ROW_OF_IDENTIFIER * names.issubset(analyze(cells_of(statement.text)[0]))
    return bonus


def _chosen(asked: QuestionFeatures, ranked: Sequence[Ranked], count: int) -> list[Ranked]:
    """Return the best sentence and those nearly as good that do not repeat a chosen one."""
    states = asked.kind == "statement" and len(asked.words) >= _FEWEST_WORDS_OF_A_CLAIM
    behind = _BEHIND_CLAIM if states else _BEHIND_OTHERS
    chosen: list[Ranked] = []
    for each in ranked:
        if len(chosen) == count or each.score < ranked[0].score - behind:
            break
        if all(_overlap(each.statement.terms, other.statement.terms) < _REPETITION for other in chosen):
            chosen.append(each)
    return chosen


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    """Jaccard similarity of two sets of terms."""
    return len(one & two) / (len(one | two) or 1)


def _claims(
    asked: QuestionFeatures, lock: Lock, chosen: Sequence[Statement], analyze: Analyze, quote_max_words: int
) -> tuple[Claim, ...]:
    """Return the chosen sentences as they are told, none that was told with one before it."""
    claims: dict[str, Claim] = {}
    covered: list[tuple[int, int, int]] = []
    for statement in chosen:
        index, unit = statement.index, statement.unit
        if any(index == other and start <= unit.start and unit.end <= end for other, start, end in covered):
            continue
        for place, told in _told(asked, statement, lock, analyze):
            if orders_assistant(told.text):
                continue
            quoted = told.quoted.of(lock.passages[place - 1].chunk.text)
            start, end = best_window(quoted, asked.weights, analyze, quote_max_words)
            claims.setdefault(told.text, Claim(told.text, place, quoted[start:end], told.parts))
            covered.append((place, told.start, told.end))
    return tuple(claims.values())


def _told(asked: QuestionFeatures, statement: Statement, lock: Lock, analyze: Analyze) -> list[tuple[int, Excerpt]]:
    """Return what is said for a sentence, and of which passage: the steps or the code that who asks how to do
    something needs, the list that is asked for by its lead-in, else the sentence alone.
    """
    unit, index = statement.unit, statement.index
    layout = Layout(_passage(lock, statement).chunk)
    if asked.kind == "steps":
        if steps := layout.steps(unit):
            return steps_across(lock, index, steps)
        after = layout.code_after(unit)
        block = layout.block(after or unit) if after or unit.kind == "code" else None
        alone = [layout.alone(unit)] if after or not block else []
        return [(index, told) for told in (*alone, block) if told]
    lead = layout.lead_in(unit)
    if lead and asked.terms & set(analyze(statement.text)) <= set(analyze(lead)):
        return [(index, layout.listed(unit) or layout.alone(unit))]
    return [(index, layout.alone(unit))]
