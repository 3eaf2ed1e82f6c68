"""Questions that links ask: the words of a link, where they say more than the name of what it leads to.

Belongs here: which links ask for something. Does not belong here: resolving links to headings
(`evals.bench.passages.questions`). The sentence around a link with its words masked is no question that people ask: of
45 that were read, 2 were; it stays a task of retrieval alone (`evals.bench.links`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_plus

from evals.bench.passages.questions import heading_links
from evals.training.heading_questions import lowered, pair_of
from evals.training.pairs import Pair
from evals.training.wiki import Section, Wiki, content_terms, key_of, plain

_DISPLAY = re.compile(r"/display/\w+/([^#?/]+)$")
_EMPTY = re.compile(
    r"^(?:is|are|as|that|if|in)\b|\b(?:see|here|above|below|this|refer|described|discussed|discussion|details|section|"
    r"chapter|page|guide|settings as|wiki)\b",
    re.IGNORECASE,
)
_FEWEST_OWN, _MOST_OWN, _LONGEST = 3, 10, 120  # words, words, characters


def link_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield a question for the words of each link to another page; the page that it stands on is no candidate."""
    for section, words, target, is_page in _links(wiki):
        question = _own(words, target) if section.page_id != target.page_id else ""
        if question and _is_of(wiki, target, is_page, set(content_terms(question))):
            pair = pair_of(wiki, target, lowered(question, wiki.names), "value")
            yield replace(pair, source="link", without=(section.page_id,), whole_page=is_page)


def _links(wiki: Wiki) -> Iterator[tuple[Section, str, Section, bool]]:
    """Yield each link between two sections with its words, and whether it leads to the whole page."""
    for source, words, target in heading_links(wiki.corpus):
        if source["section_id"] in wiki.by_id and target["section_id"] in wiki.by_id:
            yield wiki.by_id[source["section_id"]], words, wiki.by_id[target["section_id"]], False
    first: dict[str, Section] = {}
    for section in wiki.sections:
        first.setdefault(section.title, section)
    for section in wiki.sections:
        for link in section.row["links"]:
            title = _title_of(link)
            if title in first and link["text"].strip() and not link["anchor"]:
                yield section, link["text"], first[title], True


def _is_of(wiki: Wiki, target: Section, is_page: bool, terms: set[str]) -> bool:
    """Return whether the target says half of a link's terms or more, and its headings alone do not say all."""
    own = [section.id for section in wiki.sections if section.page_id == target.page_id] if is_page else [target.id]
    held = terms & set().union(*(wiki.terms[section] for section in own))
    return 2 * len(held) >= len(terms) and not terms <= wiki.path_terms[target.id]


def _title_of(link: Mapping[str, Any]) -> str:
    if link["kind"] == "page":
        return str(link["target"])
    match = _DISPLAY.search(link["target"] or "") if link["kind"] == "url" else None
    return unquote_plus(match[1]) if match else ""


def _own(words: str, target: Section) -> str:
    """Return the link's words where they ask by themselves; empty where they name its target, or nothing."""
    said = plain(words).strip("“”\"'")
    is_short = _FEWEST_OWN <= len(said.split()) <= _MOST_OWN and len(said) <= _LONGEST
    if not is_short or "://" in said or _EMPTY.search(said):
        return ""
    names = {key_of(name) for name in (target.heading, target.title)}
    return "" if key_of(said) in names or len(content_terms(said)) < 2 else said
