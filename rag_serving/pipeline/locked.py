"""A question with the passages locked for it, or for both of its topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rag_serving.answering.answerer import Question
from rag_serving.answering.clarifying import deeper, examples_told, joined, spelling_told
from rag_serving.answering.comparing.typed import beginning
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.gates import ASKING_NOTHING, is_heading
from rag_serving.answering.lock import freeze
from rag_serving.answering.selection.selector import QuestionPart
from rag_serving.config.loading import Config
from rag_serving.config.models import Embedding
from rag_serving.config.sections import Gates
from rag_serving.config.sources import Profile
from rag_serving.conversations.turns import QuestionRequest
from rag_serving.indexes.view import ReaderView
from rag_serving.query.languages import FARTHER_ABROAD, knows, languages_told
from rag_serving.query.spelling import Names
from rag_serving.query.topics import intents_of
from rag_serving.records.answers import Answer, Evidence
from rag_serving.records.decisions import Clarification, Contender, Decision
from rag_serving.records.flags import LANGUAGE_NOT_SERVED
from rag_serving.records.passages import Candidate, Lock
from rag_serving.records.queries import Filters
from rag_serving.retrieval.clarity import category_of, introduction, topic_asked
from rag_serving.retrieval.examples import example_questions
from rag_serving.retrieval.ranking import in_document_order, nearest_sections
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.why import evidence_of
from rag_serving.text.normalization import caseless
from rag_serving.tracing import StageTrace

NOT_VERIFIED = "This information cannot be verified from the book content."
MIN_SIMILARITY, MIN_CONFIDENCE = 0.7, 0.6
"""What the source document of book answers starts from, calibrated for text-embedding-3-small alone."""
_OUT_OF_REACH = 2.0  # for the share of a question's weight
_NO_SOURCE = "*"  # no source can be called so


def book_sources(config: Config, tenant: str) -> tuple[str, ...]:
    """Return the keys of a tenant's sources that are books."""
    sources = config.sources_of(tenant).items()
    return tuple(key for key, source in sources if config.profiles.name_of(source) == "book")


def of_books(config: Config, tenant: str, filters: Filters | None) -> Filters:
    """Return the given filters, restricted to books."""
    filters, books = filters or Filters(), book_sources(config, tenant)
    chosen = tuple(key for key in books if not filters.source or key in filters.source)
    return replace(filters, source=chosen or (_NO_SOURCE,))


def book_lock(candidates: Iterable[Candidate], profile: Profile) -> Lock:
    """Return the passages that are read, in the order of the book."""
    pool = freeze(candidates, profile.pool).passages
    return in_book_order(Lock(tuple(nearest_sections(pool, profile.passages))))


def in_book_order(lock: Lock) -> Lock:
    """Return the same passages in the order of the book."""
    return Lock(tuple(in_document_order(lock.passages)))


def book_gates(config: Config, lock: Lock) -> Gates:
    """Return the gates of a question about books: only confident answers are shown. Without similarities, for want of
    an embedding model, the words decide as usual."""
    profile, gates = config.profiles.book, config.gates
    similarity, confidence = profile.min_similarity, profile.min_confidence
    if has_scale_of_figures(config.embedding):
        similarity = MIN_SIMILARITY if similarity is None else similarity
        confidence = MIN_CONFIDENCE if confidence is None else confidence
    update = {"min_closest": 1.0}
    if similarity is not None and any("dense" in candidate.scores for candidate in lock.passages):
        update |= {"min_similarity": similarity, "min_coverage": _OUT_OF_REACH}
    if confidence is not None:
        update |= {"min_confidence": confidence, "min_confidence_statement": confidence}
    return gates.model_copy(update=update)


def has_scale_of_figures(embedding: Embedding) -> bool:
    """Return whether the similarities of an embedding model are on the scale that the figures are of."""
    return embedding.provider == "openai" and embedding.model.rpartition("/")[2].startswith("text-embedding-3")


_EACH = 3  # passages of the lock for each of two
_AROUND = " \t\r\n.,;:!?"


