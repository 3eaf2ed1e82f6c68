"""The receipts of one tenant: recording an answer, access to its receipt, and its proof without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from rag_serving.access.principals import Principal
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.verification import VerificationRules
from rag_serving.config.loading import Config
from rag_serving.config.sections import Features
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.databases import ServedGeneration
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.originals import Original
from rag_serving.indexes.view import ReaderView
from rag_serving.receipts.faults import Archive, Receipt, changes, faults, proved_lines
from rag_serving.receipts.receipt import (
    NotTheAskerError,
    ReceiptError,
    Secrecy,
    make_receipt,
    receipt_id,
    repeated_receipt,
)
from rag_serving.receipts.store import ReceiptStore
from rag_serving.records.answers import Answer
from rag_serving.records.passages import Chunk
from rag_serving.records.sets import SetTables
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.why import index_rankings, scored_ids
from rag_serving.sets.execute import recount
from rag_serving.sets.history import changes_digest, page_changes, page_ids
from rag_serving.telemetry.events import MAX_CANDIDATES, MAX_RANKED, Found, Trace
from rag_serving.tracing import StageTrace

NO_RECEIPT = "receipt_not_stored"


def telemetry_of(search: Search, features: Features, phase: int | None, retrieval_ms: float | None) -> Trace:
    """Return a search's row of telemetry, with the switches that were on."""
    rankings, query = index_rankings(search, MAX_RANKED), search.query
    found = Found(phase, retrieval_ms, len(search.candidates), len(query.corrections))
    return Trace(scored_ids(search, MAX_CANDIDATES), rankings=rankings, features=features.enabled, found=found)


def answer_trace(recorded: Trace, written: AnswerTrace) -> Trace:
    """Return the same with what telemetry keeps of an answer: what a model wrote counts, shown or not."""
    verdicts = (*written.withdrawn, *written.verdicts)
    return replace(recorded, lock=written.lock, verdicts=verdicts, rejected=written.rejected)


@dataclass(frozen=True)
class ReceiptWriter:
    """Makes and stores the receipts of one tenant's answers."""

    tenant: str
    receipts: ReceiptStore
    secrecy: Secrecy
    rules: VerificationRules

    def with_receipt(self, trace: StageTrace, written: AnswerTrace, asker: Principal) -> Answer:
        """Return the answer with flags, timings and its receipt's id; that none can be stored is only a flag."""
        return self._stored(trace, written.answer, asker, lambda answer: self.of(replace(written, answer=answer)))

    def of(self, written: AnswerTrace) -> dict[str, Any]:
        """Return the receipt of an answer; nothing is stored."""
        return make_receipt(self.tenant, written, written.rules or self.rules)

    def repeated(
        self, trace: StageTrace, answer: Answer, first: Mapping[str, Any], asker: Principal, question: str
    ) -> Answer:
        """Return an answer that is given again with a receipt of its own, made from the first one's."""
        return self._stored(trace, answer, asker, lambda again: repeated_receipt(first, question, again))

    def _stored(
        self, trace: StageTrace, answer: Answer, asker: Principal, receipt_of: Callable[[Answer], dict[str, Any]]
    ) -> Answer:
        answer = replace(answer, flags=tuple(trace.flags), timings_ms=dict(trace.timings_ms), receipt_id=None)
        with trace.part("receipt", NO_RECEIPT):
            receipt = self.secrecy.kept(asker, receipt_of(answer))
            answer = replace(answer, receipt_id=self.receipts.put(receipt))
        return replace(answer, flags=tuple(trace.flags), timings_ms=trace.timings_ms)


Name = Literal[
    "signature", "id", "generation", "question", "text_hash", "file", "lock", "quote", "verdicts", "outcome", "set",
    "page",
]  # fmt: skip
_BEFORE_REPLAY = ("receipt:", "generation:", "passage ", "question:")
_NOT_IN_LOCK = "was not in the lock"
_UNCHECKED = "not checked, because something before it does not hold"


@dataclass(frozen=True)
class Check:
    """One part of a proof. `index`: the number of a citation as shown, or the place of a passage in the lock."""

    name: Name
    ok: bool
    detail: str
    index: int | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape = {"name": self.name, "ok": self.ok, "detail": self.detail}
        return shape if self.index is None else {**shape, "index": self.index}


