"""A question read as a query over sets, where every word of it is accounted for and there is one reading. A question is
covered by phrases, one after the other. What no phrase accounts for, and what can be read in two ways, goes the
ordinary way."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import chain
from typing import Any
from urllib.parse import unquote_plus, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rapidfuzz.distance import DamerauLevenshtein

from rag_serving.records.sets import Condition, Operation, SetQuery, SetTables
from rag_serving.sets.pages import Phrase, addressed, headed, pages_of
from rag_serving.sets.phrases import Fact, Step, covers, date_at, phrase, words_of_phrases
from rag_serving.sets.row_reading import read_rows
from rag_serving.sets.vocabulary import QuestionWords, Vocabulary, longest, stemmed, vocabulary_of
from rag_serving.text.patterns import patterns

_SHORTEST_PLURAL = 3  # letters of a word without its last one
_FEWEST_DATED = 6  # pages that hardly all changed on one day
_FAR = 20  # passages in all for each with a phrase, where all that have addresses are known first
_ADDRESS = re.compile(r"(?:\]\(|https?:)[^\s)]*", re.IGNORECASE)
_LONGEST = 300  # characters: a longer question asks for more than a set
_MOST_WORDS = 60
_LONGEST_PHRASE = 6  # words that pages should mention
_SHORTEST_TYPO = 6  # letters of a template's word that may be mistyped
_SENTENCE = re.compile(r"(?<=[.?!;])\s+|\n+")
_ISO_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_LETTERS = re.compile(rf"[^\W\d_]{{{_SHORTEST_TYPO},}}")
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
    "WHO_MORE": (("operation", "count"), ("group", "space"), ("several", True)),
    "WHO": (("who", True),),
    "WROTE": (("changed", True),),
    "OR": (("or", True),),
}
_DATED = {"NOT_SINCE": "le", "SINCE": "ge", "AFTER": "gt", "BEFORE": "lt", "DURING": "eq"}
_PHRASED = {"MENTIONS": "", "WHERE": "NAMED", "TITLED": "IN_TITLE", "TITLE_HAS": ""}
"""What must follow the words that pages should mention, or have in their title."""
_NO_PHRASE = frozenset(
    {"and", "or", "but", "not", "both", "either", "neither", "that", "which", "who", "are", "is", "do", "does", "how"}
    | {"when", "where", "why", "if", "und", "oder", "nicht", "aber", "die", "wie"}
)
"""Words of more than a phrase that pages could mention."""
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "drei": 3, "fünf": 5, "zehn": 10}
_OF_PAGE = {"title", "space", "operation", "column", "changed", "order", "who", "key", "noun", "kind"}
_ONCE = ("operation", "column", "order", "first", "group", "title", "links_to", "linked_from")
_PAGES = ("above", "links_to", "linked_from")


@dataclass(frozen=True)
class ChangeQuestion:
    """The changes since a date, a year or a month, on pages or in a space. Without a date: the last ones."""

    pages: tuple[str, ...]
    space: str | None
    since: str


@cache
def _opening() -> re.Pattern[str]:
    return re.compile("|".join(patterns("sets")["OPENING"]), re.IGNORECASE)


def is_about_set(question: str) -> bool:
    """Return whether a question has words that ask for a set or a fact about a page; most of these ask neither."""
    return len(question) <= _LONGEST and _opening().search(question) is not None


def read_set(question: str, tables: SetTables, today: date | None = None) -> SetQuery | None:
    """Return the one query that accounts for every word of a question; None: it is for the ordinary way."""
    if (reader := _reader(question, tables, today)) is None:
        return None
    queries = reader.queries()
    words, vocabulary = reader.words, reader.vocabulary
    if not queries and not any(longest(vocabulary.series, words, start) for start in range(len(words))):
        queries = read_rows(words, tables)
    if len(queries) != 1 or is_doubtful(queries[0], vocabulary) or _is_vague(queries[0], words):
        return None
    return queries[0]


def _is_vague(query: SetQuery, words: QuestionWords) -> bool:
    """Return whether the question asks for a definition or a page's text, for everything, or for a sum that is none."""
    is_added = any(words.match(phrase("ADDED"), start) for start in range(len(words)))
    return (
        bool(phrase("DEFINITION").fullmatch(words.said))
        or (query == SetQuery("pages") and any(phrase("EVERYTHING").fullmatch(word) for word in words.words))
        or (is_added and query.operation == "list")
    )