@dataclass(frozen=True)
class Locked:
    """A question with the passages locked for it."""

    request: QuestionRequest  # as sent, both topics in one
    view: ReaderView
    search: Search
    lock: Lock
    is_foreign: bool  # its language is not one of the pages'
    parts: tuple[QuestionPart, ...] = ()  # the question's parts, each with its own passages
    told: tuple[Contender, ...] = ()  # its two topics, if it has two
    gates: Gates | None = None  # None: those of the configuration
    second: Search | None = None  # the search for the second topic; its passages are those of the second part

    @property
    def is_known(self) -> bool:
        """Whether the search model supports the language of the question."""
        return knows(self.view.embedder.name, self.search.query.language)

    @property
    def question(self) -> Question:
        """The question as the stages after the lock need it."""
        query, context, view, request = self.search.query, self.search.context, self.view, self.request
        return Question(
            text=request.text if self.told else query.text,
            original=request.original or request.text,
            weights={**context.term_weights, **dict(pair for part in self.parts for pair in part.weights.items())},
            vector=context.vector,
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

    def introduced(self, count: int) -> Locked:
        """Return the question with the passages first that begin the page or section which it names, if it is clear
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
        """Return the evidence of a lock's passages, each by its own search."""
        if self.second is None:
            return evidence_of(self.search, lock, has_snippets)
        at = self.parts[1].first
        found = ((self.search, lock.passages[:at]), (self.second, lock.passages[at:]))
        return tuple(each for search, part in found for each in evidence_of(search, Lock(part), has_snippets))

    def clarification(self, answer: Answer, trace: StageTrace, drop_labels: Sequence[str]) -> Clarification | None:
        """Return what to show beside an answer: notes and follow-up questions."""
        query, decision, refusal = self.search.query, self.search.decision, answer.refusal
        if self.told:
            return joined(answer.clarification, deeper(self.told))
        is_nothing = decision is not None and decision.action == "no_match"
        if refusal and (refusal.gate in ASKING_NOTHING or is_nothing):
            return examples_told(example_questions(self.view, drop_labels))
        if answer.status == "refused":
            return answer.clarification
        if self.is_foreign and not self.is_known:
            trace.raise_flag(LANGUAGE_NOT_SERVED)
            return joined(Clarification(languages_told(query.language, self.view.languages())), answer.clarification)
        if answer.outcome == "told":
            return answer.clarification
        return joined(spelling_told(self.request.text, query.corrections), answer.clarification)

    def part(self, first: int, count: int, is_named: bool) -> QuestionPart:
        """Return the part of the question that some locked passages answer."""
        context, query = self.search.context, self.search.query
        text = f"What is {query.text.strip(' ?!.')}?" if is_named else query.text
        stored = self.search.stored_similarity(self.lock.chunk_ids)
        return QuestionPart(text, context.term_weights, first, count, is_named, context.vector, stored)


def _once(candidates: list[Candidate]) -> tuple[Candidate, ...]:
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(candidate.chunk.chunk_id, candidate)
    return tuple(found.values())


def two_asked(text: str, names: Names) -> tuple[str, str] | None:
    """Return the two topics of a question; None if it has one, or is the title of a page that the asker may read."""
    two, both = intents_of(text), caseless(text.strip(_AROUND))
    return None if two and any(both in title for title in names.titles) else two


def both_of(request: QuestionRequest, two: tuple[str, str], ask: Callable[[QuestionRequest], Locked]) -> Locked | None:
    """Return a question about two topics with the passages of both, by `ask`; None if one page answers both."""
    one = _clear(ask(replace(request, text=two[0])))
    other = _clear(ask(replace(request, text=two[1]))) if one else None
    if one is None or other is None or not _are_apart(one, other, request.text):
        return None
    first = [each for each in one.lock.passages if each.chunk.page_id != _page(other)][:_EACH]
    taken = {each.chunk.chunk_id for each in first}
    second = [each for each in other.lock.passages if each.chunk.chunk_id not in taken]
    second = [each for each in second if each.chunk.page_id != _page(one)][:_EACH]
    parts = (_part(one, 0, first), _part(other, len(first), second))
    told = (_contender(one), _contender(other))
    decision = Decision("answer", told, 1.0, "it asks for two things, and different pages tell them", is_several=True)
    query = one.search.query.noting(f"asked as two questions: “{two[0]}”, “{two[1]}”")
    search = replace(one.search, query=query, decision=decision)
    lock = Lock((*first, *second))
    return Locked(request, one.view, search, lock, one.is_foreign, parts, told, second=other.search)


def tells_both(locked: Locked, written: AnswerTrace) -> bool:
    """Return whether a confident answer has something of both."""
    return written.answer.outcome == "told" and shows_both(locked, written)


def shows_both(locked: Locked, written: AnswerTrace) -> bool:
    """Return whether passages of both questions are shown, with confidence or as the closest."""
    cited = {citation.passage - 1 for citation in written.answer.citations}
    return all(any(part.first <= place < part.first + part.count for place in cited) for part in locked.parts)


def _clear(locked: Locked) -> Locked | None:
    """Return one of two questions if it has results and is unambiguous; between pages of the same name the likelier one
    is chosen, because each gets only a short answer."""
    decision = locked.search.decision
    if decision and decision.action == "ambiguous" and decision.confidence:
        meant = replace(decision, action="answer", contenders=decision.contenders[:1])
        locked = replace(locked, search=replace(locked.search, decision=meant)).introduced(len(locked.lock))
        decision = meant
    is_clear = decision is None or decision.action in ("answer", "unsure")
    return locked if is_clear and locked.lock.passages and not locked.search.query.remark else None


def _are_apart(one: Locked, other: Locked, text: str) -> bool:
    if _page(one) == _page(other):
        return False
    both = caseless(text.strip(_AROUND))
    headings = (each.chunk.headings for locked in (one, other) for each in locked.lock.passages)
    return not any(both in caseless(heading) for heading in headings)


def _part(locked: Locked, first: int, passages: list[Candidate]) -> QuestionPart:
    named = bool(locked.parts)
    count = min(len(passages), locked.parts[0].count) if named else len(passages)
    return locked.part(first, count, named)


def _page(locked: Locked) -> str:
    return locked.lock.passages[0].chunk.page_id


def _contender(locked: Locked) -> Contender:
    decision = locked.search.decision
    if decision and decision.contenders:
        return decision.contenders[0]
    candidate = locked.lock.passages[0]
    chunk = candidate.chunk
    label = " → ".join(dict.fromkeys((chunk.title, *chunk.heading_path[-1:])))
    return Contender(label, category_of(chunk), locked.search.query.text, chunk.url, chunk.page_id, candidate.score)
