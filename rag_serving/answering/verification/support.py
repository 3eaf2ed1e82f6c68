"""Whether a sentence is carried by the passages it cites: every word of it, in an order that says the same.

A sentence is carried by one sentence, list item or table row of a cited passage that shares a form with it
(`clauses`): the same tokens in the same order, each exact, inflected, of the same group of synonyms, or of the same
value. Nothing that counts may be added or left out. A sentence that joins complete clauses is carried when each of
them is. What is not carried may still be true; readers then see the passage's own words in its place.

Belongs here: the comparison of a sentence with passages, and which words of the passage carry which of the sentence.
Does not belong here: the quote (`quotes`), tokens (`words`), orders (`clauses`), yes and no (`text.polarity_words`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.verification.clauses import Form, forms, without_droppable
from rag_serving.answering.verification.equivalence import read
from rag_serving.answering.verification.grammar import AUXILIARIES, FRONTED, binds, governs
from rag_serving.answering.verification.parts import as_one, joined, parts
from rag_serving.answering.verification.rewrites import entailed, implying
from rag_serving.answering.verification.tables import cells, row_sentences
from rag_serving.answering.verification.words import Token, compare, group_of, is_negative, tokens
from rag_serving.records.claims import CarriedWord
from rag_serving.text.structure import Structure, line_of, structure_of

_FRAME = re.compile(
    r"^\W{0,3}(?:"
    r"(?:according to|based on|as per|per) (?:the |this |these )?"
    r"(?:docs?|documentation|handbook|runbook|wiki|pages?|passages?|sources?)\b"
    r"(?: ?\[\d{1,2}\])?[ ,:]{1,3}"
    r"|(?:the |this )?(?:docs?|documentation|handbook|runbook|wiki|pages?|passages?|sources?)(?: ?\[\d{1,2}\])? "
    r"(?:says?|states?|notes?|mentions?|explains?)(?: that)?[ ,:]{1,3}"
    r"|(?:please )?note(?: that)?[ ,:]{1,3}|in (?:short|summary|other words)[ ,:]{1,3}"
    r")",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"^\W{0,3}(?:yes|no|yep|nope|ja|nein|oui|non|sí)\b\s?[,.;:!–—-][\s–—-]{0,3}(?:but\s)?", re.IGNORECASE
)
_DISOWNING = frozenset(
    [
        "avoid",
        "mistake",
        "wrong",
        "bad",
        "forbidden",
        "prohibited",
        "myth",
        "pitfall",
        "antipattern",
        "anti-pattern",
        "draft",
        "proposal",
        "rejected",
        "outdated",
        "obsolete",
        "example",
        "dont",
        "don'ts",
        "don't",
        "incorrect",
        "misconception",
    ]
)
_MOST_UNITS = 400
_TOPIC_WORDS = frozenset({"in", "on", "to", "for", "during"})
_ASKING_WORDS = (
    "what how long often many much when where which who why can must may should i we my our happen for to with"
)
_ASKING_WORDS += " large big fast high old soon still"
_ASKING = frozenset(_ASKING_WORDS.split())
_LONGEST_NAME = 4
_AMOUNTS = frozenset({"≤", "≥", "every"})
_AND = tokens("and")


@dataclass(frozen=True)
class Support:
    """A sentence that is carried: by which passage, and word by word."""

    passages: tuple[int, ...]
    words: tuple[CarriedWord, ...]


class Sentences:
    """What one passage says, by form."""

    def __init__(self, text: str, heading: str = "", structure: Structure | None = None) -> None:
        self._text, self._heading, self._structure = text, heading, structure or structure_of(text)

    def find_beside(self, form: Form, question_words: Sequence[str]) -> Form | None:
        """Return the tokens of the passage that have this form once what the question says itself is left out.

        That is a condition behind the main clause ("... if the command fails"), or a main clause of which only the
        reason, time, place or amount is told ("Because ...").
        """
        wanted = _signature(form)
        for known, stands in self._by_form.items():
            if len(known) <= len(wanted):
                continue
            rest = len(known) - len(wanted)
            if (
                known[:-rest] == wanted
                and stands[-rest].key in ("if", "when")
                and _stands_in(known[-rest:], question_words)
            ):
                return stands[:-rest]
            if known[:-rest] == wanted and stands[-rest].key == "to" and _stands_in(known[1 - rest :], question_words):
                return stands[:-rest]
            if (
                known[rest:] == wanted
                and form[0].key in FRONTED | _AMOUNTS
                and _stands_in(known[:rest], question_words)
            ):
                return stands[rest:]
        return None

    def find_named(self, form: Form, question_words: Sequence[str]) -> Form | None:
        """Return the tokens of the passage that have this form once its first word stands for what the question names.

        The question must speak of nothing else that the word could stand for.
        """
        wanted = _signature(form)[1:]
        for known, stands in self._by_form.items():
            named = len(known) - len(wanted)
            if not 0 < named <= _LONGEST_NAME or known[named:] != wanted:
                continue
            is_noun = all(token.kind in ("word", "name") for token in stands[:named])
            if is_noun and _is_named_alone([sign.split("+")[0] for sign in known], named, question_words):
                return stands[named:]
        return None

    def find(self, form: Form) -> Form | None:
        """Return the tokens of the passage that have this form."""
        return self._by_form.get(_signature(form))

    @cached_property
    def _by_form(self) -> dict[tuple[str, ...], Form]:
        known: dict[tuple[str, ...], Form] = {}
        for sentence in self._said():
            for piece in [said for part in (*parts(sentence), as_one(sentence)) for said in entailed(part)]:
                for form in forms(piece):
                    for shorter in (form, without_droppable(form)):
                        if shorter:
                            known.setdefault(_signature(shorter), shorter)
        return known

    @cached_property
    def topic(self) -> frozenset[str]:
        """The signatures of the words of the heading."""
        return frozenset(_sign(token).split("+")[0] for token in read(self._heading))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The signatures of all tokens of the passage and its heading."""
        said = read(self._text), read(self._heading)
        return frozenset(_sign(token).split("+")[0] for sentence in said for token in sentence)

    def _said(self) -> Iterator[list[Token]]:
        """Yield the tokens of each sentence, list item and cell, with the words before it that it depends on."""
        heading = [token for token in read(self._heading) if token.kind != "stop"]
        head = cells(self._structure.table_header)
        lead = read(self._structure.introduction)
        before: list[Token] = []
        if _disowns(heading):
            return
        for unit in self._structure.units[:_MOST_UNITS]:
            said = _without_number(read(unit.of(self._text)))
            if unit.kind in ("table", "code") and lead and (governs(lead) or _disowns(lead)):
                continue
            if unit.kind == "table":
                yield from row_sentences(line_of(unit, self._text), head)
            elif unit.kind in ("heading", "header"):
                kept = lead if unit.kind == "header" else []
                head, lead = cells(line_of(unit, self._text)), said if _disowns(said) else kept
            elif unit.kind == "list" and lead:
                yield _led(lead, said)
                if not _disowns(lead) and not any(map(binds, lead)) and lead[0].key not in FRONTED:
                    yield said
                    yield from _in_turn(before, said)
                before = said
            elif said:
                lead = said if unit.kind == "sentence" and unit.of(self._text).endswith(":") else []
                before = []
                if not lead and not unit.of(self._text).endswith("?"):
                    yield said
                    if heading and _lacks_subject(said):
                        yield [*heading, *said]


