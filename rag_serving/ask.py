"""The life of a question on one page: access → read → search → lock → select → complete → check → render → receipt. A
kind of question is a list of stages: of all pages (`QUESTION`), of books (`BOOK`), in a conversation
(`in_conversation`), of a selected text (`SELECTION`), a search without an answer (`SEARCH`), or a text compared with
the pages (`CHECK`). A stage gets the inquiry and adds to it what later stages need; it may replace the remaining
stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import NO_VECTORS, Question
from rag_serving.answering.citations import pinpointed
from rag_serving.answering.clarifying import WHICH_PART
from rag_serving.answering.gates import nothing_kept
from rag_serving.answering.lock import completed, freeze, lock_selection
from rag_serving.caching.answers import CachedAnswer
from rag_serving.checking.check import Checking, asked_in
from rag_serving.conversations.turns import Conversation, QuestionRequest
from rag_serving.degradation.phases import RetrievalOffError
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.view import ReaderView
from rag_serving.pipeline.locked import (
    NOT_VERIFIED,
    Locked,
    book_gates,
    book_lock,
    both_of,
    in_book_order,
    of_books,
    shows_both,
    tells_both,
    two_asked,
)
from rag_serving.pipeline.tenant import Inquiry, NotKeptError, Stages, TenantServices
from rag_serving.query.languages import is_of_pages
from rag_serving.reading import numbered
from rag_serving.receipts.proofs import answer_trace
from rag_serving.records.answers import Answer, Checked, SearchResults
from rag_serving.records.flags import NO_SHARED_WORDS, RETRIEVAL_DISABLED
from rag_serving.records.passages import Lock
from rag_serving.records.queries import PLAIN, Filters, Occasion
from rag_serving.records.sets import SetError, SetTables
from rag_serving.retrieval.clarity import decided, topic_asked
from rag_serving.retrieval.hybrid import RetrievalError
from rag_serving.retrieval.rerank import POOL
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions, passage_stages
from rag_serving.retrieval.why import search_results, why_of
from rag_serving.sets.answer import answer_changes, answer_set
from rag_serving.sets.execute import execute
from rag_serving.sets.history import Now, page_changes, page_ids, pages_in
from rag_serving.sets.reading import ChangeQuestion, is_about_set, read_change, read_set
from rag_serving.telemetry.events import Kind
from rag_serving.text.analyzer import analyze
from rag_serving.text.question_types import kind_of
from rag_serving.text.small_talk import remark_of
from rag_serving.tracing import Listen, StageTrace

RETRIEVAL_DOWN = "Search is not available at the moment. Try again in a minute."
RETRIEVAL_OFF = "Search is switched off at the moment."
NO_PAST = "That generation does not say which of its pages show text of others: ask without `as_of`."
EXACT_SEARCH, NO_PLACES = "dense_index_searched_exactly", "places_unavailable"

_POOL = 100  # fused candidates that hygiene may choose from
Result = TypeVar("Result")


def narrow(inquiry: Inquiry) -> None:
    """Ask books alone."""
    request, tenant = inquiry.request, inquiry.tenant
    inquiry.within = of_books(tenant.config, tenant.tenant, request.filters)
    inquiry.request = replace(request, filters=inquiry.within)


def access(inquiry: Inquiry) -> None:
    """Open the published pages as the asker may see them, in the phase of retrieval that is in force."""
    tenant, request, lease = inquiry.tenant, inquiry.request, inquiry.lease
    inquiry.phases = lease.enter_context(tenant.phases.begun(request, tenant.mode))
    lease.enter_context(inquiry.trace.part("total"))
    pages = tenant.pages(request.principal, inquiry.trace, inquiry.phases)
    inquiry.view, inquiry.known = lease.enter_context(pages)
    inquiry.config = tenant.config_of(inquiry.phases)


def read(inquiry: Inquiry) -> None:
    """Resolve the question against its conversation, repeating earlier questions with the asker's current access."""
    conversing, phases = inquiry.tenant.conversing, inquiry.phases.beside()
    stages = [stage for stage in STAGES[inquiry.request.occasion.mode] if stage not in ONCE]

    def asked_again(text: str, filters: Filters | None) -> tuple[Answer, Lock]:
        request = replace(inquiry.request, text=text, filters=filters or inquiry.within, explain=False)
        again = inquiry.variant(request=request, trace=StageTrace(), phases=phases, answering=conversing.extractive)
        again.lease, again.stages, again.places = ExitStack(), stages, None
        again.run()
        return again.answer, again.written.lock

    inquiry.request = conversing.read(inquiry.request, inquiry.conversation, inquiry.trace, asked_again)
    inquiry.is_read = True


