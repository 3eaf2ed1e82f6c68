"""Pages that meet conditions over the tables of one reader, mostly column by column, and passages that have a phrase: a
sieve that lets none of them slip, then the exact test on normalized texts."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.artifacts.columns import dictionary_encode
from rag_serving.records.sets import Condition, SetError, SetTables, SetValue
from rag_serving.sets.cells import MemberPassage, Part, normalized, properties_of, value_of

Array: TypeAlias = np.ndarray[Any, Any]
Texts: TypeAlias = pa.ChunkedArray | pa.Array
PROPERTY = "property:"
COLUMNS = {
    "title": "title", "space": "space", "status": "status", "author": "author", "source": "source",
    "category": "category", "language": "lang", "label": "labels", "above": "ancestors", "updated": "updated_at",
    "words": "words",
}  # fmt: skip
"""Fields that are shown, and the columns they are read from."""
COMPARE: dict[str, Callable[[Any, Any], bool]] = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")}
_LINKS = ("links_to", "linked_from")
_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")
_KEPT = 8  # tables that something is kept of, and properties of one
_FAR = 120  # passages in all for each page of some, where those are looked up one after the other
_TEXT_COLUMNS = ["chunk_id", "page_id", "title", "url", "anchor", "heading_path", "text", "structure"]
_LONG, _MOST_KEPT = 10_000, 40  # texts of a column that something is kept of, and how much of that
_lock = Lock()
_kept: dict[tuple[object, ...], tuple[Texts, Array]] = {}
_LAST = 0x30000  # above, no character has a compatibility form
_FEW = 500  # texts that are read one by one
_MARKS = r"\p{M}|[\x{1100}-\x{11ff}]"  # what other characters are composed with
_WHITE = r"[\t-\r\x1c-\x20]"
_NO_WORD = r"[^0-9A-Za-z_]"


class Phrase:
    """Words that a text has or has not."""

    def __init__(self, words: str) -> None:
        self.normalized = normalized(words)
        if not self.normalized:
            raise SetError("no words are asked for")
        self._exact = re.compile(rf"(?<!\w){re.escape(self.normalized)}(?!\w)")
        self._word = max(re.findall(r"[^\W_]+", self.normalized), key=len, default="")
        self._root = re.sub("(?<=...)(?:ies|y|s)$", "", self._word)  # so that both numbers of a noun share a sieve

    @property
    def sieve(self) -> str:
        """A pattern that finds whatever has the phrase, and more."""
        return re.escape(self._root)

    def is_in(self, text: str) -> bool:
        """Return whether a text has the phrase with no letter, digit or underscore directly before or after."""
        return self._exact.search(normalized(text)) is not None

    def rows(self, texts: Texts) -> Array:
        """Return the places of the texts that have the phrase, in order."""
        return _once(texts, self.normalized, lambda: self._found(texts))

    def _found(self, texts: Texts) -> Array:
        places = self.sieved(texts)
        few = texts.take(pa.array(places))
        fits = np.zeros(len(places), bool)
        is_simple = np.asarray(_is_simple(few))
        if self.normalized.isascii():
            words = f"{_WHITE}+".join(map(re.escape, self.normalized.split(" ")))
            fits = np.array(_has(few, rf"(?i)(?:\A|{_NO_WORD}){words}(?:\z|{_NO_WORD})")) & is_simple
        rest = np.flatnonzero(~is_simple)
        fits[rest] = [self.is_in(text) for text in few.take(pa.array(rest)).to_pylist()]
        return places[fits]

    def sieved(self, texts: Texts) -> Array:
        """Return the places of the texts that may have the phrase, in order: all that have it, and a few more."""
        return _once(texts, f"{self._root}…", lambda: self._sieve(texts))

    def _sieve(self, texts: Texts) -> Array:
        if not self._word:
            return np.flatnonzero(pc.is_valid(texts))
        may = np.zeros(len(texts), bool)
        if self._word.isascii():
            may = np.array(pc.fill_null(pc.match_substring(texts, self._root, ignore_case=True), False))
        odd = _once(texts, "", lambda: np.flatnonzero(~np.asarray(_is_simple(texts))))
        odd = odd[~may[odd]]
        may[odd] = _has(texts.take(pa.array(odd)), _loose(self._root, self._word)) if len(odd) > _FEW else True
        return np.flatnonzero(may)

    def sieved_keys(self, texts: Texts) -> Array:
        """Return the places of the texts in which it may be the key of a property: before a colon or a bar, or in parts
        of a link."""
        is_linked = np.array(_has(texts, r"(?i)\]\("))
        may = is_linked.copy()
        may[self.sieved(texts)] = True
        places = np.flatnonzero(may)
        few = texts.take(pa.array(places))
        is_key = np.asarray(_has(few, rf"(?i){re.escape(self._word)}[^\n]*[:|]"))
        kept: Array = places[is_key | is_linked[places] | ~np.asarray(_is_simple(few))]
        return kept


def addressed(texts: Texts) -> Array:
    """Return the places of the texts that have an address of a link."""
    return _once(texts, "…](", lambda: np.flatnonzero(_has(texts, r"(?i)\]\(|https?:")))


def _once(texts: Texts, what: str, make: Callable[[], Array]) -> Array:
    """Return places in a column; of a long one those that were made last are kept for the next question."""
    if len(texts) < _LONG:
        return make()
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    key = (what, *((chunk.buffers()[1].address, chunk.offset, len(chunk)) for chunk in chunks))
    with _lock:
        kept = _kept.pop(key, None)
    kept = kept or (texts, make())
    with _lock:
        _kept[key] = kept  # the buffer that the key names lives as long
        while len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
    return kept[1]


def _is_simple(texts: Texts) -> Texts:
    """Return which texts are normalized by their case and white space alone."""
    marked = pc.or_(_has(texts, r"(?i)\*"), _has(texts, "(?i)`"))  # of a single character this is the fast way
    return pc.fill_null(pc.and_(pc.string_is_ascii(texts), pc.invert(marked)), True)


def _has(texts: Texts, pattern: str) -> Texts:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


@lru_cache(maxsize=64)
def _loose(root: str, word: str) -> str:
    """Return a pattern of the root in every spelling normalized to it, and of characters that may hide a part of it."""
    spellings, hiding = _spellings()

    def one_of(characters: set[str]) -> str:
        codes = "".join(f"\\x{{{ord(one):x}}}" for one in sorted(characters))
        return f"[{codes}]"

    def may_overlap(made: str) -> bool:
        ends = range(1, min(len(made), len(root)))
        is_part = "*" in made or made in root or root in made
        return is_part or any(made[-n:] == root[:n] or made[:n] == root[-n:] for n in ends)

    removed = one_of(spellings["*"] | spellings["`"] | {"*", "`"})
    letters = f"{removed}*".join(one_of(spellings[letter] | {letter}) for letter in root)
    hidden = {character for character, made in hiding.items() if may_overlap(made)}
    return letters + (f"|{one_of(hidden)}" if hidden else "") + ("" if word.isascii() else f"|{_MARKS}")


@lru_cache(maxsize=1)
def _spellings() -> tuple[dict[str, set[str]], dict[str, str]]:
    """Return the characters that are normalized to each one, and what those are normalized to that become several."""
    spellings: dict[str, set[str]] = defaultdict(set)
    hiding = {}
    for character in map(chr, (*range(0x80, 0xD800), *range(0xE000, _LAST))):
        made = unicodedata.normalize("NFKC", character).casefold()
        if len(made) == 1:
            spellings[made].add(character)
        elif made:
            hiding[character] = made
    for code in range(0x41, 0x5B):
        spellings[chr(code).lower()].add(chr(code))
    return spellings, hiding


def pages_of(where: Sequence[Condition], tables: SetTables) -> Array:
    """Return the positions of the pages that meet all conditions, in the table's order. Raises SetError: there is no
    such field, or it cannot be compared with that."""
    fits = _mask(pc.is_in(tables.pages["kind"], value_set=pa.array(["page", "document"])))
    for condition in sorted(where, key=_is_read):
        if _is_read(condition):
            fits &= _read_pages(condition, tables, np.flatnonzero(fits))
        else:
            fits &= _known_pages(condition, tables.pages)
    return np.flatnonzero(fits)


def passages_of(tables: SetTables, page_id: str) -> list[MemberPassage]:
    """Return the passages of a page in order."""
    rows = page_rows(tables).get(page_id, range(0))
    return passages_at(tables, np.arange(rows.start, rows.stop))


def passages_at(tables: SetTables, places: Array) -> list[MemberPassage]:
    """Return passages by their places in the table."""
    few = tables.texts.select(_TEXT_COLUMNS).take(pa.array(places))
    return [MemberPassage(**{**row, "heading_path": tuple(row["heading_path"] or ())}) for row in few.to_pylist()]


@lru_cache(maxsize=_KEPT)
def page_rows(tables: SetTables) -> dict[str, range]:
    """Return the places of each page's passages in their table, which is sorted."""
    ids = tables.texts["page_id"]
    changes = np.flatnonzero(_mask(pc.not_equal(ids.slice(1), ids.slice(0, max(len(ids) - 1, 0))))) + 1
    starts: Array = np.concatenate([np.arange(min(len(ids), 1)), changes])
    ranges = map(range, starts.tolist(), [*changes.tolist(), len(ids)])
    return dict(zip(ids.take(pa.array(starts)).to_pylist(), ranges, strict=False))


