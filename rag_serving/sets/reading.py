"""A question read as a query over sets, where every word of it is accounted for and there is one reading.

Belongs here: phrases that ask for pages and facts about pages, what they say together. Does not belong here: names of
pages and labels (`vocabulary`), rows of tables (`row_reading`), running a query (`execute`).

A question is covered by phrases, one after the other. What no phrase accounts for, and what can be read in two ways,
goes the ordinary way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import chain

from rapidfuzz.distance import DamerauLevenshtein

from rag_serving.records.sets import Condition, SetQuery, SetTables
from rag_serving.sets.building import ChangeQuestion, change_of, query_of
from rag_serving.sets.dates import date_at
from rag_serving.sets.doubts import is_doubtful
from rag_serving.sets.phrases import Fact, Step, covers, phrase, words_of_phrases
from rag_serving.sets.row_reading import read_rows
from rag_serving.sets.vocabulary import QuestionWords, Vocabulary, vocabulary_of
from rag_serving.text.patterns import patterns

_LONGEST = 300  # characters: a longer question asks for more than a set
_MOST_WORDS = 60
_LONGEST_PHRASE = 6  # words that pages should mention
_SHORTEST_TYPO = 6  # letters of a template's word that may be mistyped
_SENTENCE = re.compile(r"(?<=[.?!;])\s+|\n+")
_LETTERS = re.compile(rf"[^\W\d_]{{{_SHORTEST_TYPO},}}")


@cache
def _opening() -> re.Pattern[str]:
    return re.compile("|".join(patterns("sets")["OPENING"]), re.IGNORECASE)


def is_about_set(question: str) -> bool:
    """Return whether a question has words that ask for a set or for a fact about a page; most that have ask for
    something else."""
    return len(question) <= _LONGEST and _opening().search(question) is not None


def read_set(question: str, tables: SetTables, today: date | None = None) -> SetQuery | None:
    """Return the one query that accounts for every word of a question; None: it is for the ordinary way."""
    reader = _reader(question, tables, today)
    if reader is None:
        return None
    queries = reader.queries()
    if not queries and not reader.has_series():
        queries = read_rows(reader.words, tables)
    if len(queries) != 1 or is_doubtful(queries[0], reader.vocabulary) or reader.is_vague(queries[0]):
        return None
    return queries[0]


def read_change(question: str, tables: SetTables, today: date | None = None) -> ChangeQuestion | None:
    """Return the pages or the space whose changes since a date a question asks for; None for any other question."""
    reader = _reader(question, tables, today)
    return reader.change() if reader else None


def _reader(question: str, tables: SetTables, today: date | None) -> _Reader | None:
    if not is_about_set(question):
        return None
    vocabulary = vocabulary_of(tables)
    words = QuestionWords(_corrected(_without_padding(question), vocabulary))
    if not 0 < len(words) <= _MOST_WORDS or words.match(phrase("OTHER_OPENING"), 0) is not None:
        return None
    return _Reader(words, vocabulary, today or date.today())


def _without_padding(question: str) -> str:
    """Return a question without the sentences behind it that ask nothing."""
    sentences = _SENTENCE.split(question.strip())
    while len(sentences) > 1 and phrase("PADDING").fullmatch(QuestionWords(sentences[-1]).said):
        sentences.pop()
    return " ".join(sentences)


def _corrected(question: str, vocabulary: Vocabulary) -> str:
    """Return a question with long words that are one edit from a word of the templates, and no name, as that word."""
    known = words_of_phrases(_SHORTEST_TYPO)

    def corrected(match: re.Match[str]) -> str:
        word = match[0].casefold()
        if word in known or vocabulary.has(word):
            return match[0]
        near = [one for one in known if abs(len(one) - len(word)) <= 1 and DamerauLevenshtein.distance(word, one) == 1]
        return near[0] if len(near) == 1 else match[0]

    return _LETTERS.sub(corrected, question)


def _is_plural(words: QuestionWords, end: int) -> bool:
    return words.words[end - 1].endswith("s") or words.words[end - 1].endswith("en")


@dataclass(frozen=True)
class _Reader:
    """The phrases of one question."""

    words: QuestionWords
    vocabulary: Vocabulary
    today: date

    def queries(self) -> list[SetQuery]:
        """Return the distinct queries among the covers with the fewest free words."""
        found = covers(len(self.words), self._steps)
        built = [(free, query) for free, facts in found if (query := query_of(facts, self.vocabulary))]
        least = min((free for free, _ in built), default=0)
        return list(dict.fromkeys(query for free, query in built if free == least))

    def change(self) -> ChangeQuestion | None:
        """Return the subject of a question about changes; None for any other question."""
        found = {change for _, facts in covers(len(self.words), self._steps) if (change := change_of(facts))}
        return found.pop() if len(found) == 1 else None

    def is_vague(self, query: SetQuery) -> bool:
        """Return whether the question asks for a definition or the text of a page, for everything, or for a sum that
        does not exist."""
        is_added = any(self.words.match(phrase("ADDED"), start) for start in range(len(self.words)))
        return (
            bool(phrase("DEFINITION").fullmatch(self.words.said))
            or (query == SetQuery("pages") and any(phrase("EVERYTHING").fullmatch(word) for word in self.words.words))
            or (is_added and query.operation == "list")
        )

    def has_series(self) -> bool:
        """Return whether the question is after pages of a series."""
        return any(self.vocabulary.series_named(self.words, start) for start in range(len(self.words)))

    def _steps(self, start: int) -> Iterator[Step]:
        yield from chain(self._plain(start), self._named(start), self._led(start))

    def _plain(self, start: int) -> Iterator[Step]:
        """Yield phrases without a name in them."""
        for name, facts in _PLAIN.items():
            if (end := self.words.match(phrase(name), start)) is not None:
                plural = (("plural", True),) if name == "PAGES" and _is_plural(self.words, end) else ()
                yield Step(end, facts + plural)
        if (end := self.words.match(phrase("FIRST"), start)) is not None:
            word = self.words.words[end - 1]
            yield Step(end, (("first", _NUMBERS.get(word) or int(word)),))

    def _named(self, start: int) -> Iterator[Step]:
        """Yield names that need no phrase before them."""
        vocabulary, words = self.vocabulary, self.words
        if (label := vocabulary.label_named(words, start)) is not None:
            yield from self._label(start, *label)
        elif (series := vocabulary.series_named(words, start)) is not None:
            end, found = series
            facts = [("where", Condition("title", "contains", found.name))]
            facts += [("where", Condition("title", "ne", title)) for title in found.others]
            yield Step(end, (("noun", _is_plural(words, end)), ("kind", found.name), *facts))
        if (space := vocabulary.space_named(words, start)) is not None and self._is_key(start, space[0]):
            yield Step(self._behind("SPACE", space[0]), (("space", space[1]),))
        for key in patterns("sets")["STATUS_KEYS"]:
            yield from self._value(start, key)
        end, pages = vocabulary.pages_named(words, start)
        if pages:
            yield Step(self._behind("PAGES", end), (("title", tuple(pages)),))
        for end, keys in self._keys(start):
            yield Step(self._behind("OF", end), (("key", keys),))
            for key in keys:
                yield from self._value(self._behind("VALUE", end), key)

    def _label(self, start: int, end: int, label: str) -> Iterator[Step]:
        """Yield a label as a noun, or as what pages are: `runbooks`, `which runbook`, `are archived`."""
        condition = ("where", Condition("label", "eq", label))
        if _is_plural(self.words, end) and self.vocabulary.is_kind(label):
            yield Step(end, (("noun", True), ("kind", label), condition))
        elif start and self.words.match(phrase("BEFORE_LABEL"), start - 1) is not None:
            yield Step(end, (("noun", False), condition))
        noun = self._behind("NOTES", end)
        if noun > end and not self.vocabulary.has_title(tuple(self.words.stems[start:noun])):
            yield Step(noun, (("noun", True), ("kind", label), condition))

    def _is_key(self, start: int, end: int) -> bool:
        """Return whether the words are a space's key or name, not only its beginning in another word."""
        return self.vocabulary.is_space(self.words.between(start, end))

    def _keys(self, start: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the property keys that words name, `status` for `current state` too."""
        for name in ("OWNER", "STATUS"):
            if (end := self.words.match(phrase(name), start)) is not None:
                yield end, patterns("sets")[f"{name}_KEYS"]
        if (found := self.vocabulary.keys_named(self.words, start)) is not None:
            yield found

    def _led(self, start: int) -> Iterator[Step]:
        """Yield phrases with the name that follows them."""
        for name, slot in _SLOTS.items():
            if (end := self.words.match(phrase(name), start)) is not None and end < len(self.words):
                yield from getattr(self, slot)(name, end)

    def _in_space(self, _: str, start: int) -> Iterator[Step]:
        if (found := self.vocabulary.space_named(self.words, start)) is not None:
            yield Step(self._behind("SPACE", found[0]), (("space", found[1]),))

    def _labelled(self, _: str, start: int) -> Iterator[Step]:
        if (found := self.vocabulary.label_named(self.words, start)) is not None:
            yield Step(found[0], (("where", Condition("label", "eq", found[1])),))

    def _status(self, _: str, start: int) -> Iterator[Step]:
        """Yield a status: of the page itself, a property, or a label if no property is one."""
        stated = [step for key in patterns("sets")["STATUS_KEYS"] for step in self._value(start, key)]
        yield from stated
        if self.words.words[start] in self.vocabulary.statuses:
            yield Step(start + 1, (("where", Condition("status", "eq", self.words.words[start])),))
        elif not stated:
            yield from self._labelled("", start)

    def _value(self, start: int, key: str) -> Iterator[Step]:
        """Yield the value of a property at a place."""
        if start < len(self.words) and (found := self.vocabulary.values_of(key)[0].named(self.words, start)):
            end, operator, value = found
            yield Step(end, (("where", Condition(f"property:{key}", operator, value)),))

    def _page(self, name: str, start: int) -> Iterator[Step]:
        """Yield pages that others link to or lie below."""
        end, pages = self.vocabulary.pages_named(self.words, start)
        if pages and (name == "LINKS_TO" or all(map(self.vocabulary.has_pages_below, pages))):
            yield Step(self._behind("PAGES", end), (("links_to" if name == "LINKS_TO" else "above", tuple(pages)),))

    def _linked_from(self, _: str, start: int) -> Iterator[Step]:
        """Yield `linked from PAGE`, and `does PAGE link to`."""
        end, pages = self.vocabulary.pages_named(self.words, start)
        end = self._behind("PAGES", end)
        is_linked = "link" in self.words.between(max(0, start - 3), start)
        behind = self._behind("LINK", end)
        if pages and (is_linked or behind > end):
            yield Step(end if is_linked else behind, (("linked_from", tuple(pages)),))

    def _phrased(self, name: str, start: int) -> Iterator[Step]:
        """Yield `mention PHRASE`, `where PHRASE is named`, `with PHRASE in the title`, `whose title has PHRASE`."""
        field = "title" if name in ("TITLED", "TITLE_HAS") else "mentions"
        tail = {"WHERE": "NAMED", "TITLED": "IN_TITLE"}.get(name)
        noun = (("noun", True),) if name == "WHERE" else ()
        for end in range(start + 1, min(len(self.words), start + _LONGEST_PHRASE) + 1):
            behind = self._behind(tail, end) if tail else end
            if (behind > end or not tail) and _NO_PHRASE.isdisjoint(self.words.words[start:end]):
                condition = Condition(field, "contains", self.words.original(start, end))
                yield Step(behind, (*noun, ("where", condition)), end - start)

    def _dated(self, name: str, start: int) -> Iterator[Step]:
        found = date_at(self.words.said, self.words.at(start), self.vocabulary.latest, self.today)
        if found and (end := self.words.number_at(found[0] + 1)) is not None:
            changed = (("changed", True),) if name == "NOT_SINCE" else ()
            yield Step(end, (*changed, ("date", (_DATED[name], found[1]))))

    def _behind(self, name: str, end: int) -> int:
        """Return where a word that may follow a name ends."""
        return (self.words.match(phrase(name), end) or end) if end < len(self.words) else end


_PLAIN: Mapping[str, tuple[Fact, ...]] = {
    "LIST": (("operation", "list"),),
    "COUNT": (("operation", "count"),),
    "FILL": (),
    "PAGES": (("noun", True),),
    "EVERYTHING": (("noun", True),),
    "CHANGED": (("changed", True),),
    "CHANGES": (("changed", True), ("noun", True)),
    "NEWEST": (("changed", True), ("order", ("updated", True))),
    "OLDEST": (("changed", True), ("order", ("updated", False))),
    "LONGEST": (("order", ("words", True)),),
    "SHORTEST": (("order", ("words", False)),),
    "WHEN": (("column", "updated"),),
    "AUTHOR": (("changed", True), ("column", "author")),
    "PER_SPACE": (("group", "space"),),
    "MORE": (("operation", "count"), ("group", "space")),
    "WHO": (("who", True),),
    "WROTE": (("changed", True),),
    "OR": (("or", True),),
}
_DATED = {"NOT_SINCE": "le", "SINCE": "ge", "AFTER": "gt", "BEFORE": "lt", "DURING": "eq"}
_SLOTS = {
    "IN_SPACE": "_in_space",
    "LABELLED": "_labelled",
    "STATUS": "_status",
    "LINKED_BY": "_linked_from",
    **dict.fromkeys(("BELOW", "CHILDREN", "LINKS_TO"), "_page"),
    **dict.fromkeys(("MENTIONS", "WHERE", "TITLED", "TITLE_HAS"), "_phrased"),
    **dict.fromkeys(_DATED, "_dated"),
}
_NO_PHRASE = frozenset(
    {"and", "or", "but", "not", "both", "either", "neither", "that", "which", "who", "are", "is", "do", "does", "how"}
    | {"when", "where", "why", "if", "und", "oder", "nicht", "aber", "die", "wie"}
)
"""Words of more than a phrase that pages could mention."""
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "drei": 3, "fünf": 5, "zehn": 10}
