"""The page meant by a question that only names a topic, if that is clear. A bare name means the page, or the section,
of that name: a sentence about something else with the word is no answer. The match of a title or a heading is the share
of its terms that the topic has, 1 if it is nothing else; headings count less, so that a page of that name comes before
the sections of others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_serving.query.topics import Topic, names_nothing, topic_of
from rag_serving.records.decisions import Contender, Decision
from rag_serving.records.passages import Candidate, Chunk
from rag_serving.retrieval.hybrid import HEADING
from rag_serving.retrieval.ranking import Ranking
from rag_serving.retrieval.search import Search
from rag_serving.text.analyzer import analyze
from rag_serving.text.normalization import caseless

POOL = 30  # the first passages whose titles and headings are looked at
OF_HEADING = 0.35  # what a heading is worth against a title
MIN_NAMED = 0.3  # how nearly a title (or as an only heading) must be the topic, to be asked back for
NEAR, FAR = 0.5, 0.35
"""Cosine similarity of the nearest heading to a word that no page holds: from `NEAR` on it is answered as any question,
below `FAR` no page is meant."""
_MOST_ROWS = 200  # of a page that are read for its opening
_MOST_INTRODUCING = 3
_OPENINGS = re.compile(r"(?:\A|(?<=[\n|.!?:]))[\s|>*+`_–-]{0,9}(?:(?:an?|the)\s)?", re.IGNORECASE)

_END = " ?!.,;:\"'“”‘’"
_PLACE = re.compile(r"\s(?:in|on|from)\s(?:the\s)?(?:page\s)?[\"'“‘]?\Z", re.IGNORECASE)


@dataclass(frozen=True)
class _Named:
    """A page, or a section, by what it is called."""

    chunk: Chunk
    score: float  # how nearly it is what is named, 0 to 1
    is_heading: bool
    at: float  # the place of its best passage, for equal scores


def decided(search: Search, min_clear: float) -> Decision | None:
    """Return the decision on a question that only names a topic; None if it asks more, or is answered like any other.
    `min_clear`: the least confidence, (top - second) / top, to choose the likeliest page."""
    query = search.query
    if query.remark or query.phrases:
        return None
    if names_nothing(query.text):
        return Decision("no_match", reason="none of its words names anything")
    text, page = _without_place(query.text, query.page)
    topic = topic_of(text)
    if topic is None:
        return None
    name = next((name for name in ("sentence_evidence", "hygiene") if name in search.rankings), None)
    pool = (search.rankings[name] if name else search.ranking).head(POOL)
    chunks = search.context.passages.read(pool.rows)
    named = _contenders(topic, chunks, page)
    if topic.frame != "bare":
        whole = [each for each in named if each.score == 1.0 or (topic.frame == "told" and each.score == OF_HEADING)]
        if whole:
            return _between(whole, min_clear)
    elif named and topic.is_one_word:
        return _between(named, min_clear) or _partly_named(named)
    elif named and named[0].score in (1.0, OF_HEADING):
        return _between(named, min_clear)
    if not topic.is_one_word or topic.frame == "defined" or named:
        return None
    return _unnamed(topic, pool, chunks)


def introduction(search: Search, contender: Contender) -> list[Candidate]:
    """Return the opening passages of a topic, in the page's order: of the page whose whole title it is, or of the
    section whose whole heading it is. None for a topic that is only part of a title or heading, which any passage of
    the page may explain, and none if the reader cannot see the page."""
    view, topic = search.context.view, topic_asked(search)
    rows = view.page_rows(contender.page_id)[:_MOST_ROWS]
    rows = rows[~view.boilerplate(rows)] if len(rows) else rows
    chunks = view.chunks(rows.tolist())
    if topic is None or not chunks:
        return []
    is_page = contender.label == chunks[0].title
    section = chunks[0].url if is_page else contender.url
    own = [chunk for chunk in chunks if chunk.url == section][:_MOST_INTRODUCING]
    name = chunks[0].title if is_page else next((chunk.heading_path[-1] for chunk in own if chunk.heading_path), "")
    if topic.terms != frozenset(analyze(name)):
        return []
    return [Candidate(chunk, contender.score, {"named": contender.score}) for chunk in own]


def topic_asked(search: Search) -> Topic | None:
    """Return the topic of a question that only names it; None if it asks for more."""
    return topic_of(_without_place(search.query.text, search.query.page)[0])


def _without_place(text: str, page: str | None) -> tuple[str, str | None]:
    """Return a text without a final mention of its page, and that page; None if it does not end with it."""
    said = text.rstrip(_END)
    if not page or not said.casefold().endswith(page.casefold()):
        return text, None
    place = _PLACE.search(said[: -len(page)])
    return (said[: place.start()], page) if place else (text, None)


def _contenders(topic: Topic, chunks: Sequence[Chunk], page: str | None) -> list[_Named]:
    """Return the pages that are called so, or that have sections which are, each once, the likeliest first."""
    best: dict[str, _Named] = {}
    for place, chunk in enumerate(chunks):
        if page and chunk.title != page:
            continue
        found = _named(topic, chunk, place)
        known = best.get(chunk.page_id)
        if found and (known is None or found.score > known.score):
            best[chunk.page_id] = found
    told: dict[tuple[str, str], _Named] = {}
    for each in sorted(best.values(), key=lambda each: (-each.score, each.at)):
        told.setdefault((caseless(_label(each)), category_of(each.chunk)), each)
    return [*told.values()]


def _named(topic: Topic, chunk: Chunk, place: int) -> _Named | None:
    titled = _share(topic, chunk.title)
    below = [heading for heading in chunk.heading_path if heading != chunk.title]
    headed = OF_HEADING * max((_share(topic, heading) for heading in below), default=0.0)
    if not (titled or headed):
        return None
    return _Named(chunk, max(titled, headed), headed > titled, place)


def _share(topic: Topic, name: str) -> float:
    """Return the share of a name's terms that the topic is, 0 if it lacks some of the topic's."""
    terms = frozenset(analyze(name))
    return len(topic.terms) / len(terms) if terms and topic.terms <= terms else 0.0


def _between(named: Sequence[_Named], min_clear: float) -> Decision | None:
    """Return which of the pages that are called so is meant, or that two of them may be."""
    top, second = named[0], named[1].score if len(named) > 1 else 0.0
    confidence = (top.score - second) / top.score
    contenders = tuple(_contender(each) for each in named[:2])
    numbers = f"{top.score:.2f} against {second:.2f}, a confidence of {confidence:.2f} of {min_clear:.2f}"
    if confidence >= min_clear:
        return Decision("answer", contenders, confidence, f"one page is called so: {numbers}")
    if top.score < (OF_HEADING if top.is_heading else MIN_NAMED):
        return None
    return Decision("ambiguous", contenders, confidence, f"{len(named)} pages are called so: {numbers}")


def _partly_named(named: Sequence[_Named]) -> Decision | None:
    """Return that several pages may be meant, where a title or heading of each only has the word among others."""
    if len(named) < 2:
        return None
    contenders = tuple(_contender(each) for each in named[:2])
    return Decision("unsure", contenders, 0.0, f"the word is in titles and headings of {len(named)} pages")


def _unnamed(topic: Topic, pool: Ranking, chunks: Sequence[Chunk]) -> Decision | None:
    """Return the decision on a word that is no page's name: it is in some text, near to one, or nowhere."""
    holding = [chunk for chunk in chunks if topic.terms <= set(analyze(chunk.text))]
    if holding:
        pages = {chunk.page_id: chunk for chunk in reversed(holding)}
        is_told = any(_tells_of(topic, chunk.text) for chunk in holding)
        if is_told and len(pages) == 1:
            return None
        contenders = tuple(_contender(_Named(chunk, 0.0, False, 0)) for chunk in reversed(pages.values()))
        return Decision(
            "unsure" if is_told else "weak",
            contenders[:2],
            0.0,
            f"the word is in the text of {len(pages)} of the first pages, and in no heading",
        )
    if not chunks:
        return Decision("no_match", reason="no page has the word, or a heading that is near to it")
    near = np.fmax(pool.column(HEADING), pool.column("dense"))
    nearest = None if np.isnan(near).all() else (int(np.nanargmax(near)), float(np.nanmax(near)))
    if nearest is None or nearest[1] >= NEAR:
        return None
    at, similarity = nearest
    told = f"no page has the word; the nearest heading has a similarity of {similarity:.2f}, {FAR:.2f} is needed"
    if similarity < FAR:
        return Decision("no_match", (), 0.0, told)
    return Decision("weak", (_contender(_Named(chunks[at], similarity, False, 0)),), 0.0, told)


def _tells_of(topic: Topic, text: str) -> bool:
    """Return whether a sentence, an item or a row begins with the topic, and so says something of it."""
    words = len(topic.text.split())
    return any(
        topic.terms <= frozenset(analyze(" ".join(text[found.end() :][:120].split()[:words])))
        for found in _OPENINGS.finditer(text)
    )


def _label(named: _Named) -> str:
    chunk = named.chunk
    return f"{chunk.title} → {chunk.heading_path[-1]}" if named.is_heading and chunk.heading_path else chunk.title


def _contender(named: _Named) -> Contender:
    chunk = named.chunk
    query = f"What is {chunk.title}?"
    if named.is_heading and chunk.heading_path:
        query = f"{chunk.heading_path[-1]} on the page {chunk.title}"
    return Contender(_label(named), category_of(chunk), query, chunk.url, chunk.page_id, round(named.score, 3))


def category_of(chunk: Chunk) -> str:
    """Return the category of a passage's document; of one without the name of its space or source."""
    return chunk.category or chunk.space or chunk.source
