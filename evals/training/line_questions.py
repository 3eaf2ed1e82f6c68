"""Questions that single lines and lists answer: `key: value`, terms with their definition, items under their heading.

Belongs here: which lines and lists can be asked for, and how. Does not belong here: tables (`table_questions`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

from evals.training.heading_questions import (
    ASKING,
    IMPERATIVE,
    asked_by,
    is_ambiguous,
    is_common,
    is_gerund,
    lowered,
    pair_of,
    subject_of,
    with_subject,
    without_number,
)
from evals.training.pairs import Pair
from evals.training.table_questions import LONGEST_FACT, facts_of, is_key, is_nothing
from evals.training.wiki import OF_A_TEMPLATE, Section, Wiki, content_terms, key_of, plain, shape_of
from rag_serving.text.analyzer import STOP_WORDS
from rag_serving.text.units import Unit

_KEY = re.compile(r"([A-Z][\w /'-]{2,40}?)\s*[:=]\s+(\S.*)", re.DOTALL)
_TERM = re.compile(r"([\w][\w ./()'-]{1,50}?)\s*(?::| [–—-])\s+(\S.*)", re.DOTALL)
_NO_KEY_WORDS = """
note notes example examples warning tip caution important todo update edit answer question see hint ps fyi discussion
thread vote jira option step case problem solution http https result output input pros cons author authors assumption
reason filename listing figure table idea attention here high low medium new old other
"""
_NO_KEYS = frozenset(_NO_KEY_WORDS.split())
_FEWEST_PAGES = 3  # of a template's key
_FEWEST_ITEMS, _MOST_ITEMS = 2, 8
_FEWEST_TERMS, _SHORTEST_DEFINITION = 3, 5
_SHORTEST_QUESTION = 5
_OF_NAVIGATION = 3  # sections that have the same item: it leads somewhere
_AROUND = "\"“”'.[]() *"
_COMMON_SHAPES = ("", "capitalized")  # of words that are no identifiers
_PLURAL = re.compile(r"[a-z](?:[a-rt-z]|[^isu]e)s$")
_STATUS = re.compile(r"\b(?:state|status)\b", re.IGNORECASE)


class Line(NamedTuple):
    """A line of a section that says `key: value`."""

    section: Section
    unit: Unit
    key: str
    value: str


def key_value_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield questions for lines such as `Current state: Accepted`, whose key the template of several pages has."""
    lines = [line for section in wiki.sections for line in _lines(section)]
    pages = defaultdict(set)
    for line in lines:
        pages[line.key.lower()].add(line.section.page_id)
    in_page = Counter((line.section.page_id, line.key.lower()) for line in lines)
    for line in lines:
        subject, key = subject_of(line.section.title), lowered(line.key, wiki.names)
        is_known = (
            len(pages[line.key.lower()]) >= _FEWEST_PAGES and in_page[line.section.page_id, line.key.lower()] == 1
        )
        if subject and is_known and not is_nothing(line.value.strip(_AROUND)) and facts_of(line.value):
            said = line.unit.of(line.section.text)
            kind = "status" if _STATUS.search(key) else "value"
            for question in _asks_for(key, subject):
                pair = pair_of(wiki, line.section, question, kind, answer=said)
                yield replace(pair, source="key_value", facts=(plain(line.value).strip(_AROUND),))


def definition_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield questions for the terms of lists whose items each say `term: what it is`."""
    for section in wiki.sections:
        for items in lists_of(section):
            found = [(unit, _TERM.match(unit.of(section.text))) for unit in items]
            terms = [(unit, plain(match[1]), match[2]) for unit, match in found if match]
            terms = [(unit, term, said) for unit, term, said in terms if _is_term(term, said)]
            if len(terms) < _FEWEST_TERMS or 2 * len(terms) <= len(items):
                continue
            for unit, term, _ in terms:
                yield from _defined(wiki, section, unit, term)


def list_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield questions for the items of the only list under a heading in the plural."""
    holders = Counter(
        said
        for section in wiki.sections
        for said in {plain(unit.of(section.text)) for items in lists_of(section) for unit in items}
    )
    for section in wiki.sections:
        lists, noun = lists_of(section), _plural(without_number(section.heading), wiki.names)
        if not noun or len(lists) != 1 or not _FEWEST_ITEMS <= len(lists[0]) <= _MOST_ITEMS:
            continue
        if 2 * len(lists[0]) < len(section.units):
            continue
        items = [plain(unit.of(section.text)).rstrip(".;,") for unit in lists[0]]
        if any(
            len(item.split()) > LONGEST_FACT or holders[item] >= _OF_NAVIGATION or is_nothing(item) for item in items
        ):
            continue
        question = f"what are the {lowered(noun, wiki.names)}"
        if len(content_terms(question)) < 2 or is_ambiguous(wiki, section, question):
            question = with_subject(section, question)
        if question:
            yield replace(pair_of(wiki, section, question, "value"), source="list", facts=tuple(items))