def properties(tables: SetTables, key: str, pages: Sequence[str]) -> dict[str, list[Part]]:
    """Return the values of a property by page."""
    known, plain = _properties(tables), normalized(key)
    found = known.get(plain)
    if found is None:
        is_few = len(pages) * _FAR <= tables.texts.num_rows
        every, found = pages if is_few else tables.pages["page_id"].to_pylist(), {}
        for passage in passages_at(tables, _rows_with(tables, every, Phrase(key).sieved_keys)):
            for part in properties_of(passage, plain):
                found.setdefault(passage.page_id, []).append(part)
        if not is_few:
            known[plain] = found
            for old in list(known)[:-_KEPT]:
                known.pop(old, None)
    return {page: found[page] for page in pages if page in found}


@lru_cache(maxsize=_KEPT)
def _properties(_: SetTables) -> dict[str, dict[str, list[Part]]]:
    """Return what is kept of the properties of all pages of some tables, by key and page."""
    return {}


def mentioning(tables: SetTables, phrase: Phrase, pages: Sequence[str]) -> dict[str, int]:
    """Return the pages that have a phrase in a passage or a heading above one, with the place of the first passage
    that has it, else of the first below such a heading."""
    rows, wanted = _rows_with(tables, pages, phrase.rows), set(pages)
    ids = tables.texts["page_id"].take(pa.array(rows)).to_pylist()
    below = {page: row for page, row in headed(tables, phrase).items() if page in wanted}
    return below | dict(zip(reversed(ids), reversed(rows.tolist()), strict=True))


