"""The words of a question, and the pages, labels, spaces, series and properties that they name."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.records.sets import Condition, Operator, SetTables
from rag_serving.sets.cells import normalized, properties_of
from rag_serving.sets.pages import Phrase, passages_at
from rag_serving.text.analyzer import stems
from rag_serving.text.patterns import patterns

_WORD = re.compile(r"[^\W_]+")
_SERIES = re.compile(
    r"(?P<name>[^\W\d_]+(?: [^\W\d_]+){0,3})[ -]v?(?P<number>\d[\w.-]*)(?P<sign> ?[-:–])?", re.IGNORECASE
)
_SEPARATOR = re.compile(r"\s?[,;&/]\s| and | und ")
_KEY = re.compile(
    r"(?m)^(?:[|>] ?|[-*+] )?[*`]{0,3}([^\W\d_][^:|\n*`.]{0,39}?)[*`]{0,3} ?(?::[*`]{0,3}\s|\|[^|\n]*\|$)"
)
_CONNECTING = ("and", "of", "for", "und", "für", "von")
_KIND = re.compile(r"\w+ ?[-:#–\d]")
KINDS = ("page", "document")
"""Of pages that questions are about: their comments and attachments have names of their own."""
_MOST_NAMED = 1_000  # pages that words name together: of more, none is meant
_LONGEST_NAME = 12  # words of a question that are looked up as one name

Made = TypeVar("Made")


class QuestionWords:
    """The words of a text in lower case, each with its place and its stem."""

    def __init__(self, text: str) -> None:
        self.text = unicodedata.normalize("NFKC", text)
        found = list(_WORD.finditer(self.text))
        self.words = [match[0].casefold() for match in found]
        self.spans = [match.span() for match in found]
        self.stems = _stems(self.words)
        self.said = " ".join(self.words)
        self.starts = list(accumulate((len(word) + 1 for word in self.words), initial=0))  # places in `said`
        self.numbers = {at: number for number, at in enumerate(self.starts)}  # by them, that behind the last as well

    def __len__(self) -> int:
        return len(self.words)

    def match(self, pattern: re.Pattern[str], start: int) -> int | None:
        """Return the word after a phrase that begins at a word; None if the phrase is not there."""
        match = pattern.match(self.said, self.starts[start])
        return None if match is None else self.numbers.get(match.end() + 1)

    def is_plural(self, end: int) -> bool:
        """Return whether the word before a place has the form of a plural."""
        return self.words[end - 1].endswith(("s", "en"))

    def goes_on(self, end: int) -> bool:
        """Return whether a name that words before a place are of seems to go on there: `On-Call and Support`."""
        behind = [self.text[start : start + 1] for start, _ in self.spans[end - 1 : end + 2]]
        if len(behind) < 2 or not behind[0].isupper() or "," in self.text[self.spans[end - 1][1] : self.spans[end][0]]:
            return False
        return behind[1].isupper() or (self.words[end] in _CONNECTING and behind[-1].isupper())

    def original(self, start: int, end: int) -> str:
        """Return words as they were written, with the text between them and the sign of a number."""
        first, last = self.spans[start][0], self.spans[end - 1][1]
        is_negative = self.text[first - 1 : first] in ("-", "−") and not self.text[: first - 1][-1:].strip()
        return ("-" if is_negative else "") + self.text[first:last]


class Values:
    """The values of a column or a property, by the words of those things that each one lists."""

    def __init__(self, values: Iterable[str]) -> None:
        self.all = {normalized(value): value for value in values}
        self._listing: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for value in self.all:
            for element in {value, *_SEPARATOR.split(value)}:
                if len(words := stemmed(element)) <= _LONGEST_NAME:
                    self._listing[words].add(value)
        self._listing.pop((), None)

    def __contains__(self, value: str) -> bool:
        return normalized(value) in self.all

    def named(self, words: QuestionWords, start: int) -> tuple[int, Operator, str] | None:
        """Return the end of the longest run of words that is a value, and the comparison that finds just those that
        have it; None if none does."""
        for end in range(min(len(words), start + _LONGEST_NAME), start, -1):
            if listing := self._listing.get(tuple(words.stems[start:end])):
                said = words.original(start, end)
                if len(listing) == 1 and stemmed(only := min(listing)) == tuple(words.stems[start:end]):
                    return end, "eq", self.all[only]
                phrase = Phrase(said)
                return (end, "contains", said) if {v for v in self.all if phrase.is_in(v)} == listing else None
        return None


class NamedPage(NamedTuple):
    """A page by its names."""

    page_id: str
    title: str
    space: str
    stems: tuple[str, ...]


class Vocabulary:
    """Names of the pages, labels, spaces, series of pages and page properties that a reader may see."""

    def __init__(self, tables: SetTables) -> None:
        self.tables = tables
        pages = self._facts = tables.pages.filter(pc.is_in(tables.pages["kind"], value_set=pa.array(KINDS)))
        told = {name: pages[name].to_pylist() for name in ("page_id", "title", "space", "space_name", "labels")}
        titles, spaces = told["title"], told["space"]
        self.pages = [*map(NamedPage, told["page_id"], titles, spaces, map(stemmed, titles))]
        self.by_id = {page.page_id: page for page in self.pages}
        self.spaces = sorted(set(spaces))
        pairs = sorted(set(zip(told["space_name"], spaces, strict=True)), key=str)
        self.spaces_named = {stemmed(name or key): key for name, key in pairs}
        self.spaces_named |= {stemmed(key): key for key in self.spaces}
        self.labelled, self._holding = defaultdict[str, list[NamedPage]](list), defaultdict[str, set[NamedPage]](set)
        self._titled = defaultdict[tuple[str, ...], set[NamedPage]](set)
        for page, labels in zip(self.pages, told["labels"], strict=True):
            self._titled[page.stems].add(page)
            for label in labels or ():
                self.labelled[label].append(page)
            for stem in page.stems:
                self._holding[stem].add(page)
        self.labels = {stemmed(label): label for label in sorted(self.labelled, reverse=True)}
        self.series = _series_of(titles)
        self.statuses = frozenset(filter(None, pages["status"].to_pylist()))
        times = [time for time in pages["updated_at"].to_pylist() if time]
        self.latest = max(times).date() if times else date.today()
        self.ancestors = {str(page_id) for ids in pages["ancestors"].to_pylist() for page_id in ids or ()}
        self._properties: dict[str, tuple[Values, frozenset[str]]] = {}

    def pages_named(self, words: QuestionWords, start: int) -> tuple[int, list[NamedPage]]:
        """Return the pages named by the longest run of words at a place, by title or words of it, and its end."""
        for end in range(min(len(words), start + _LONGEST_NAME), start, -1):
            said = tuple(words.stems[start:end])
            if not all(stem in self._holding for stem in said):
                continue
            whole, holding = self._titled.get(said), set.intersection(*(self._holding[stem] for stem in said))
            if not whole and len(holding) > _MOST_NAMED:
                return start, []
            named = whole or {page for page in holding if _has_run(page.stems, said)} or holding
            # Numbers and short words name no page by themselves.
            tells = any(len(stem) > 2 and not stem.isdigit() for stem in said) and not words.goes_on(end)
            if named and (whole or tells):
                return end, sorted(named)
        return start, []

    def space_named(self, words: QuestionWords, start: int) -> tuple[int, str] | None:
        """Return the space whose key or name is at a place, or whose key begins the word there (ENG: `engineering`)."""
        if (found := longest(self.spaces_named, words, start)) is not None:
            return found
        begun = [key for key in self.spaces if len(key) > 2 and words.words[start].startswith(key.casefold())]
        return (start + 1, begun[0]) if len(begun) == 1 else None

    def values_of(self, key: str) -> tuple[Values, frozenset[str]]:
        """Return the values of a page property, and the pages that have it."""
        if key not in self._properties:
            passages = passages_at(self.tables, np.array(self._rows_of_keys.get(key, ()), int))
            parts = [part for passage in passages for part in properties_of(passage, key)]
            parts = [part for part in parts if part.passage.page_id in self.by_id]
            pages = frozenset(part.passage.page_id for part in parts)
            self._properties[key] = Values(part.cells[0][1] for part in parts), pages
        return self._properties[key]

    @cached_property
    def keys(self) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """Possible keys of properties, by their stems."""
        by_words: dict[tuple[str, ...], tuple[str, ...]] = {}
        for key in sorted(self._rows_of_keys):
            by_words[stemmed(key)] = (*by_words.get(stemmed(key), ()), key)
        by_words.pop((), None)
        return by_words

    @cached_property
    def _rows_of_keys(self) -> Mapping[str, Sequence[int]]:
        texts = self.tables.texts["text"]
        places = pc.indices_nonzero(pc.match_substring_regex(texts, _KEY.pattern))
        rows: dict[str, list[int]] = defaultdict(list)
        for row, text in zip(places.to_pylist(), texts.take(places).to_pylist(), strict=True):
            for key in {match[1] for match in _KEY.finditer(text)}:
                rows[normalized(key)].append(row)
        return rows

    def has(self, word: str) -> bool:
        """Return whether a word is in the name of a page, a label or a space."""
        stem = stems([word])[0]
        return stem in self._holding or any(stem in names for names in (*self.labels, *self.spaces_named))

    def has_title(self, said: tuple[str, ...]) -> bool:
        """Return whether words follow one another in a title."""
        holding = (self._holding.get(stem, set()) for stem in said)
        return any(_has_run(page.stems, said) for page in set.intersection(*holding))

    def is_kind(self, label: str) -> bool:
        """Return whether a label says what a page is (`runbook`), and not what it is about (`berth`): it is a known
        kind, has several words, or half of the titles end or begin with it as with their kind."""
        said = stemmed(label)
        if len(said) > 1 or any(said == stemmed(kind) for kind in patterns("sets")["KINDS"]):
            return True
        ends, begins = slice(-1, None), slice(1)
        kinds = [
            page.stems[ends] == said or (page.stems[begins] == said and _KIND.match(page.title) is not None)
            for page in self.labelled[label]
        ]
        return 2 * sum(kinds) >= len(kinds)

    def facts_of(self, page: NamedPage) -> Mapping[str, Any]:
        """Return the row of PAGE_FACTS of a page."""
        row: Mapping[str, Any] = self._facts.slice(self.pages.index(page), 1).to_pylist()[0]
        return row


def longest(names: Mapping[tuple[str, ...], Made], words: QuestionWords, start: int) -> tuple[int, Made] | None:
    """Return the end of the longest run of words from a place that is a name, and what has it."""
    for end in range(min(len(words), start + _LONGEST_NAME), start, -1):
        if (found := names.get(tuple(words.stems[start:end]))) is not None:
            return end, found
    return None


def _series_of(titles: Sequence[str]) -> dict[tuple[str, ...], tuple[Condition, ...]]:
    """Return the pages whose titles are numbered alike, at least two, by the stems of the words before the number: they
    have these words, and are none of the others that have them."""
    members: dict[tuple[str, ...], dict[str, list[tuple[bool, str]]]] = defaultdict(lambda: defaultdict(list))
    spelt: dict[tuple[str, ...], str] = {}
    for title in titles:
        if match := _SERIES.match(title):
            name = stemmed(match["name"])
            spelt.setdefault(name, match["name"])
            members[name][match["number"].strip(".-")].append((not match["sign"], title))
    found = {}
    for name, numbers in members.items():
        if len(numbers) > 1:
            inside = {title for those in numbers.values() for sign, title in those if sign == min(those)[0]}
            others = {title for title in titles if title not in inside and _has_run(stemmed(title), name)}
            conditions = (Condition("title", "ne", title) for title in sorted(others))
            found[name] = Condition("title", "contains", spelt[name]), *conditions
    return found


@lru_cache(maxsize=1 << 16)
def stemmed(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words."""
    return tuple(_stems(words_of(text)))


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case."""
    return [word.casefold() for word in _WORD.findall(unicodedata.normalize("NFKC", text))]


def _stems(words: Sequence[str]) -> list[str]:
    """Return the stems of words; a number without zeros before it (`ADR-007` is ADR 7)."""
    return [stem.lstrip("0") or "0" if stem.isdecimal() else stem for stem in stems(words)]


def _has_run(whole: Sequence[str], part: Sequence[str]) -> bool:
    return any(tuple(whole[at : at + len(part)]) == tuple(part) for at in range(len(whole) - len(part) + 1))


@lru_cache(maxsize=8)
def vocabulary_of(tables: SetTables) -> Vocabulary:
    """Return the names in the tables."""
    return Vocabulary(tables)