def faq_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield the questions that stand in a text as a paragraph of their own, answered by the one below; those of a
    template are left out."""
    found = [(section, *each) for section in wiki.sections for each in _questions(section)]
    asking = Counter(question.lower() for _, question, _ in found)
    for section, said, answer in found:
        asked = asked_by(said) if asking[said.lower()] == 1 else None
        if asked:
            question = lowered(asked.question, wiki.names)
            if is_common(wiki, section, question):
                question = with_subject(section, question)
            if question:
                yield replace(pair_of(wiki, section, question, asked.kind, answer=answer), source="faq")


def _questions(section: Section) -> Iterator[tuple[str, str]]:
    """Yield each question that is a block of its own, and the first sentence of the block below."""
    blocks = [list(those) for _, those in groupby(section.units, key=lambda unit: unit.block)]
    for own, below in pairwise(blocks):
        said, answer = plain(own[0].of(section.text)), below[0].of(section.text)
        is_alone = len(own) == 1 and own[0].kind in ("sentence", "list", "heading") and below[0].kind != "table"
        is_asking = said.endswith("?") and len(said.split()) >= _SHORTEST_QUESTION and bool(ASKING.match(said))
        if is_alone and is_asking and not plain(answer).endswith("?") and len(answer.split()) >= _SHORTEST_DEFINITION:
            yield said, answer


def lists_of(section: Section) -> list[list[Unit]]:
    """Return the outermost items of each list."""
    members = (unit for unit in section.units if unit.list_number >= 0)
    lists = groupby(members, key=lambda unit: unit.list_number)
    return [items for _, those in lists if (items := [unit for unit in those if not unit.depth and unit.marked >= 0])]


def _lines(section: Section) -> Iterator[Line]:
    for unit in section.units:
        match = _KEY.fullmatch(unit.of(section.text)) if unit.kind in ("sentence", "list") else None
        key = plain(match[1]) if match else ""
        if match and 1 <= len(key.split()) <= 3 and not set(key.lower().split()) & (_NO_KEYS | IMPERATIVE | STOP_WORDS):
            yield Line(section, unit, key, match[2])


def _asks_for(key: str, subject: str) -> Iterator[str]:
    """Yield questions for the value of a key, of what a page is about."""
    if not key.endswith("ed"):
        yield f"what is the {key} of {subject}"
    yield f"{subject} {key}"
    if _STATUS.search(key):
        yield f"what's the status of {subject}"


def _defined(wiki: Wiki, section: Section, unit: Unit, term: str) -> Iterator[Pair]:
    if wiki.headings[key_of(term)] >= OF_A_TEMPLATE:
        return
    last = term.split()[-1]
    verb = "are" if _PLURAL.search(last) and shape_of(last) in _COMMON_SHAPES else "is"
    question = f"what {verb} {lowered(term, wiki.names)}"
    if len(wiki.holding(content_terms(term))) > _FEWEST_TERMS or is_ambiguous(wiki, section, question):
        question = with_subject(section, question)
    if question:
        yield replace(pair_of(wiki, section, question, "definition", answer=unit.of(section.text)), source="definition")


def _is_term(term: str, said: str) -> bool:
    words: Sequence[str] = term.lower().split()
    is_said = len(said.split()) >= _SHORTEST_DEFINITION and "@user" not in said
    is_named = is_key(term) and words[0] not in (STOP_WORDS | IMPERATIVE | _NO_KEYS) and not is_gerund(words[0])
    return is_said and is_named and len(words) <= 3 and not re.search(r"\d{4}|^\d+$", term)


def _is_item(item: str) -> bool:
    return len(item.split()) <= LONGEST_FACT and not is_nothing(item)


def _plural(heading: str, names: frozenset[str]) -> str:
    words = re.sub(r"\([^()]*\)|[^\w\s/-]", "", heading).split()
    if not 1 <= len(words) <= 5 or not _PLURAL.search(words[-1]) or shape_of(words[-1]) in ("camel", "dotted"):
        return ""
    first = words[0].lower()
    if first in STOP_WORDS or first in IMPERATIVE or is_gerund(first) or words[-1].lower() in names:
        return ""
    return " ".join(words)