def headed(tables: SetTables, phrase: Phrase) -> dict[str, int]:
    """Return the pages with a phrase in a heading, with the place of the first passage below it."""
    rows, numbers, headings = _headings(tables)
    has_it = np.zeros(len(headings), bool)
    has_it[phrase.rows(headings)] = True
    found = np.unique(rows[has_it[numbers]])[::-1]
    return dict(zip(tables.texts["page_id"].take(pa.array(found)).to_pylist(), found.tolist(), strict=True))


@lru_cache(maxsize=_KEPT)
def _headings(tables: SetTables) -> tuple[Array, Array, pa.Array]:
    """Return the passage of each heading above one, its number, and the distinct headings."""
    rows, headings = _flat(tables.texts["heading_path"])
    names, numbers = dictionary_encode(pa.chunked_array([headings]))
    return rows, numbers, pa.array(names, pa.string())


def holds(condition: Condition, texts: Sequence[str]) -> bool:
    """Return whether one of some texts fits a condition; of `ne`, that none is the value."""
    comparison, value = condition.operator, condition.value
    if comparison in ("eq", "ne"):
        return any(normalized(text) == normalized(value) for text in texts) == (comparison == "eq")
    if comparison == "contains":
        phrase = Phrase(value)
        return any(phrase.is_in(text) for text in texts)
    wanted = measure(condition)
    values = (value_of(text) for text in texts)
    return any(
        COMPARE[comparison](found.amount, wanted.amount) for found in values if found and are_alike(found, wanted)
    )


def measure(condition: Condition) -> SetValue:
    """Return the value that a condition compares with. Raises SetError: it is none that has an order."""
    wanted = value_of(condition.value)
    if wanted is None or wanted.kind == "flag":
        raise SetError(f"{condition.value!r} is nothing that {condition.field} could be compared with")
    return wanted


def are_alike(one: SetValue, other: SetValue) -> bool:
    """Return whether two values can be compared and added up."""
    return (one.kind, one.unit) == (other.kind, other.unit)


def _is_read(condition: Condition) -> bool:
    """Return whether a condition needs the pages' texts."""
    return condition.field == "mentions" or condition.field.startswith(PROPERTY)


def _read_pages(condition: Condition, tables: SetTables, places: Array) -> Array:
    ids = tables.pages["page_id"].take(pa.array(places)).to_pylist()
    fits = np.zeros(tables.pages.num_rows, bool)
    if condition.field == "mentions":
        if condition.operator not in ("contains", "eq"):
            raise SetError("words of a page can be looked for, and not compared")
        phrase = Phrase(condition.value)
        with_phrase = mentioning(tables, phrase, ids)
        fits[places] = [page in with_phrase for page in ids]
        fits[phrase.rows(tables.pages["title"])] = True
        return fits
    if condition.operator not in ("eq", "ne", "contains"):
        measure(condition)
    found = properties(tables, condition.field.removeprefix(PROPERTY), ids)
    fits[places] = [holds(condition, [part.cells[0][1] for part in found.get(page, ())]) for page in ids]
    return fits