def read_change(question: str, tables: SetTables, today: date | None = None) -> ChangeQuestion | None:
    """Return the pages or the space whose changes since a date a question asks for; None for any other question."""
    reader = _reader(question, tables, today)
    found = {change for _, facts in reader.covers() if (change := _change_of(dict(facts)))} if reader else set()
    return found.pop() if len(found) == 1 else None


def _change_of(said: Mapping[str, Any]) -> ChangeQuestion | None:
    if set(said) - {"operation", "changed", "noun", "title", "space", "date"} or not said.get("changed"):
        return None
    comparison, since = said.get("date", ("ge", ""))
    if comparison not in ("ge", "gt") or said.get("operation") == "count" or not (said.get("title") or since):
        return None
    if not {"title", "space"} & set(said):
        return None
    return ChangeQuestion(tuple(page.page_id for page in said.get("title", ())), said.get("space"), since)


def _reader(question: str, tables: SetTables, today: date | None) -> _Reader | None:
    if not is_about_set(question):
        return None
    sentences, vocabulary = _SENTENCE.split(question.strip()), vocabulary_of(tables)
    while len(sentences) > 1 and phrase("PADDING").fullmatch(QuestionWords(sentences[-1]).said):
        sentences.pop()  # it asks nothing
    words = QuestionWords(_corrected(" ".join(sentences), vocabulary))
    if not 0 < len(words) <= _MOST_WORDS or words.match(phrase("OTHER_OPENING"), 0) is not None:
        return None
    return _Reader(words, vocabulary, today or date.today())


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


