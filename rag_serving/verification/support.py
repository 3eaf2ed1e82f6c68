"""Whether a sentence is carried by the passages it cites: every word of it, in an order that says the same.

A sentence is carried by one sentence, list item or table row of a cited passage that shares a form with it
(`clauses`): the same tokens in the same order, each exact, inflected, of the same group of synonyms, or of the same
value. Nothing that counts may be added or left out. A sentence that joins complete clauses is carried when each of
them is. What is not carried may still be true; readers then see the passage's own words in its place.

Belongs here: the comparison of a sentence with passages, and which words of the passage carry which of the sentence.
Does not belong here: the quote (`quotes`), tokens (`words`), orders (`clauses`), yes and no (`polarity`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.extraction.sentences import Unit, units
from rag_serving.records import CarriedWord
from rag_serving.verification.clauses import Form, conjuncts, forms, pieces, without_droppable
from rag_serving.verification.words import Token, compare, group_of, tokens

_FRAME = re.compile(
    r"^\W{0,3}(?:"
    r"according to (?:the |this |these )?(?:docs?|documentation|handbook|runbook|wiki|pages?|passages?|sources?)\b"
    r"(?: ?\[\d{1,2}\])?[ ,:]{1,3}"
    r"|(?:the |this )?(?:docs?|documentation|handbook|runbook|wiki|pages?|passages?|sources?)(?: ?\[\d{1,2}\])? "
    r"(?:says?|states?|notes?|mentions?|explains?)(?: that)?[ ,:]{1,3}"
    r"|(?:please )?note(?: that)?[ ,:]{1,3}|in (?:short|summary|other words)[ ,:]{1,3}"
    r")",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"^\W{0,3}(?:yes|no|yep|nope|ja|nein|oui|non|sí)\b[\s,.;:!–—-]{1,4}", re.IGNORECASE)
_MOST_UNITS = 400
_MOST_CELLS = 12


@dataclass(frozen=True)
class Support:
    """A sentence that is carried: by which passage, and word by word."""

    passages: tuple[int, ...]
    words: tuple[CarriedWord, ...]


class Sentences:
    """What one passage says, by form."""

    def __init__(self, text: str, heading: str = "") -> None:
        self._text, self._heading = text, heading

    def find(self, form: Form) -> Form | None:
        """Return the tokens of the passage that have this form."""
        return self._by_form.get(_signature(form))

    @cached_property
    def _by_form(self) -> dict[tuple[str, ...], Form]:
        known: dict[tuple[str, ...], Form] = {}
        for sentence in self._said():
            for piece in pieces(sentence):
                for form in forms(piece):
                    for shorter in (form, without_droppable(form)):
                        if shorter:
                            known.setdefault(_signature(shorter), shorter)
        return known

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The signatures of all tokens of the passage and its heading."""
        said = tokens(self._text), tokens(self._heading)
        return frozenset(_sign(token).split("+")[0] for found in said for token in found)

    def _said(self) -> Iterator[list[Token]]:
        """Yield the tokens of each sentence, list item and cell; also behind the heading that they may leave out."""
        heading = [token for token in tokens(self._heading) if token.kind != "stop"]
        head: list[list[Token]] = []
        for unit in units(self._text)[:_MOST_UNITS]:
            if unit.kind == "table":
                yield from _row(unit, self._text, head)
                continue
            if unit.kind == "heading":
                head = _cells(unit, self._text)
                continue
            said = tokens(unit.of(self._text))
            if said:
                yield said
                if heading:
                    yield [*heading, *said]


def supported(sentence: str, cited: Sequence[tuple[int, Sentences]]) -> Support | None:
    """Return how the cited passages, each with its number, carry a sentence, or None where they don't.

    A "yes" or "no" and a frame such as "According to the page," before the sentence are not looked at.
    """
    said = tokens(without_frame(sentence))
    if not any(token.counts for token in said):
        return None
    if whole := _carried(said, cited):
        return whole
    parts = [_carried(part, cited) for part in conjuncts(said)]
    if not parts or any(part is None for part in parts):
        return None
    found = [part for part in parts if part is not None]
    numbers = dict.fromkeys(number for part in found for number in part.passages)
    return Support(tuple(numbers), tuple(word for part in found for word in part.words))


def without_frame(sentence: str) -> str:
    """Return the sentence without what only introduces it."""
    text = _YES_OR_NO.sub("", sentence, count=1)
    return _FRAME.sub("", text, count=1)


def missing_words(sentence: str, cited: Iterable[Sentences]) -> list[str]:
    """Return the words of a sentence that no cited passage has, in order."""
    known = frozenset[str]().union(*(passage.vocabulary for passage in cited))
    said = (token for token in tokens(without_frame(sentence)) if token.counts)
    return list(dict.fromkeys(token.text for token in said if _sign(token) not in known))


def _carried(said: Sequence[Token], cited: Sequence[tuple[int, Sentences]]) -> Support | None:
    for form in forms(said):
        for number, passage in cited:
            if form and (stands := passage.find(form)):
                pairs = zip(form, stands, strict=True)
                words = (CarriedWord(one.text, other.text, compare(one, other) or "exact") for one, other in pairs)
                return Support((number,), tuple(words))
    return None


def _signature(form: Form) -> tuple[str, ...]:
    return tuple(_sign(token) for token in form)


def _sign(token: Token) -> str:
    """Return what tokens that carry each other have in common."""
    if token.kind != "word":
        return f"{token.kind}:{token.key}"
    base, _, voice = token.key.partition("+")
    return f"word:{group_of(base)}{'+' + voice if voice else ''}"


def _cells(unit: Unit, text: str) -> list[list[Token]]:
    return [tokens(cell) for cell in unit.of(text).strip("| ").split("|")]


def _row(unit: Unit, text: str, head: list[list[Token]]) -> Iterator[list[Token]]:
    """Yield what a table row says: each cell with the row's first cell and the header of its column."""
    cells = _cells(unit, text)
    if not (1 < len(cells) <= _MOST_CELLS):
        return
    label = cells[0]
    if len(cells) == 2:
        yield [*label, *cells[1]]
    for column, cell in enumerate(cells[1:], start=1):
        if column >= len(head) or not head[column] or not cell:
            continue
        name, of, for_, by = head[column], tokens("of"), tokens("for"), tokens("by")
        yield [*label, *name, *cell]
        yield [*name, *of, *label, *cell]
        yield [*name, *for_, *label, *cell]
        yield [*label, *name, *of, *cell]
        yield [*label, *cell, *by, *name]
