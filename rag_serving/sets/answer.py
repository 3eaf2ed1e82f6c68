"""The answer about a whole set: its members in words, the first of them cited, and the certificate for its receipt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rag_serving.answering.citations import MAX_QUOTE_WORDS, citations_of, shown_claims, shown_numbers
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.indexes.view import ReaderView
from rag_serving.records.answers import MOST_MEMBERS, Answer
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Candidate, Lock
from rag_serving.records.sets import SetMember, SetResult
from rag_serving.sets.execute import certificate
from rag_serving.sets.history import Now, PageChange, Wording, changes_digest
from rag_serving.sets.pages import PROPERTY
from rag_serving.text.orders import orders_assistant

MODEL = "set"
MOST_CITED = 10
"""Members with a citation of their own; the reply lists the others with their links, the certificate proves all."""
_UNITS_SHOWN = 10
_NAMELESS = ("", "title", "space", "updated", "text")  # cells that need no name beside them
_LEFT_OUT = "(text for an assistant, left out)"
_MARKER = re.compile(r"\[(\d{1,3})\]")


def answer_set(
    result: SetResult, view: ReaderView, classes: frozenset[str], among: str = "", reader: str = ""
) -> AnswerTrace:
    """Return the answer that lists or counts a set, each of its first members cited by the page's own words. `among`:
    the generation whose pages alone are told of, where that is another one. `reader`: the language model that made the
    query of the question, where one did."""
    proof = certificate(result, classes) | ({"among": among} if among else {})
    shown = [*map(harmless, result.members[:MOST_MEMBERS])]  # whoever shows more of them makes those harmless
    first = shown[:MOST_CITED]
    lock, places = _locked((member.chunk_id for member in first), view)
    claims = {m.key: _claim(places[m.chunk_id], m.quote) for m in first if m.chunk_id in places and m.quote}
    trace, numbers = _cited(claims.values(), lock, view.id)
    marks = {key: numbers.get(claim) for key, claim in claims.items()}
    shown[:MOST_CITED] = [replace(member, citation=marks.get(member.key)) for member in first]
    result = replace(result, members=(*shown, *result.members[MOST_MEMBERS:]))
    text = "\n".join(_lines(result, bool(among), reader))
    return replace(trace, answer=replace(trace.answer, answer=text, set=result), certificate=proof)


def answer_changes(
    changes: Sequence[PageChange], view: ReaderView, older: str, pages: Sequence[str], now: Now
) -> AnswerTrace:
    """Return what changed since an older generation: of each page the words that came, cited, beside those that went.
    `pages`: ids of those that were asked for; none: all."""
    came = [unit.new for change in changes for unit in change.units if unit.new][:MOST_CITED]
    lock, places = _locked((wording.chunk_id for wording in came), view)
    claims = {
        unit: _claim(places[unit.chunk_id], unit.text)
        for unit in came
        if unit.chunk_id in places and not orders_assistant(unit.text)
    }
    trace, numbers = _cited(claims.values(), lock, view.id)
    marks = {unit: numbers.get(claim) for unit, claim in claims.items()}
    text = "\n".join(_change_lines(changes, marks, older, view.id))
    proof = {"readers": sorted(now.classes), "older": older, "among": now.id, "pages": list(pages)}
    proof["digest"] = changes_digest(changes)
    return replace(trace, answer=replace(trace.answer, answer=text), certificate=proof)


def _claim(place: int, quote: str) -> Claim:
    return Claim(quote, place, quote, is_selected=True)


def _locked(chunk_ids: Iterable[str], view: ReaderView) -> tuple[Lock, dict[str, int]]:
    """Return the passages of these ids that are indexed, each once, and their places."""
    rows = [view.row_of(chunk_id) for chunk_id in dict.fromkeys(chunk_ids)]
    lock = Lock(tuple(Candidate(chunk, 0.0) for chunk in view.chunks([row for row in rows if row is not None])))
    return lock, {chunk_id: place for place, chunk_id in enumerate(lock.chunk_ids, start=1)}


def _cited(claims: Iterable[Claim], lock: Lock, generation: str) -> tuple[AnswerTrace, dict[Claim, int]]:
    """Return the answer without its text, and the number that each claim which holds is shown under."""
    draft, rules = Draft(tuple(dict.fromkeys(claims)), MODEL), VerificationRules(max_citations=MOST_CITED)
    verdicts = verify(draft, lock, rules=rules)
    citations, claimed = citations_of(verdicts, lock, MAX_QUOTE_WORDS), shown_claims(verdicts, lock)
    answer = Answer("answered", "", citations, claimed, generation=generation, generator=MODEL)
    shown = shown_numbers(verdicts)
    numbers = {each.claim: shown[each.index] for each in verdicts if each.outcome != "dropped" and each.index}
    return AnswerTrace(answer, draft, lock, verdicts, rules=rules), numbers


def _change_lines(
    changes: Sequence[PageChange], marks: Mapping[Wording, int | None], older: str, newer: str
) -> Iterator[str]:
    count = len(changes)
    between = f"between generation {older[:8]} and generation {newer[:8]}"
    yield f"**{f'{count} page' if count else 'No page'}{'s' if count > 1 else ''} changed** {between}."
    for change in changes:
        version = f"version {change.old_version or 'none'} to {change.new_version}"
        when = f", {change.updated_at:%Y-%m-%d}" if change.updated_at else ""
        who = f", {change.author}" if change.author else ""
        yield f"\n**{_plain(change.title)}** ({change.what}, {version}{when}{who})"
        for unit in change.units[:_UNITS_SHOWN]:
            if unit.old and not orders_assistant(unit.old.text):
                yield f"- before: “{_plain(unit.old.text)}”"
            if unit.new and not orders_assistant(unit.new.text):
                mark = marks.get(unit.new)
                yield f"- now: “{_plain(unit.new.text)}”{f' [{mark}]' if mark else ''}"
        if len(change.units) > _UNITS_SHOWN:
            yield f"- … and {len(change.units) - _UNITS_SHOWN} more"


def harmless(member: SetMember) -> SetMember:
    """Return a member without what is meant for an assistant."""
    cells = tuple((name, _LEFT_OUT if orders_assistant(value) else value) for name, value in member.cells)
    title = _LEFT_OUT if orders_assistant(member.title) else member.title
    return replace(member, cells=cells, title=title, quote="" if orders_assistant(member.quote) else member.quote)


def _lines(result: SetResult, is_past: bool, reader: str) -> Iterator[str]:
    """Yield the answer's lines: the value or count, how it was made, the groups and the first members."""
    count, counted = len(result.members), result.query.operation in ("list", "count")
    noun = {"pages": "page", "rows": "row", "items": "item", "headings": "heading"}[result.query.kind]
    number = f"{count:,} {noun}{'' if count == 1 else 's'}" if count else f"No {noun}"
    column = (result.query.column or "").removeprefix(PROPERTY)
    headline = f"**{number if counted else result.value}**"
    if counted and column and result.value:  # one field of one page
        headline = f"**{_plain(result.value)}** ({column})"
    yield f"{headline}." if result.rule == result.query.kind else f"{headline}: {_plain(result.rule)}."
    if result.made and not counted:
        yield f"\n{_plain(result.made[:1].upper() + result.made[1:])}."
    if result.groups:
        yield ""
        yield from (f"- {_plain(each.name)}: {each.value or f'{each.count:,}'}" for each in result.groups)
    if result.members:
        yield ""
        yield from map(_line, result.members[:MOST_CITED])
    if count > MOST_CITED:
        yield f"- … and {count - MOST_CITED:,} more"
    yield (
        f"\nNothing else matches among the {result.passages:,} passages of {result.pages:,} pages that you may read in "
        f"generation {result.generation[:8]}{', and now' if is_past else ''}."
    )
    if reader:
        yield f"The rule is how {_plain(reader)} read the question."


def _line(member: SetMember) -> str:
    cells = [value if name in _NAMELESS else f"{name}: {value}" for name, value in member.cells if value]
    said = " — ".join(filter(None, (member.title, ", ".join(cell for cell in cells if cell != member.title))))
    return f"- {_plain(said)}{f' [{member.citation}]' if member.citation else ''}"


def _plain(text: str) -> str:
    """Return a text of a page on one line, without what looks like the number of a citation."""
    return " ".join(_MARKER.sub(r"(\1)", text).split())