@dataclass(frozen=True)
class _Reader:
    """The phrases of one question."""

    words: QuestionWords
    vocabulary: Vocabulary
    today: date

    def covers(self) -> list[tuple[int, tuple[Fact, ...]]]:
        return covers(len(self.words), lambda start: chain(self._plain(start), self._named(start), self._led(start)))

    def queries(self) -> list[SetQuery]:
        """Return the distinct queries among the covers with the fewest free words."""
        built = [(free, query) for free, facts in self.covers() if (query := _Said(facts, self.vocabulary).query())]
        least = min((free for free, _ in built), default=0)
        return list(dict.fromkeys(query for free, query in built if free == least))

    def _plain(self, start: int) -> Iterator[Step]:
        """Yield phrases without a name in them."""
        for name, facts in _PLAIN.items():
            if (end := self.words.match(phrase(name), start)) is not None:
                plural = (("plural", True),) if name == "PAGES" and self.words.is_plural(end) else ()
                yield Step(end, facts + plural)
        if (end := self.words.match(phrase("FIRST"), start)) is not None:
            word = self.words.words[end - 1]
            yield Step(end, (("first", _NUMBERS.get(word) or int(word)),))

    def _named(self, start: int) -> Iterator[Step]:
        """Yield names that need no phrase before them."""
        vocabulary, words = self.vocabulary, self.words
        if (label := longest(vocabulary.labels, words, start)) is not None:
            yield from self._label(start, *label)
        elif (series := longest(vocabulary.series, words, start)) is not None:
            end, where = series
            facts = (("where", each) for each in where)
            yield Step(end, (("noun", words.is_plural(end)), ("kind", where[0].value), *facts))
        space = vocabulary.space_named(words, start)
        if space is not None and stemmed(" ".join(words.words[start : space[0]])) in vocabulary.spaces_named:
            yield Step(self._behind("SPACE", space[0]), (("space", space[1]),))
        yield from self._statuses(start)
        end, pages = vocabulary.pages_named(words, start)
        if pages:
            yield Step(self._behind("PAGES", end), (("title", tuple(pages)),))
        keyed = [
            (behind, patterns("sets")[f"{name}_KEYS"])  # `status` for `current state` too
            for name in ("OWNER", "STATUS")
            if (behind := words.match(phrase(name), start)) is not None
        ]
        if (key := longest(vocabulary.keys, words, start)) is not None:
            keyed.append(key)
        for end, keys in keyed:
            yield Step(self._behind("OF", end), (("key", keys),))
            for one in keys:
                yield from self._value(self._behind("VALUE", end), one)

    def _label(self, start: int, end: int, label: str) -> Iterator[Step]:
        """Yield a label as a noun, or as what pages are: `runbooks`, `which runbook`, `are archived`."""
        condition = ("where", Condition("label", "eq", label))
        if self.words.is_plural(end) and self.vocabulary.is_kind(label):
            yield Step(end, (("noun", True), ("kind", label), condition))
        elif start and self.words.match(phrase("BEFORE_LABEL"), start - 1) is not None:
            yield Step(end, (("noun", False), condition))
        noun = self._behind("NOTES", end)
        if noun > end and not self.vocabulary.has_title(tuple(self.words.stems[start:noun])):
            yield Step(noun, (("noun", True), ("kind", label), condition))

    def _statuses(self, start: int) -> Iterator[Step]:
        for key in patterns("sets")["STATUS_KEYS"]:
            yield from self._value(start, key)

    def _value(self, start: int, key: str) -> Iterator[Step]:
        """Yield the value of a property at a place."""
        if start < len(self.words) and (found := self.vocabulary.values_of(key)[0].named(self.words, start)):
            end, comparison, value = found
            yield Step(end, (("where", Condition(f"property:{key}", comparison, value)),))

    def _led(self, start: int) -> Iterator[Step]:
        """Yield phrases with the name, the date or the words that follow them."""
        words, vocabulary = self.words, self.vocabulary

        def behind(name: str) -> int | None:
            end = words.match(phrase(name), start)
            return end if end is not None and end < len(words) else None

        if (at := behind("IN_SPACE")) is not None and (space := vocabulary.space_named(words, at)) is not None:
            yield Step(self._behind("SPACE", space[0]), (("space", space[1]),))
        if (at := behind("LABELLED")) is not None:
            yield from self._labelled(at)
        if (at := behind("STATUS")) is not None:  # of the page itself, a property, or a label if no property is one
            stated = list(self._statuses(at))
            yield from stated
            if words.words[at] in vocabulary.statuses:
                yield Step(at + 1, (("where", Condition("status", "eq", words.words[at])),))
            elif not stated:
                yield from self._labelled(at)
        for name in ("BELOW", "CHILDREN", "LINKS_TO", "LINKED_BY"):
            if (at := behind(name)) is not None:
                yield from self._page(name, at)
        for name in _PHRASED:
            if (at := behind(name)) is not None:
                yield from self._phrased(name, at)
        for name, comparison in _DATED.items():
            at = behind(name)
            found = None if at is None else date_at(words.said, words.starts[at], vocabulary.latest, self.today)
            if found and (end := words.numbers.get(found[0] + 1)) is not None:
                changed = (("changed", True),) if name == "NOT_SINCE" else ()
                yield Step(end, (*changed, ("date", (comparison, found[1]))))

    def _labelled(self, start: int) -> Iterator[Step]:
        if (found := longest(self.vocabulary.labels, self.words, start)) is not None:
            yield Step(found[0], (("where", Condition("label", "eq", found[1])),))

    def _page(self, name: str, start: int) -> Iterator[Step]:
        """Yield pages that others link to, lie below or are linked from: `linked from PAGE`, `does PAGE link to`."""
        end, pages = self.vocabulary.pages_named(self.words, start)
        if not pages:
            return
        end = self._behind("PAGES", end)
        if name == "LINKED_BY":
            is_linked = "link" in " ".join(self.words.words[max(0, start - 3) : start])
            behind = self._behind("LINK", end)
            if is_linked or behind > end:
                yield Step(end if is_linked else behind, (("linked_from", tuple(pages)),))
        elif name == "LINKS_TO" or all(page.page_id in self.vocabulary.ancestors for page in pages):
            yield Step(end, (("links_to" if name == "LINKS_TO" else "above", tuple(pages)),))

    def _phrased(self, name: str, start: int) -> Iterator[Step]:
        """Yield `mention PHRASE`, `where PHRASE is named`, `with PHRASE in the title`, `whose title has PHRASE`."""
        tail, field = _PHRASED[name], "title" if name.startswith("TITLE") else "mentions"
        noun = (("noun", True),) if name == "WHERE" else ()
        for end in range(start + 1, min(len(self.words), start + _LONGEST_PHRASE) + 1):
            behind = self._behind(tail, end) if tail else end
            if (behind > end or not tail) and _NO_PHRASE.isdisjoint(self.words.words[start:end]):
                condition = Condition(field, "contains", self.words.original(start, end))
                yield Step(behind, (*noun, ("where", condition)), end - start)

    def _behind(self, name: str, end: int) -> int:
        """Return where a word that may follow a name ends."""
        return (self.words.match(phrase(name), end) or end) if end < len(self.words) else end