def checks_of(receipt: Mapping[str, Any], faults: Sequence[str], changes: Sequence[str]) -> Iterator[Check]:
    """Yield every part that a replay looked at, with its fault if it has one. `faults` and `changes` are those of the
    receipt, a line each that begins with its part. A page that changed does not make a receipt wrong: its `page` check
    says that the answer may be out of date."""
    yield _check("signature", _lines("signature:", faults), "it was stored here and not changed since")
    yield _check("id", _lines("id:", faults), "it is the digest of the receipt")
    unread = _lines("receipt:", faults)
    yield _check("generation", [*_lines("generation:", faults), *unread], "the pages that were asked are still kept")
    if unread or _lines("generation:", faults):
        return
    yield _check("question", _lines("question:", faults), "it is the one that was hashed")
    passages = [passage["index"] for passage in receipt["passages"]]
    for place in passages:
        lines = _lines(f"passage [{place}]:", faults)
        yield _check("text_hash", lines, "the passage has the text and version that were read", place)
    for place in [passage["index"] for passage in receipt["passages"] if passage.get("file")]:
        yield _check("file", _lines(f"file [{place}]:", faults), "the file has the SHA-256 that was noted", place)
    is_replayed = not any(line.startswith(_BEFORE_REPLAY) for line in faults)
    if is_replayed:
        yield from _replayed(receipt, faults)
    else:
        yield from (Check(name, False, _UNCHECKED) for name in ("lock", "quote", "verdicts", "outcome"))
    for place in passages:
        yield _check("page", _lines(f"passage [{place}]:", changes), "its page is still the same", place)


def _replayed(receipt: Mapping[str, Any], faults: Sequence[str]) -> Iterator[Check]:
    of_citations = _lines("citation [", faults, whole=True)
    outside = [line for line in of_citations if _NOT_IN_LOCK in line]
    yield _check("lock", outside, _all(receipt["citations"], "citation", "stood among the locked passages"))
    for number in dict.fromkeys(citation["index"] for citation in receipt["citations"]):
        lines = [line for line in _lines(f"citation [{number}]:", faults) if _NOT_IN_LOCK not in line]
        yield _check("quote", lines, "every quote stands in its passage at its place", number)
    verdicts = [*_lines("verdict ", faults, whole=True), *_lines("sentences:", faults)]
    yield _check("verdicts", verdicts, _all(receipt["verdicts"], "verdict", "came out the same once more"))
    yield _check("outcome", _lines("outcome:", faults), "it is shown as what it is")
    if "set" in receipt:
        members = receipt["set"].get("members")
        fine = "the same changes once more" if members is None else f"{len(members)} members, and nothing else matches"
        yield _check("set", _lines("set:", faults), fine)


def _all(parts: Sequence[Any], noun: str, holds: str) -> str:
    if not parts:
        return f"there is no {noun}"
    return f"all {len(parts)} {noun}s {holds}" if len(parts) > 1 else f"the {noun} {holds}"


def _lines(part: str, lines: Iterable[str], whole: bool = False) -> list[str]:
    """Return the lines of a part; without its name unless `whole`."""
    return [line if whole else line.removeprefix(part).strip() for line in lines if line.startswith(part)]


def _check(name: Name, lines: Sequence[str], fine: str, index: int | None = None) -> Check:
    return Check(name, not lines, "; ".join(lines) or fine, index)


_OF_THE_ASKER = frozenset({"asker", "sealed", "readers"})


@dataclass(frozen=True)
class Proof:
    """The faults of a receipt, and later changes on the pages, one per line; and each part apart."""

    receipt_id: str
    faults: tuple[str, ...]
    changes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    generation: str | None = None  # the receipt's own
    published_generation: str | None = None  # the one that was compared with
    proved: tuple[str, ...] = ()  # of each quote of a paged document, if the receipt is valid

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "receipt_id": self.receipt_id,
            "valid": not self.faults,
            **{name: list(getattr(self, name)) for name in ("faults", "changes", "proved")},
            "checks": [check.payload() for check in self.checks],
            "generation": self.generation,
            "published_generation": self.published_generation,
        }


Chunks = Sequence[tuple[str, str]]
"""Page id and chunk id of each passage that an answer rests on."""


