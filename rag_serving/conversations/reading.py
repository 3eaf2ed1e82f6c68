"""What a question means in its conversation: an option that was offered, a question completed, a page that is meant.

Nothing of earlier answers is believed: what they offered and cited is found again, by asking the earlier question as
who asks now may. What a client or a store says was answered only chooses among that.

Belongs here: the order in which a question is read. Does not belong here: the rules (`follow_up`, `picking`), a
language model's reading (`rewriting`), asking (`pipeline.conversing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_serving.conversations.follow_up import asked_of, carried, goes_on, is_other_case, joined, may_lean, terms_of
from rag_serving.conversations.picking import is_pick, may_pick, picked
from rag_serving.conversations.turns import Conversation, Turn
from rag_serving.records.queries import Filters
from rag_serving.records.refusal import ClarificationOption
from rag_serving.text.normalization import caseless
from rag_serving.text.orders import is_order
from rag_serving.text.small_talk import remark_of

_ON_PAGE = re.compile(
    r"\s{0,3}\b(?:on|in|from|of|does|according to|auf|in) (?:that|this|the same|dieser|dieselben) "
    r"(?:page|document|article|guide|seite|doc)\b(?: say)?",
    re.IGNORECASE,
)
_TITLE_WORDS = 30


@dataclass(frozen=True)
class FoundPage:
    """A page that an earlier question found, as who asks may read it now."""

    title: str
    url: str


@dataclass(frozen=True)
class FoundAgain:
    """What an earlier question comes to when it is asked again."""

    is_told: bool = False  # whether it is answered with confidence
    confidence: float = 0.0
    options: tuple[ClarificationOption, ...] = ()
    pages: tuple[FoundPage, ...] = ()  # those that are cited first, best first


AskAgain = Callable[[str, Filters | None], FoundAgain]
Rewrite = Callable[[str, Sequence[Turn]], str | None]
"""Returns a question rewritten by a language model, or None where there is none, or it is of no use."""


@dataclass(frozen=True)
class Reading:
    """A question as it is to be searched.

    Attributes:
        text: the words.
        page: the title of a page that is preferred.
        filters: the caller's, or those that are carried forward.
    """

    text: str
    page: str | None = None
    filters: Filters | None = None


@dataclass(frozen=True)
class _Subject:
    """What the turns before a question were about.

    Attributes:
        base: the last question that stands alone.
        last: the last question as it was read.
        latest: the same, a remark included: what offered options.
        filters: what that one was narrowed to.
        answer: what the client says it was answered.
        may_offer: whether options may have been offered.
    """

    base: str = ""
    last: str = ""
    latest: str = ""
    filters: Filters | None = None
    answer: str = ""
    may_offer: bool = True


def read_in(
    conversation: Conversation, question: str, filters: Filters | None, ask_again: AskAgain, rewrite: Rewrite
) -> Reading:
    """Return what a question means after the turns of a conversation."""
    turns = [turn for turn in conversation.last_turns if not is_order(turn.question)]
    subject = _Subject()
    for turn in turns:
        subject = _after(subject, turn, ask_again)
    if not subject.latest or is_order(question):
        return Reading(question, filters=filters)
    if option := _picked(question, subject, ask_again):
        return Reading(option.query or option.label, filters=filters or subject.filters)
    return _followed(question, filters, subject, ask_again, lambda: rewrite(question, turns))


def _followed(
    question: str,
    filters: Filters | None,
    subject: _Subject,
    ask_again: AskAgain,
    rewritten: Callable[[], str | None],
) -> Reading:
    """Return a question that may lean on those before it."""
    points, asked = _ON_PAGE.search(question), question
    if points:
        asked = _ON_PAGE.sub("", question, count=1).strip() or question
    by_rules = None if points and terms_of(asked) else joined(asked, subject.base)
    leans = bool(by_rules or points)
    written = rewritten() if leans or may_lean(question) else None
    if not (leans or written or goes_on(question)):
        return Reading(question, filters=filters)
    is_elsewhere = by_rules is not None and is_other_case(asked, subject.base)
    page = None if is_elsewhere else _page(subject, ask_again)
    filters = filters or (subject.filters if leans else None)
    text = written or by_rules or asked
    if page and by_rules and not written:
        text = _likelier([by_rules, asked_of(asked, page)], filters, ask_again)
    if points and page and not (filters and filters.title):
        words = tuple(page.split()[:_TITLE_WORDS])
        filters = Filters(**{**vars(filters or Filters()), "title": words})
    return Reading(text, page, filters)


def _likelier(texts: Sequence[str | None], filters: Filters | None, ask_again: AskAgain) -> str:
    """Return the text that is answered with the most confidence, the first of equal ones."""

    def worth(text: str) -> tuple[bool, float]:
        found = ask_again(text, filters)
        return found.is_told, found.confidence

    return max(filter(None, texts), key=worth)


def _after(subject: _Subject, turn: Turn, ask_again: AskAgain) -> _Subject:
    """Return what the next question may lean on, after one more turn."""
    filters = turn.filters or subject.filters
    if option := _picked(turn.question, subject, ask_again):
        base = last = latest = option.query or option.label
    elif remark_of(turn.question) and not joined(turn.question, subject.base):
        base, last, latest = subject.base, subject.last, turn.question
    else:
        base = carried(turn.question, subject.base)
        filters = turn.filters if base == turn.question else filters
        last = latest = joined(turn.question, subject.base) or turn.question
    return _Subject(base, last, latest, filters, turn.answer, turn.may_offer)


def _picked(text: str, subject: _Subject, ask_again: AskAgain) -> ClarificationOption | None:
    """Return the option of the turn before that a text names; None where it names none."""
    if not (subject.latest and subject.may_offer) or not (is_pick(text) or may_pick(text, subject.answer)):
        return None
    return picked(text, ask_again(subject.latest, subject.filters).options)


def _page(subject: _Subject, ask_again: AskAgain) -> str | None:
    """Return the title of the page that the last question was answered from."""
    if not subject.last:
        return None
    pages = ask_again(subject.last, subject.filters).pages
    said = caseless(subject.answer)
    named = [page for page in pages if page.url in subject.answer or caseless(page.title) in said]
    return next((page.title for page in (*named, *pages)), None)