def _rows_with(tables: SetTables, pages: Sequence[str], search: Callable[[Texts], Array]) -> Array:
    """Return the places of passages of some pages that a search picks, in order."""
    texts = tables.texts
    if len(pages) * _FAR <= texts.num_rows:
        ranges = [np.arange(rows.start, rows.stop) for page in sorted(pages) if (rows := page_rows(tables).get(page))]
        places = np.concatenate([np.empty(0, int), *ranges]).astype(int)
        return places[search(texts["text"].take(pa.array(places)))]
    found = search(texts["text"])
    ids = texts["page_id"].take(pa.array(found))
    return found[_mask(pc.is_in(ids, value_set=pa.array(pages, pa.string())))]


def _known_pages(condition: Condition, pages: pa.Table) -> Array:
    """Return which pages meet a condition on their facts."""
    name, comparison, value = condition.field, condition.operator, condition.value
    if name == "updated":
        return _updated(condition, pages["updated_at"])
    if name == "words" and comparison != "contains":
        return _words(condition, pages["words"])
    if name not in COLUMNS and name not in _LINKS:
        raise SetError(f"pages have no field {name!r}")
    if comparison not in ("eq", "ne", "contains"):
        raise SetError(f"{name} has no order")
    if comparison == "contains" and (name in _LINKS or name == "above"):
        raise SetError(f"{name} is a page")
    fits = np.zeros(pages.num_rows, bool)
    if name == "linked_from":
        if (row := pc.index(pages["page_id"], value).as_py()) < 0:
            raise SetError("there is no page whose links could be followed")
        targets = [link["page_id"] for link in pages["links"][row].as_py() or () if link["page_id"]]
        fits = _mask(pc.is_in(pages["page_id"], value_set=pa.array(targets, pa.string())))
    elif name == "links_to":
        parents, links = _flat(pages["links"])
        is_it = pc.or_kleene(pc.equal(links.field("page_id"), value), pc.equal(links.field("url"), value))
        fits[parents[_mask(is_it)]] = True
    elif name == "above":
        parents, ancestors = _flat(pages["ancestors"])
        fits[parents[_mask(pc.equal(ancestors, value))]] = True
    elif name == "label":
        parents, labels = _flat(pages["labels"])
        fits[parents[_fitting(condition, labels)]] = True
    else:
        fits[_fitting(condition, pc.cast(pages[COLUMNS[name]], pa.string()))] = True
    return ~fits if comparison == "ne" else fits


def _fitting(condition: Condition, texts: Texts) -> Array:
    """Return the places of the texts that are, or contain, the value of a condition."""
    phrase = Phrase(condition.value)
    if condition.operator == "contains":
        return phrase.rows(texts)
    places: Array = phrase.sieved(texts)
    few = texts.take(pa.array(places)).to_pylist()
    fitting: Array = places[np.array([normalized(text) == phrase.normalized for text in few], bool)]
    return fitting


def _flat(lists: pa.ChunkedArray) -> tuple[Array, pa.Array]:
    """Return the values of a column of lists, and the row of each."""
    whole = lists.combine_chunks()
    parents: Array = np.asarray(pc.list_parent_indices(whole))
    return parents, pc.list_flatten(whole)


def _mask(fits: Texts) -> Array:
    """Return an array of flags, those that are not known being false."""
    flags: Array = np.array(pc.fill_null(fits, False), bool)
    return flags


def _updated(condition: Condition, times: pa.ChunkedArray) -> Array:
    begin, end = _span(condition.value)
    after = _mask(pc.greater_equal(times, pa.scalar(begin, times.type)))
    before = _mask(pc.less(times, pa.scalar(end, times.type)))
    is_known = _mask(pc.is_valid(times))
    fits = {"eq": after & before, "ne": ~(after & before), "le": before, "ge": after}
    fits |= {"lt": is_known & ~after, "gt": is_known & ~before}
    if condition.operator not in fits:
        raise SetError("a date is compared, and not searched for words")
    return fits[condition.operator]


def _span(written: str) -> tuple[datetime, datetime]:
    """Return when a year, month or day begins, and the next one."""
    match = _DATE.fullmatch(written)
    if not match:
        raise SetError(f"{written!r} is no date")
    year, month, day = (int(part) if part else 0 for part in match.groups())
    try:
        begin = datetime(year, month or 1, day or 1, tzinfo=UTC)
        if day:
            return begin, begin + timedelta(days=1)
        return begin, datetime(year + (month in (0, 12)), month % 12 + 1 if month else 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise SetError(f"{written!r} is no date") from error


def _words(condition: Condition, counts: pa.ChunkedArray) -> Array:
    wanted, name = value_of(condition.value), condition.operator
    if wanted is None or (wanted.kind, wanted.unit) != ("number", ""):
        raise SetError(f"{condition.value!r} is no number of words")
    compare: Callable[[Any, Any], bool] = getattr(operator, name)
    fits = (name == "ne" if count is None else compare(count, wanted.amount) for count in counts.to_pylist())
    return np.array([*fits], bool)