class Proofs:
    """Shows, shares and proves stored receipts. Safe to use from several threads."""

    def __init__(
        self, config: Config, tenant: str, published: CurrentGeneration, receipts: ReceiptStore, secrecy: Secrecy
    ) -> None:
        self._config, self._tenant, self._published, self._receipts = config, tenant, published, receipts
        self._secrecy = secrecy

    def shown(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, for its asker or an operator, or for everybody once it is shared; always only for
        readers who could read all of its passages and may still read their pages. Others do not learn who asked. Raises
        ReceiptError: there is none, it was changed, its generation is gone, or the principal may not read all of it;
        UnpublishedError: there is no generation to check current access."""
        receipt = self._receipts.get(identifier, self._tenant)
        is_own = self._is_of(principal, receipt)
        if not is_own and not self._receipts.is_shared(identifier, self._tenant):
            raise ReceiptError(f"receipt {identifier!r} is of another asker: the caller may not read it")
        with self._stored(str(receipt.get("generation"))) as then, self._published.acquire() as now:
            if not _is_open_to(receipt, then.for_reader(principal), now, now.for_reader(principal)):
                raise ReceiptError(f"receipt {identifier!r} has passages that the caller may not read")
        opened = self._secrecy.opened(receipt)
        return opened if is_own else {name: value for name, value in opened.items() if name not in _OF_THE_ASKER}

    def open_to(self, principal: Principal, cited: Sequence[Chunks]) -> list[bool]:
        """Return of several answers whether the principal may read all that they rest on as it is published now. Raises
        UnpublishedError: there is no generation that says who may read what."""
        with self._published.acquire() as now:
            view = now.for_reader(principal)
            return [all(_is_open_now(page, chunk, now, view) for page, chunk in each) for each in cited]

    def share(self, principal: Principal, identifier: str, is_shared: bool = True) -> None:
        """Share a receipt with everybody who may read all of its passages, or undo it. Raises ReceiptError: the
        principal may see no such receipt, is neither its asker nor an operator, or the database cannot be written;
        UnpublishedError: there is no generation to check current access."""
        self.shown(principal, identifier)
        if not self._is_of(principal, self._receipts.get(identifier, self._tenant)):
            raise NotTheAskerError(f"receipt {identifier!r} is of another asker")
        if is_shared:
            self._receipts.share(identifier, self._tenant)
        else:
            self._receipts.unshare(identifier, self._tenant)

    def _is_of(self, principal: Principal, receipt: Mapping[str, Any]) -> bool:
        """Return whether a caller is the asker, or may see others' receipts; older receipts do not name their asker."""
        if "operator" in principal.roles or "asker" not in receipt:
            return True
        return bool(receipt["asker"] == self._secrecy.asker(principal))

    def proved_to(self, principal: Principal, identifier: str) -> Proof:
        """Replay a receipt for somebody who may see it, beside the published pages as he may read them. Raises
        ReceiptError, UnpublishedError: as `shown` does."""
        self.shown(principal, identifier)
        return self.prove(identifier, principal)

    def prove(self, identifier: str, principal: Principal | None = None) -> Proof:
        """Replay a stored receipt without any model. `principal`: limits the changes to pages that he may read. Raises
        ReceiptError: there is no such receipt, it is no JSON, or its generation is gone."""
        stored = self._receipts.stored(identifier, self._tenant)
        fault, receipt = self._receipts.signature_fault(stored), stored.receipt()
        problems = [f"signature: {fault}"] if fault else []
        if not fault and receipt_id(receipt) != identifier:
            problems.append("id: it is not the digest of the receipt")
        try:
            with self._stored(str(receipt.get("generation"))) as generation:
                stored_pages = _archive(generation, principal)
                problems += faults(self._secrecy.opened(receipt), stored_pages, self._secrecy.question_fault)
                problems += set_faults(receipt, generation, self._stored)
        except ReceiptError as error:
            if not fault:
                raise
            problems.append(f"generation: {error}")
        published, differences = (None, list[str]()) if problems else self._changes(receipt, principal)
        checks = tuple(checks_of(receipt, problems, differences))
        proved, generation_id = () if problems else tuple(proved_lines(receipt)), str(receipt.get("generation"))
        return Proof(identifier, tuple(problems), tuple(differences), checks, generation_id, published, proved)

    def _changes(self, receipt: Mapping[str, Any], principal: Principal | None) -> tuple[str | None, list[str]]:
        try:
            with self._published.acquire() as now:
                if now.id == receipt["generation"]:
                    return now.id, []
                return now.id, changes(receipt, ReaderPages(now.for_reader(principal)) if principal else _archive(now))
        except (UnpublishedError, ReceiptError) as error:
            return None, [f"published: {error}"]

    @contextmanager
    def _stored(self, generation_id: str) -> Iterator[ServedGeneration]:
        with ExitStack() as opened:
            try:
                generation = opened.enter_context(self._published.stored(generation_id))
            except UnpublishedError as error:
                raise ReceiptError(f"the receipt's generation cannot be opened: {error}") from error
            yield generation


Opened = Callable[[str], AbstractContextManager[ServedGeneration]]


def set_faults(receipt: Receipt, generation: ServedGeneration, open_older: Opened) -> list[str]:
    """Return what another run of a set's query, or of a comparison with an older generation, finds otherwise than its
    certificate, a line each."""
    if "set" not in receipt:
        return []
    if not isinstance(readers := receipt.get("readers"), list):
        return ["set: it cannot be counted without the asker's reader classes"]
    stated, classes, among = receipt["set"], frozenset(map(str, readers)), None

    def tables_of(opened: ServedGeneration) -> SetTables | None:
        return (opened.sets.among(classes, among) if among is not None else None) or opened.sets.of(classes)

    try:
        if "among" in stated:
            with open_older(str(stated["among"])) as now:
                among = page_ids(found) if (found := tables_of(now)) else frozenset()
        if (tables := tables_of(generation)) is None:
            return ["set: the generation has no tables to count it from"]
        if "older" not in stated:
            return recount({**stated, "readers": readers}, tables)
        with open_older(str(stated["older"])) as older:
            then = tables_of(older)
    except ReceiptError as error:
        return [f"set: {error}"]
    same = then is not None and changes_digest(page_changes(then, tables, stated["pages"])) == stated["digest"]
    return [] if same else ["set: the changes between its generations are others"]


@dataclass(frozen=True)
class ReaderPages:
    """The pages of a generation as one reader may see them."""

    view: ReaderView

    shows_all = False

    def original(self, page_id: str) -> Original | None:
        return self.view.original(page_id)

    def chunk(self, row: int) -> Chunk:
        return self.view.chunks([row])[0]

    def chunks_of_page(self, page_id: str) -> Sequence[Chunk]:
        return self.view.chunks(self.view.page_rows(page_id).tolist())

    def row_of(self, chunk_id: str) -> int | None:
        return self.view.row_of(chunk_id)


def _is_open_to(receipt: Mapping[str, Any], then: ReaderView, published: ServedGeneration, now: ReaderView) -> bool:
    """Return whether a caller may see the receipt: all passages as they were, and they and their pages as they are.
    `then` is the view of the generation that the receipt names, `now` of the published one. A page that is no longer
    there is no longer shown, nor is a passage that is still there and hidden now."""
    stated = receipt.get("set", {})
    members = [*(key for key, _ in stated.get("members", ())), *stated.get("pages", ())]
    return all(
        then.row_of(passage["chunk_id"]) is not None
        and _is_open_now(passage["page_id"], passage["chunk_id"], published, now)
        for passage in receipt["passages"]
    ) and all(_is_member_open(key, then, published, now) for key in members)


def _is_member_open(key: str, then: ReaderView, published: ServedGeneration, now: ReaderView) -> bool:
    """Return whether a reader may see a member of a set, then and now: a page, or a chunk with the offsets of a row."""
    chunk = key if then.row_of(key) is not None else key.rsplit(":", 2)[0]
    if then.row_of(chunk) is None:
        return then.has_page(key) and now.has_page(key)
    return _is_open_now(chunk.rsplit(":", 2)[0], chunk, published, now)


def _is_open_now(page_id: str, chunk_id: str, published: ServedGeneration, now: ReaderView) -> bool:
    return now.has_page(page_id) and not published.hides(now, chunk_id)


def _archive(generation: ServedGeneration, principal: Principal | None = None) -> Archive:
    """Return the pages of a generation that a receipt is compared with: all, or those of one reader where a database
    hands out no others. Raises ReceiptError: it is in a database, which hands out nothing to nobody."""
    if isinstance(generation, Generation):
        return generation
    if principal is None:
        raise ReceiptError(
            f"generation {generation.id} is in a database, which hands out nothing without a reader; ask the server "
            "for the proof (POST /v1/receipts/ID/verify)"
        )
    return ReaderPages(generation.for_reader(principal))