def recall(inquiry: Inquiry) -> None:
    """Repeat the question's earlier answer, if it may have one."""
    repeated, phases = inquiry.tenant.memory.repeated, inquiry.phases
    features = sorted(inquiry.config.features.enabled)
    settings = {"features": features, "phase": phases.configured, "searched": phases.mode}
    inquiry.place = repeated.place(inquiry.request, inquiry.view.id, inquiry.known, settings)
    if cached := repeated.find(inquiry.place):
        inquiry.stages = (partial(repeat, cached),)


def look_back(inquiry: Inquiry) -> None:
    """Ask an earlier generation if requested: as if it had only pages that the asker may read now, too."""
    request, view, tenant, told = inquiry.request, inquiry.view, inquiry.tenant, NO_PAST
    if not request.occasion.as_of:
        return
    try:
        earlier = tenant.generation_as_of(request.occasion.as_of, view.id)
        if earlier == view.id:
            return
        generation = inquiry.lease.enter_context(tenant.past(earlier, inquiry.phases))
        if (tables := view.set_tables()) and (past := past_view(generation.for_reader(request.principal), tables)):
            inquiry.view, inquiry.now = past, Now(view.id, tables)
            return
    except (NotKeptError, UnpublishedError) as error:
        told = str(error)
    inquiry.stages = ()
    inquiry.answer = Answer("refused", told, generation=view.id, timings_ms=inquiry.trace.timings_ms)


def past_view(view: ReaderView, now: SetTables) -> ReaderView | None:
    """Return the view of an earlier generation as if it had no pages but the present ones; None if it does not say
    which pages show text of others, or is in a database."""
    tables = view.set_tables(page_ids(now))
    return view.narrowed(tables) if tables and isinstance(view, ReaderView) else None


def take_set(inquiry: Inquiry) -> None:
    """Answer from all pages if the question is about a whole set, or about changes, in all of its words."""
    request, view, text = inquiry.request, inquiry.view, inquiry.request.text
    if request.filters or request.page or not is_about_set(text):
        return
    with inquiry.trace.part("set"), suppress(SetError):
        if not (tables := view.set_tables()):
            return
        now, reader = inquiry.now or Now(view.id, tables), ""
        query = read_set(text, tables)
        if not query and (change := read_change(text, tables)):
            take_change(inquiry, change, tables, now)
            return
        if not query:
            query, usage = inquiry.tenant.set_reader.read(text, tables)
            reader = inquiry.config.generation.model or ""
            if usage:
                inquiry.tenant.log.spent(usage)
        if query:
            result = execute(query, tables, view.id)
            among = now.id if now.id != view.id else ""
            inquiry.written = answer_set(result, view, now.classes | tables.classes, among, reader)
            inquiry.stages = (finish_set, receipt)


def take_change(inquiry: Inquiry, change: ChangeQuestion, tables: SetTables, now: Now) -> None:
    """Return the answer about changes, if there is a generation to compare with: only of pages that show text of pages
    which the asker may read now."""
    tenant, view, principal = inquiry.tenant, inquiry.view, inquiry.request.principal
    older = tenant.generation_before(change.since, view.id, is_past=view.id != now.id)
    whole = tenant.set_tables(older, principal) if older else None
    if older and whole:
        then = tenant.set_tables(older, principal, now.pages) or whole
        untold = page_ids(whole) & now.pages - page_ids(then)
        pages = tuple(one for one in change.pages or pages_in(tables, change.space) if one not in untold)
        changes = page_changes(then, tables, pages)
        inquiry.written = answer_changes(changes, view, older, pages, now)
        inquiry.stages = (finish_set, receipt)