class _Said:
    """What the phrases of a question say together."""

    def __init__(self, facts: Iterable[Fact], vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._said = said = defaultdict[str, list[Any]](list)
        for name, value in facts:
            said[name].append(value)
        labels = [each.value for each in said["where"] if each.field == "label"]
        self._dated = [Condition("updated", *each) for each in said["date"]]
        titles = [page.title for page in vocabulary.labelled.get(labels[0], ())] if len(labels) == 1 else []
        if titles and not said["changed"] and all(map(_ISO_DATE.search, titles)):
            self._dated = [Condition("title", "contains", value) for name, value in said["date"] if name == "eq"]

    def query(self) -> SetQuery | None:
        """Return their query over pages; None: they do not go together."""
        said = self._said
        if any(len(set(said[name])) > 1 for name in _ONCE):
            return None
        if said["title"]:
            return self._of_page()
        return None if said["column"] or said["who"] else self._of_pages()

    def _of_page(self) -> SetQuery | None:
        """Return the query after one field of one page, among those of a space that is named."""
        said, vocabulary = self._said, self._vocabulary
        beside, spaces = {name for name, values in said.items() if values}, said["space"]
        pages = [page for page in said["title"][0] if not spaces or page.space == spaces[0]]
        if len(pages) != 1 or beside - _OF_PAGE or "count" in said["operation"]:
            return None
        [page], column = pages, None
        if "noun" in beside and "column" not in beside:
            return None
        if said["key"]:
            keys = [key for key in said["key"][0] if page.page_id in vocabulary.values_of(key)[1]]
            if len(keys) == 1 and not said["column"] and not said["changed"]:
                column = f"property:{keys[0]}"
        elif said["changed"] and said["column"]:
            column, is_person = said["column"][0], bool(said["who"])
            if (column == "author") != is_person or (is_person and not vocabulary.facts_of(page)["author"]):
                return None
        where = [Condition("title", "eq", page.title)]
        if sum(other.title == page.title for other in vocabulary.pages) > 1:
            where.append(Condition("space", "eq", page.space))
        return SetQuery("pages", tuple(where), column=column) if column else None

    def _of_pages(self) -> SetQuery | None:
        """Return the query for the pages that fulfil all conditions."""
        said, spaces = self._said, set(self._said["space"])
        is_of_two_kinds = len(set(said["kind"])) > 1  # `runbooks and policies` are no pages that are both
        if said["key"] or is_of_two_kinds or (said["or"] and not said["group"]) or not self._is_whole():
            return None
        where: list[Condition] = [*said["where"], *self._dated]
        for name in _PAGES:
            if any(len(pages) != 1 for pages in said[name]):
                return None
            where += [Condition(name, "eq", page.page_id) for [page] in said[name]]
        is_of_all = said["group"] and spaces == set(self._vocabulary.spaces)
        if (len(spaces) > 1 and not is_of_all) or (said["several"] and len(spaces) < 2):
            return None
        where += [Condition("space", "eq", space) for space in spaces if len(spaces) == 1]
        order = said["order"][0] if said["order"] else None
        if order and order[0] == "updated" and said["date"] and any(said["plural"]):
            order = None  # `pages that were last changed in 2011` are all of them
        operation: Operation = "count" if said["group"] else said["operation"][0] if said["operation"] else "list"
        if (operation == "count" and order) or (said["group"] and len(spaces) == 1):
            return None
        conditions = tuple(sorted(set(where), key=lambda each: (each.field, each.operator, each.value)))
        first = (said["first"][0] if said["first"] else 1) if order else None
        group = said["group"][0] if said["group"] else None
        return SetQuery("pages", conditions, operation, group=group, order=order, first=first)

    def _is_whole(self) -> bool:
        """Return whether the question names its set, and no part of it is left over."""
        said = self._said
        known = self._vocabulary
        links = [link for page in (said["linked_from"] or [()])[0] for link in known.facts_of(page)["links"] or ()]
        linked = bool(said["linked_from"]) and all(link["page_id"] in known.by_id for link in links)
        has_noun = any(said["noun"]) or said["links_to"] or linked or (said["noun"] and said["order"])
        of_change = [*(each.field for each in self._dated), *(field for field, _ in said["order"])]
        return (
            bool(has_noun or (said["changed"] and said["date"]))
            and bool(said["changed"]) == ("updated" in of_change)
            and bool(said["first"]) <= bool(said["order"])
        )


def is_doubtful(query: SetQuery, vocabulary: Vocabulary) -> bool:
    """Return whether a query may find other pages than those that were meant."""
    fields = {each.field for each in query.where} | {query.column, query.order and query.order[0]}
    return (
        (query.kind == "pages" and not all(_is_plain(each, query, vocabulary) for each in query.where))
        or ("words" in fields and query.order is not None and not _are_extreme(query, vocabulary))
        or ("updated" in fields and not _are_dated(vocabulary))
    )


def _is_plain(condition: Condition, query: SetQuery, vocabulary: Vocabulary) -> bool:
    if condition.field == "mentions":
        return _is_mentioned(condition.value, vocabulary)
    if (condition.field, condition.operator) == ("title", "contains"):
        return _is_titled(condition.value, query, vocabulary)
    return condition.field != "links_to" or _are_links_known(condition.value, vocabulary)


def _numbers(words: str) -> set[str]:
    """Return a phrase in the other number, and with hyphens for spaces."""
    *before, last = re.split(r"[\s-]+", words)
    one = last[:-1] if len(last) > _SHORTEST_PLURAL and last.endswith("s") else last
    one = re.sub("ie$", "y", one) if one != last else one
    numbers = (one, f"{one}s", re.sub("y$", "ies", one))
    return {joint.join([*before, form]) for joint in (" ", "-") for form in numbers} - {words}


def _is_mentioned(words: str, vocabulary: Vocabulary) -> bool:
    """Return whether it is plain which pages have a phrase: no others have it in the other number, or with a hyphen in
    place of a space, none has it in the address of a link alone; and some have it, but for one word, which may be on
    none."""
    texts = vocabulary.tables.texts

    def having(form: str, rows: np.ndarray) -> set[str]:
        ids = pc.unique(texts["page_id"].take(pa.array(rows))).to_pylist()
        return {*ids, *headed(vocabulary.tables, Phrase(form))} & vocabulary.by_id.keys()

    rows = Phrase(words).rows(texts["text"])
    found = having(words, rows)
    if not found and re.search(r"[\s-]", words):
        return False
    if having(words, _said_outside_links(words, texts["text"], rows)) != found:
        return False
    return all(having(form, Phrase(form).rows(texts["text"])) <= found for form in _numbers(words))


def _said_outside_links(words: str, texts: pa.ChunkedArray, rows: np.ndarray) -> np.ndarray:
    """Return those of the rows with a phrase that have it elsewhere than in an address."""
    wanted = Phrase(words)
    near = rows if len(rows) * _FAR < len(texts) else np.intersect1d(rows, addressed(texts))
    few = texts.take(pa.array(near))
    may = np.flatnonzero(pc.match_substring_regex(few, f"{_ADDRESS.pattern}{wanted.sieve}", ignore_case=True))
    linked = few.take(pa.array(may)).to_pylist()
    hidden = [place for place, text in zip(may, linked, strict=True) if not wanted.is_in(_ADDRESS.sub(" ", text))]
    return np.setdiff1d(rows, near[hidden])


def _is_titled(words: str, query: SetQuery, vocabulary: Vocabulary) -> bool:
    """Return whether no other title has a phrase in the other number."""
    left_out = {each.value for each in query.where if each.operator == "ne"}
    titles = vocabulary.tables.pages["title"]
    rows = {row for form in _numbers(words) for row in Phrase(form).rows(titles).tolist()}
    rows -= set(Phrase(words).rows(titles).tolist())
    return not {titles[row].as_py() for row in rows} - left_out


def _are_links_known(page_id: str, vocabulary: Vocabulary) -> bool:
    """Return whether no address that leads to no known page ends with the title of a page."""
    said = vocabulary.by_id[page_id].stems if page_id in vocabulary.by_id else ()
    links = pc.list_flatten(vocabulary.tables.pages["links"].combine_chunks())
    urls = links.field("url").filter(pc.is_null(links.field("page_id")))
    longest = max(said, key=len, default="")
    urls = urls.filter(pc.match_substring(urls, longest, ignore_case=True))
    ends = {urlsplit(url).path.rstrip("/").rpartition("/")[2] for url in urls.to_pylist() if url}
    return said not in {stemmed(unquote_plus(re.sub(r"\.\w+$", "", end))) for end in ends}


def _are_dated(vocabulary: Vocabulary) -> bool:
    """Return whether dates show when pages changed: no source has many pages all of one day, that of its copying."""
    pages = vocabulary.tables.pages
    days = pa.table({"source": pages["source"], "day": pc.cast(pages["updated_at"], pa.date32())}).group_by("source")
    counted = days.aggregate([("day", "count"), ("day", "count_distinct")])
    pairs = zip(counted["day_count"].to_pylist(), counted["day_count_distinct"].to_pylist(), strict=True)
    return all(distinct != 1 or count < _FEWEST_DATED for count, distinct in pairs)


def _are_extreme(query: SetQuery, vocabulary: Vocabulary) -> bool:
    """Return whether the longest, or shortest, pages are the same by words and by characters."""
    texts = vocabulary.tables.texts
    sizes = pa.table({"page": texts["page_id"], "size": pc.utf8_length(texts["text"])}).group_by("page")
    summed = sizes.aggregate([("size", "sum")])
    size_of = dict(zip(summed["page"].to_pylist(), summed["size_sum"].to_pylist(), strict=True))
    places = pa.array(pages_of(query.where, vocabulary.tables))
    few = vocabulary.tables.pages.select(["page_id", "words"]).take(places).to_pylist()
    by_words, by_size = (
        {row["page_id"] for row in sorted(few, key=size, reverse=query.order == ("words", True))[: query.first]}
        for size in (lambda row: row["words"] or 0, lambda row: size_of.get(row["page_id"], 0))
    )
    return by_words == by_size
