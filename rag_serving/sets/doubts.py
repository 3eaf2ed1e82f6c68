"""Queries that may have left out what was meant, although every word of the question is accounted for."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.records.sets import Condition, SetQuery
from rag_serving.sets.pages import Phrase, addressed, headed, pages_of
from rag_serving.sets.vocabulary import Vocabulary, stemmed

_SHORTEST_PLURAL = 3  # letters of a word without its last one
_FEWEST_DATED = 6  # pages that hardly all changed on one day
_FAR = 20  # passages in all for each with a phrase, where all that have addresses are known first
_ADDRESS = re.compile(r"(?:\]\(|https?:)[^\s)]*", re.IGNORECASE)


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


def _numbers(phrase: str) -> set[str]:
    """Return a phrase in the other number, and with hyphens for spaces."""
    *before, last = re.split(r"[\s-]+", phrase)
    one = last[:-1] if len(last) > _SHORTEST_PLURAL and last.endswith("s") else last
    one = re.sub("ie$", "y", one) if one != last else one
    numbers = (one, f"{one}s", re.sub("y$", "ies", one))
    return {joint.join([*before, form]) for joint in (" ", "-") for form in numbers} - {phrase}


def _is_mentioned(phrase: str, vocabulary: Vocabulary) -> bool:
    """Return whether it is plain which pages have a phrase: no others have it in the other number, or with a hyphen in
    place of a space, none has it in the address of a link alone; and some have it, but for one word, which may be on
    none."""
    texts = vocabulary.tables.texts

    def having(form: str, rows: np.ndarray) -> set[str]:
        ids = pc.unique(texts["page_id"].take(pa.array(rows))).to_pylist()
        return {*ids, *headed(vocabulary.tables, Phrase(form))} & vocabulary.by_id.keys()

    rows = Phrase(phrase).rows(texts["text"])
    found = having(phrase, rows)
    if not found and re.search(r"[\s-]", phrase):
        return False
    if having(phrase, _said_outside_links(phrase, texts["text"], rows)) != found:
        return False
    return all(having(form, Phrase(form).rows(texts["text"])) <= found for form in _numbers(phrase))


def _said_outside_links(phrase: str, texts: pa.ChunkedArray, rows: np.ndarray) -> np.ndarray:
    """Return those of the rows with a phrase that have it elsewhere than in an address."""
    wanted = Phrase(phrase)
    near = rows if len(rows) * _FAR < len(texts) else np.intersect1d(rows, addressed(texts))
    few = texts.take(pa.array(near))
    may = np.flatnonzero(pc.match_substring_regex(few, f"{_ADDRESS.pattern}{wanted.sieve}", ignore_case=True))
    linked = few.take(pa.array(may)).to_pylist()
    hidden = [place for place, text in zip(may, linked, strict=True) if not wanted.is_in(_ADDRESS.sub(" ", text))]
    return np.setdiff1d(rows, near[hidden])


def _is_titled(phrase: str, query: SetQuery, vocabulary: Vocabulary) -> bool:
    """Return whether no other title has a phrase in the other number."""
    left_out = {each.value for each in query.where if each.operator == "ne"}
    titles = vocabulary.tables.pages["title"]
    rows = {row for form in _numbers(phrase) for row in Phrase(form).rows(titles).tolist()}
    rows -= set(Phrase(phrase).rows(titles).tolist())
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