def finish_set(inquiry: Inquiry) -> None:
    """Let each citation lead to its own quote, and close the pages."""
    view, written = inquiry.view, inquiry.written
    cited = numbered(pinpointed(written.answer, written.lock, view.page_text), view)
    inquiry.answer = replace(cited, understood=inquiry.request.understood, phase=inquiry.phases.phase)
    leave(inquiry)


def search(inquiry: Inquiry) -> None:
    """Search and lock passages: for both topics of a question, else for the question as one."""
    inquiry.locked = inquiry.in_phase(lock_each)


def search_books(inquiry: Inquiry) -> None:
    """Find passages of books and lock them."""
    inquiry.locked = inquiry.in_phase(lock_books)


def search_only(inquiry: Inquiry) -> None:
    """Find passages for a search without an answer."""
    config, count, reranker = inquiry.config, inquiry.count, inquiry.reranker
    depth = max(2 * count, config.reranker.candidates if reranker else POOL)

    def ranked(one: Inquiry) -> Search:
        stages = passage_stages(config, count, reranker, is_gated=False, mode=one.mode)
        return candidates(one, depth).then(stages, one.trace)

    found = inquiry.in_phase(ranked)
    inquiry.results = search_results(found, count, inquiry.request.explain)
    inquiry.recorded = inquiry.tenant.found(found, config.features, inquiry.phases)


def candidates(inquiry: Inquiry, count: int) -> Search:
    """Return candidates, with degradations noted in the trace."""
    config, request, trace = inquiry.config, inquiry.request, inquiry.trace
    options = SearchOptions(
        config.retrieval,
        inquiry.mode,
        count,
        config.features.FEATURE_RM3,
        request.filters,
        inquiry.tenant.is_word,
        page=request.page,
        keyword=config.keyword,
        watch=trace.watch,
    )
    trace.tell("search")
    found = search_candidates(inquiry.view, inquiry.vectors, request.text, options)
    trace.include(found.trace)
    if not found.context.keywords and inquiry.view.degraded:
        trace.raise_flag(EXACT_SEARCH)
    return found


def lock_each(inquiry: Inquiry) -> Locked:
    """Return the passages for both topics of a question, else those for the question as one."""
    request, locked = inquiry.request, None
    if two := two_asked(request.text, inquiry.view.names):
        locked = both_of(request, two, lambda one: lock(inquiry.variant(request=one)))
    return locked or lock(inquiry)


def lock(inquiry: Inquiry) -> Locked:
    """Return the best passages, frozen: nothing is retrieved after this."""
    config, view, trace = inquiry.config, inquiry.view, inquiry.trace
    found = candidates(inquiry, _POOL)
    is_foreign = not is_of_pages(found.query.language, view.languages)
    count = config.keyword.top_k if found.context.keywords else config.retrieval.final_passages
    found = found.then(passage_stages(config, count, inquiry.reranker, not is_foreign, inquiry.mode), trace)
    passages = freeze(inquiry.tenant.passages(found), count)
    if kind_of(found.query.text) == "steps":
        passages = completed(passages, view.beside)
    if not found.decision and inquiry.mode == "hybrid":
        found = replace(found, decision=decided(found, config.gates.min_clear))
    locked = Locked(inquiry.request, view, found, passages, is_foreign)
    return locked.introduced(config.retrieval.final_passages)


def lock_books(inquiry: Inquiry) -> Locked:
    """Return the best passages of books in their order, frozen."""
    config, view, book = inquiry.config, inquiry.view, inquiry.config.profiles.book
    found = candidates(inquiry, _POOL)
    stages = passage_stages(config, book.pool, inquiry.reranker, is_gated=False, mode=inquiry.mode)
    found = found.then(stages, inquiry.trace)
    passages = book_lock(inquiry.tenant.passages(found), book)
    if kind_of(found.query.text) == "steps":
        passages = in_book_order(completed(passages, view.beside))
    is_foreign = not is_of_pages(found.query.language, view.languages)
    return Locked(inquiry.request, view, found, passages, is_foreign, gates=book_gates(config, passages))