def supported(sentence: str, cited: Sequence[tuple[int, Sentences]], question: str = "") -> Support | None:
    """Return how the cited passages, each with its number, carry a sentence, or None where they don't.

    A "yes" or "no" and a frame such as "According to the page," before the sentence are not looked at. What the
    question says word by word may be left out of the answer.
    """
    said = read(without_frame(sentence))
    if not any(token.counts for token in said) or _is_stuck(said):
        return None
    if (
        whole := _carried(said, cited)
        or _carried(as_one(said), cited)
        or _carried_beside(said, cited, question)
        or _carried_topic(said, cited)
        or _carried_pronoun(said, cited, question)
    ):
        return whole
    carried = [_carried(part, cited) for part in joined(said)]
    if not carried or any(part is None for part in carried):
        return None
    known = [part for part in carried if part is not None]
    numbers = dict.fromkeys(number for part in known for number in part.passages)
    return Support(tuple(numbers), tuple(word for part in known for word in part.words))


def _is_stuck(said: Sequence[Token]) -> bool:
    """Return whether a word stands three times in a row: free words may be added, but not without end."""
    words = [token.text.lower() for token in said if token.kind not in ("comma", "stop")]
    return any(one == two == three for one, two, three in zip(words, words[1:], words[2:], strict=False))


def without_frame(sentence: str) -> str:
    """Return the sentence without what only introduces it."""
    text = _YES_OR_NO.sub("", sentence, count=1)
    return _FRAME.sub("", text, count=1)


def missing_words(sentence: str, cited: Iterable[Sentences]) -> list[str]:
    """Return the words of a sentence that no cited passage has, in order."""
    known = frozenset[str]().union(*(passage.vocabulary for passage in cited))
    said = (token for token in read(without_frame(sentence)) if token.counts)
    return list(dict.fromkeys(token.text for token in said if _sign(token) not in known))


def _carried(said: Sequence[Token], cited: Sequence[tuple[int, Sentences]]) -> Support | None:
    for form in [form for claimed in implying(said) for form in forms(claimed)]:
        for number, passage in cited:
            if form and (stands := passage.find(form)):
                return Support((number,), _words(form, stands))
    return None


