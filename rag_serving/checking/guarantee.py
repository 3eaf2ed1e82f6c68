"""Answers under guarantee: which statements of an earlier answer its pages no longer make, and subscribing to that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.answering.comparing.typed import Value, beginning
from rag_serving.checking.otherwise import ComparedStatement
from rag_serving.checking.verdicts import CheckedPassage, TextClaim, claims_of, finding
from rag_serving.indexes.view import ReaderView
from rag_serving.pipeline.tenant import TenantServices
from rag_serving.receipts.receipt import ReceiptError, canonical, text_hash
from rag_serving.records.passages import Chunk
from rag_serving.records.sets import SetError, SetQuery
from rag_serving.sets.execute import execute, recount
from rag_serving.text.analyzer import analyze
from rag_serving.text.normalization import folded

MOST = 10  # changed statements of an answer that a notice has
_LONGEST = 600  # characters of a statement in a notice
_OWN_WORDS = 6  # of a statement that is the same wherever it stands on its page
_NEAREST = 0.5  # similarity of what stands in a statement's place, where a check finds nothing
_MARKUP = str.maketrans(dict.fromkeys("|*_`", " "))


class NoChannelError(ReceiptError):
    """No channel for notices is configured."""


@dataclass(frozen=True)
class ChangedStatement:
    """A statement of an answer that its page does not make any more, and the unit that comes closest now. The values
    are those that the other of the two has not."""

    before: str
    after: str = ""
    title: str = ""
    url: str = ""
    values_before: tuple[str, ...] = ()
    values_after: tuple[str, ...] = ()


def changed_statements(receipt: Mapping[str, Any], view: ReaderView) -> list[ChangedStatement]:
    """Return the statements of an answer that its pages, as a reader may see them, no longer make."""
    places = {passage["index"]: passage for passage in receipt["passages"]}
    paths = {citation["chunk_id"]: tuple(citation["heading_path"]) for citation in receipt["citations"]}
    found = dict[str, ChangedStatement]()
    for verdict in receipt["verdicts"]:
        place = places.get(verdict["index"])
        if verdict["outcome"] != "dropped" and place and not _is_unchanged(place, view):
            path = paths.get(place["chunk_id"], ())
            chunks = sorted(
                view.chunks(view.page_rows(place["page_id"]).tolist()), key=lambda chunk: chunk.heading_path != path
            )
            passages = [CheckedPassage(chunk, beginning(view.beside, chunk)) for chunk in chunks]
            found |= {one.before: one for one in _changed(verdict["shown"], path, passages, view)}
    return [*found.values(), *_changed_set(receipt, view)]


def state_of(changed: Sequence[ChangedStatement]) -> str:
    """Return a digest of the changed statements; empty without any."""
    return text_hash(canonical({"changed": [asdict(one) for one in changed]})) if changed else ""


def cited_chunks(receipt: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return page and chunk of each passage that an answer quotes."""
    cited = {verdict["index"] for verdict in receipt["verdicts"] if verdict["outcome"] != "dropped"}
    return [(one["page_id"], one["chunk_id"]) for one in receipt["passages"] if one["index"] in cited]


def follow(pipeline: TenantServices, principal: Principal, identifier: str) -> None:
    """Subscribe a caller to changes of an answer that the caller may see. Raises ReceiptError: the caller may not, or
    follows too many, or there is no channel; UnpublishedError: nothing is published to compare it with."""
    if not pipeline.config.monitoring.sends_notices:
        raise NoChannelError("no notices are sent here: set monitoring.notice_folder or monitoring.notice_url_env")
    reader = Principal(principal.tenant, principal.user, principal.groups)  # notices are made without roles
    receipt = pipeline.receipt(reader, identifier)
    with pipeline.reading(reader) as view:
        state = state_of(changed_statements(receipt, view))
    pipeline.subscriptions.add(reader, identifier, state)


def _is_unchanged(place: Mapping[str, Any], view: ReaderView) -> bool:
    """Return whether a passage is what it was, and nothing says that it is out of force."""
    row = view.row_of(place["chunk_id"])
    chunk = None if row is None else view.chunks([row])[0]
    if chunk is None or text_hash(chunk.text) != place["text_hash"]:
        return False
    return CheckedPassage(chunk, beginning(view.beside, chunk)).is_in_force


def _changed(
    shown: str, path: tuple[str, ...], passages: Sequence[CheckedPassage], view: ReaderView
) -> Iterator[ChangedStatement]:
    standing = [passage.chunk for passage in passages if passage.is_in_force]
    page, section = (_joined(standing), _joined(each for each in standing if each.heading_path == path))
    for claim in claims_of(shown):
        said = _plain(claim.text)
        where = page if len(said.split()) >= _OWN_WORDS else section  # a few words may stand for something else
        if claim.unit.kind in ("heading", "header") or f" {said} " in where:
            continue
        weights = view.term_weights(analyze(claim.alone))
        found = finding(claim, passages, weights) if claim.claims else None
        if found and found.verdict == "verbatim":
            continue
        if found and found.passage and found.unit:
            yield _statement(claim, found.passage, found.unit.of(found.passage.chunk.text))
        else:
            yield _nearest(claim, passages)


def _joined(chunks: Iterable[Chunk]) -> str:
    return f" {_plain(chr(10).join(chunk.text for chunk in chunks))} "


def _nearest(claim: TextClaim, passages: Sequence[CheckedPassage]) -> ChangedStatement:
    units = [(each, unit.of(each.chunk.text)) for each in passages for unit in each.layout.units]
    matcher, best, most = SequenceMatcher(b=claim.text, autojunk=False), None, _NEAREST
    for passage, text in units:
        matcher.set_seq1(text[:_LONGEST])
        if matcher.quick_ratio() > most and (ratio := matcher.ratio()) > most:
            best, most = (passage, text), ratio
    return _statement(claim, *best) if best else ChangedStatement(claim.text[:_LONGEST])


def _statement(claim: TextClaim, passage: CheckedPassage, text: str) -> ChangedStatement:
    ours, theirs = (ComparedStatement(said).values for said in (claim.text, text))
    before, after = _other(ours, theirs), _other(theirs, ours)
    return ChangedStatement(
        claim.text[:_LONGEST], text[:_LONGEST], passage.chunk.title, passage.chunk.url, before, after
    )


def _other(values: Sequence[Value], others: Sequence[Value]) -> tuple[str, ...]:
    left = (one for one in values if not any(one.is_same(other) for other in others))
    return tuple(dict.fromkeys(one.said for one in left))


def _changed_set(receipt: Mapping[str, Any], view: ReaderView) -> Iterator[ChangedStatement]:
    stated = receipt.get("set", {})
    tables = view.set_tables() if "query" in stated else None
    if tables is None or not recount(stated, tables):
        return
    try:
        result = execute(SetQuery.of(stated["query"]), tables, view.id)
    except (SetError, LookupError, TypeError, ValueError):
        return
    known = {key for key, _ in stated["members"]}
    new = "; ".join(dict.fromkeys(member.title for member in result.members if member.key not in known))
    now = f"{result.value or len(result.members)}{f' (new: {new})' if new else ''}"
    yield ChangedStatement(str(stated["value"] or len(known)), now[:_LONGEST])


def _plain(text: str) -> str:
    return " ".join(folded(text).translate(_MARKUP).lower().split())