def select(inquiry: Inquiry) -> None:
    """Select units that answer, complete and check them; only the lock is read: `Answering.answer`."""
    locked, generation, explain = inquiry.locked, inquiry.view.id, inquiry.request.explain
    inquiry.written = inquiry.answering.answer(inquiry.trace, locked.question, locked.lock, generation, explain)


def settle(inquiry: Inquiry) -> None:
    """Answer a question searched as two as one, unless both parts are answered."""
    if not inquiry.locked.told or tells_both(inquiry.locked, inquiry.written):
        return
    one = inquiry.variant(phases=inquiry.phases.beside())
    one.locked = one.in_phase(lock)
    select(one)
    if one.written.answer.outcome == "told" or not shows_both(inquiry.locked, inquiry.written):
        inquiry.locked, inquiry.written = one.locked, one.written


def select_from_text(inquiry: Inquiry) -> None:
    """Answer from the text that its asker selected, as from pages; citations are offsets into it."""
    text, trace, vector = inquiry.request.text, inquiry.trace, None
    with trace.part("total"):
        with trace.part("embed", NO_VECTORS):
            vector = inquiry.vectors.embed_query(text)
        terms = dict.fromkeys(analyze(text), 1.0)
        question = Question(text, text, terms, vector, remark=remark_of(text))
        passages = lock_selection(inquiry.selection)
        inquiry.written = inquiry.answering.answer(trace, question, passages, explain=inquiry.request.explain)
    inquiry.recorded = answer_trace(inquiry.recorded, inquiry.written)
    inquiry.answer = replace(inquiry.written.answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)


def check_claims(inquiry: Inquiry) -> None:
    """Judge each claim of a text by the pages; the evidence is the answer in the receipt."""
    inquiry.phases = inquiry.phases.beside()  # it takes longer than a question, which says nothing of the phase
    inquiry.checked, inquiry.written = Checking(inquiry, candidates).run(inquiry.quotes)
    inquiry.answer = inquiry.written.answer


def cite(inquiry: Inquiry) -> None:
    """Let each citation lead to its own quote: by words of the link, by page, by place on the page of a PDF file."""
    view, passages, places = inquiry.view, inquiry.locked.lock, inquiry.places
    cited = numbered(pinpointed(inquiry.written.answer, passages, view.page_text), view)
    if places and any(citation.page for citation in cited.citations):
        with inquiry.trace.part("places", NO_PLACES):
            cited = places.located(cited, passages, view.original, inquiry.request.principal)
    inquiry.cited = cited


def ask_back(inquiry: Inquiry) -> None:
    """Ask which part to explain if nothing matched."""
    topic = topic_asked(inquiry.locked.search) if inquiry.cited.status == "not_found" else None
    if topic and topic.frame == "told":
        inquiry.instead = "clarify", WHICH_PART


def refuse(inquiry: Inquiry) -> None:
    """Refuse in one sentence questions that books do not answer."""
    if inquiry.cited.status in ("not_found", "needs_more_context"):
        inquiry.instead = inquiry.cited.status, NOT_VERIFIED


def render(inquiry: Inquiry) -> None:
    """Build the answer with the reading of the question and the notes beside it; record the search for telemetry."""
    cited, request, locked, passages = inquiry.cited, inquiry.request, inquiry.locked, inquiry.written.lock
    status, text = inquiry.instead or (cited.status, cited.answer)
    overlap, decision, why = inquiry.config.retrieval.min_keyword_overlap, locked.search.decision, None
    refusal = cited.refusal
    if refusal and refusal.gate == "passages":
        refusal = nothing_kept(len(locked.search.candidates), overlap)
    drop_labels, evidence = inquiry.config.ingestion.drop_labels, cited.evidence
    clarification = locked.clarification(cited, inquiry.trace, drop_labels)
    if status != "refused":
        with inquiry.trace.part("evidence"):
            evidence = locked.evidence(passages, cited.outcome != "none" or request.explain)
    if request.explain:
        numbers = {citation.passage: citation.index for citation in cited.citations}
        why = why_of(locked.search, passages, numbers, overlap)
        why["decision"] = decision.payload() if decision else None
    inquiry.answer = replace(
        cited,
        status=status,
        answer=text,
        refusal=refusal,
        clarification=clarification,
        understood=request.understood,
        notes=locked.search.query.notes if request.explain or cited.outcome != "told" else None,
        reranker=locked.search.reranker,
        phase=inquiry.phases.phase,
        decision=decision,
        evidence=evidence,
        why=why,
    )
    inquiry.recorded = inquiry.tenant.found(locked.search, inquiry.config.features, inquiry.phases)