def _carried_beside(said: Sequence[Token], cited: Sequence[tuple[int, Sentences]], question: str) -> Support | None:
    question_words = read(question)
    if not question_words or any(is_negative(token) or token.key in ("false", "except") for token in question_words):
        return None
    known = [_sign(token).split("+")[0] for token in question_words if token.counts]
    for form in forms(said):
        for number, passage in cited:
            if len(form) > 2 and (stands := passage.find_beside(form, known)):
                return Support((number,), _words(form, stands))
    return None


def _carried_topic(said: Sequence[Token], cited: Sequence[tuple[int, Sentences]]) -> Support | None:
    """Return how a sentence is carried whose first words only name what the heading of the passage is about."""
    comma = next((at for at, token in enumerate(said) if token.kind == "comma"), 0)
    if not comma or said[0].key not in _TOPIC_WORDS:
        return None
    topic = [token for token in said[1:comma] if token.counts]
    for number, passage in cited:
        if topic and all(_sign(token).split("+")[0] in passage.topic and token.kind == "word" for token in topic):
            return _carried(said[comma + 1 :], [(number, passage)])
    return None


def _carried_pronoun(said: Sequence[Token], cited: Sequence[tuple[int, Sentences]], question: str) -> Support | None:
    """Return how a sentence is carried that begins with "it" or "they": what alone the question asks about."""
    if not question or said[0].key != "it":
        return None
    question_words = [_sign(token).split("+")[0] for token in read(question) if token.counts]
    for form in forms(said):
        for number, passage in cited:
            if len(form) > 2 and form[0].key == "it" and (stands := passage.find_named(form, question_words)):
                return Support((number,), _words(form[1:], stands))
    return None


def _stands_in(part: Sequence[str], question_words: Sequence[str]) -> bool:
    """Return whether these words stand in the question in this order, one behind the other."""
    wanted = [("strict:if" if sign == "strict:when" else sign).split("+")[0] for sign in part]
    known = ["strict:if" if sign == "strict:when" else sign for sign in question_words]
    return len(wanted) > 1 and any(known[at : at + len(wanted)] == wanted for at in range(len(known)))


def _is_named_alone(known: Sequence[str], named: int, question_words: Sequence[str]) -> bool:
    """Return whether a question has the first words of a sentence, and nothing that the sentence does not have."""
    name = list(known[:named])
    is_named = any(list(question_words[at : at + named]) == name for at in range(len(question_words)))
    others = (sign.partition(":") for sign in question_words if sign not in known)
    return is_named and all(word in _ASKING for _, _, word in others)


def _words(form: Form, stands: Form) -> tuple[CarriedWord, ...]:
    pairs = zip(form, stands, strict=True)
    return tuple(CarriedWord(one.text, other.text, compare(one, other) or "exact") for one, other in pairs)


def _signature(form: Form) -> tuple[str, ...]:
    return tuple(_sign(token) for token in form)


def _sign(token: Token) -> str:
    """Return what tokens that carry each other have in common."""
    if token.kind != "word":
        return f"{token.kind}:{token.key}"
    base, _, voice = token.key.partition("+")
    return f"word:{group_of(base)}{'+' + voice if voice else ''}"


def _in_turn(before: list[Token], item: list[Token]) -> Iterator[list[Token]]:
    """Yield two list items that follow each other as one sentence."""
    first = [token for token in before if token.kind != "stop"]
    if first and item:
        yield [*first, *_AND, *item]
        yield [*first, *item]


def _led(lead: list[Token], item: list[Token]) -> list[Token]:
    """Return a list item behind the words that introduce its list."""
    before = lead[:-1] if lead[-1].kind == "stop" else lead
    comma = [Token(",", ",", "comma", lead[-1].start, lead[-1].end)] if lead[0].key in FRONTED else []
    return [*before, *comma, *item]


def _without_number(said: list[Token]) -> list[Token]:
    """Return a step without the number that it begins with: `3. Wait`."""
    is_numbered = len(said) > 2 and said[0].kind == "figure" and said[0].text.isdigit() and said[1].text == "."
    return said[2:] if is_numbered else said


def _lacks_subject(said: list[Token]) -> bool:
    """Return whether a sentence begins with its predicate or a value: its heading says what it is about."""
    first = said[0]
    return first.kind == "figure" or first.text.lower() in AUXILIARIES or first.key in FRONTED


def _disowns(heading: list[Token]) -> bool:
    """Return whether what stands under a heading is not what the page holds to be so: mistakes, examples, ideas."""
    return any(is_negative(token) or token.key.split("+")[0] in _DISOWNING for token in heading)