def warn(inquiry: Inquiry) -> None:
    """Flag passages of books that share no word with the question."""
    answer, book = inquiry.answer, inquiry.config.profiles.book
    if book.warn_without_words and answer.gates.get("coverage") == 0 and answer.citations:
        inquiry.trace.raise_flag(NO_SHARED_WORDS)


def leave(inquiry: Inquiry) -> None:
    """Record the receipt's and telemetry's data on question and pages, and close these."""
    answer, request = inquiry.answer, inquiry.request
    originals = {cited: inquiry.view.original(cited) for cited in {each.page_id for each in answer.citations}}
    files = {page_id: original.digests() for page_id, original in originals.items() if original}
    written, asked, filters = inquiry.written, request.text, request.filters
    inquiry.written = replace(written, answer=answer, files=files, question=asked, filters=filters)
    inquiry.recorded = answer_trace(inquiry.recorded, inquiry.written)
    inquiry.lease.close()


def receipt(inquiry: Inquiry) -> None:
    """Store the receipt, and keep the answer in memory: to be given again, and for when search fails."""
    tenant, written, request = inquiry.tenant, inquiry.written, inquiry.request
    inquiry.answer = answer = tenant.receipt_writer.with_receipt(inquiry.trace, written, request.principal)
    tenant.memory.repeated.keep(inquiry.place, answer, written)
    if tenant.memory.earlier:
        tenant.memory.earlier.keep(request, answer, written, inquiry.known)


def prove(inquiry: Inquiry) -> None:
    """Store the receipt of a check's results, which are never reused as an answer."""
    writer, asker = inquiry.tenant.receipt_writer, inquiry.request.principal
    inquiry.answer = writer.with_receipt(inquiry.trace, inquiry.written, asker)


def repeat(cached: CachedAnswer, inquiry: Inquiry) -> None:
    """Give an answer again, with a receipt of its own."""
    inquiry.lease.close()
    inquiry.answer = inquiry.tenant.memory.repeated.given(inquiry.trace, cached, inquiry.request)
    inquiry.recorded = replace(inquiry.recorded, lock=cached.lock)


def show(inquiry: Inquiry) -> None:
    """Report the search's degradations, and its duration."""
    inquiry.lease.close()
    trace = inquiry.trace
    inquiry.results = replace(inquiry.results, degraded=tuple(trace.flags), timings_ms=trace.timings_ms)


QUESTION: Stages = (access, recall, look_back, take_set, search, select, settle, cite, ask_back, render, leave, receipt)
BOOK: Stages = (narrow, access, recall, search_books, select, cite, refuse, render, warn, leave, receipt)
SELECTION: Stages = (select_from_text,)
SEARCH: Stages = (access, search_only, show)
CHECK: Stages = (access, check_claims, leave, prove)
STAGES: Mapping[str, Stages] = {"corpus": QUESTION, "book-wide": BOOK}
ONCE = frozenset({narrow, access, recall, leave, receipt})
"""The stages that an earlier question does not go through again."""


def in_conversation(stages: Stages) -> Stages:
    """Return the stages of a question that may lean on turns before it."""
    after = list(stages).index(access) + 1
    return (*stages[:after], read, *stages[after:])


class Pipeline(TenantServices):
    """Asks and searches the pages of one tenant. Safe to use from several threads."""

    def ask(
        self,
        principal: Principal,
        question: str,
        filters: Filters | None = None,
        explain: bool = False,
        listen: Listen | None = None,
        conversation: Conversation | None = None,
        occasion: Occasion = PLAIN,
    ) -> Answer:
        """Return an answer with verified citations, or the reason why there is none. `listen`: receives progress.
        `conversation`: earlier turns that the question may depend on. `occasion`: the mode and circumstances of the
        question."""
        turns = conversation.last_turns if conversation else ()
        if turns:
            occasion = replace(occasion, questions=tuple(turn.question for turn in reversed(turns)))
        request = QuestionRequest(principal, question, filters, explain, occasion=occasion)
        inquiry = Inquiry(self, request, StageTrace(listen), STAGES[occasion.mode])
        if conversation and turns:
            inquiry.conversation, inquiry.is_read = conversation, False
            inquiry.stages = in_conversation(inquiry.stages)
        return self._answered(inquiry, principal, "ask")

    def ask_selection(
        self,
        question: str,
        selection: str,
        explain: bool = False,
        listen: Listen | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """Return an answer from the given text alone: nothing is retrieved, and citations are offsets into it."""
        request = QuestionRequest(principal or Principal(self.tenant), question, explain=explain)
        inquiry = Inquiry(self, request, StageTrace(listen), SELECTION, selection=selection)
        return self._answered(inquiry, principal, "selected_text")

    def check(
        self,
        principal: Principal,
        text: str,
        filters: Filters | None = None,
        listen: Listen | None = None,
        quotes: Sequence[str] = (),
    ) -> Checked:
        """Compare each claim of a text, and each quote that it is said to rest on, with the pages that the principal
        may read. Raises RetrievalError: search is unavailable; the message is for the caller."""
        request = QuestionRequest(principal, asked_in(text), filters)
        inquiry = Inquiry(self, request, StageTrace(listen), CHECK, selection=text, quotes=quotes)
        answer = self._answered(inquiry, principal, "check")
        if answer.status == "unavailable":
            raise RetrievalError(answer.answer)
        return replace(inquiry.checked, receipt_id=answer.receipt_id, flags=answer.flags)

    def search(
        self, principal: Principal, query: str, k: int = 10, filters: Filters | None = None, explain: bool = False
    ) -> SearchResults:
        """Return the k best chunks that the principal may read; with `explain`, or without any, also how the query was
        read. Raises UnpublishedError: there is no generation to search; RetrievalError: no phase can answer, or
        retrieval is switched off."""
        inquiry = Inquiry(self, QuestionRequest(principal, query, filters, explain), StageTrace(), SEARCH, count=k)
        with self.memory.asked():
            inquiry.run()
            self.log.searched(principal, query, inquiry.results, inquiry.recorded)
        return inquiry.results

    def _answered(self, inquiry: Inquiry, asker: Principal | None, kind: Kind) -> Answer:
        """Return the stages' answer, or its replacement; it is recorded before it is returned."""
        with self.memory.asked():
            self.log.begin(inquiry.trace)
            try:
                inquiry.run()
            except RetrievalOffError:
                inquiry.answer = Answer("unavailable", RETRIEVAL_OFF, flags=(RETRIEVAL_DISABLED,))
            except UnpublishedError as error:
                inquiry.answer = self._unavailable(inquiry, str(error))
            except RetrievalError:
                inquiry.answer = self._unavailable(inquiry, RETRIEVAL_DOWN)
            self.log.answered(asker, inquiry.request.text, inquiry.answer, inquiry.recorded, kind)
        return inquiry.answer

    def _unavailable(self, inquiry: Inquiry, text: str) -> Answer:
        """Return the fallback of a question that no phase answers: its earlier answer, or a plain message; the message
        if its conversation was not resolved."""
        request, trace = inquiry.request, inquiry.trace
        earlier = self.memory.earlier if inquiry.is_read and not inquiry.selection else None
        if earlier and (answer := earlier.find(request, trace)):
            return answer
        flags = tuple(trace.flags)
        return Answer("unavailable", text, understood=request.understood, flags=flags, timings_ms=trace.timings_ms)
