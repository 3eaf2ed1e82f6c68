"""A query in words.

Belongs here: the rule that a set was made by, as it is shown. Does not belong here: running it (`execute`).
"""

from __future__ import annotations

import pyarrow.compute as pc

from rag_serving.records.sets import Condition, SetQuery, SetTables
from rag_serving.sets.pages import PROPERTY, passages_of

_SIGNS = {"eq": "=", "ne": "≠", "contains": "has", "lt": "<", "le": "≤", "gt": ">", "ge": "≥"}
_SINCE = {"eq": "in", "ne": "not in", "lt": "before", "le": "up to", "gt": "after", "ge": "since"}
_PAGES = {
    "label": {"eq": "with the label {}", "ne": "without the label {}", "contains": "with a label that has {}"},
    "above": {"eq": "below *{}*", "ne": "not below *{}*"},
    "space": {"eq": "in the space {}", "ne": "outside the space {}", "contains": "in a space whose key has {}"},
    "title": {"eq": "with the title *{}*", "ne": "with another title than *{}*", "contains": "whose title has *{}*"},
    "mentions": {"eq": "whose text has *{}*", "contains": "whose text has *{}*"},
    "links_to": {"eq": "that link to *{}*", "ne": "that do not link to *{}*"},
    "linked_from": {"eq": "that *{}* links to", "ne": "that *{}* does not link to"},
}
_NOUNS = {"rows": "rows of the table *{}* on *{}*", "items": "items under *{}* on *{}*",
          "headings": "headings below *{}* on *{}*"}  # fmt: skip
_PAGE_NOUNS = {"rows": "rows of the tables on *{}*", "items": "items on *{}*", "headings": "headings of *{}*"}


def rule_of(query: SetQuery, tables: SetTables) -> str:
    """Return the query in words."""
    conditions = [_told(query, each, tables) for each in query.where]
    if query.kind == "pages":
        whole = ["pages"] + ([" " + ", ".join(conditions)] if conditions else [])
    else:
        whole = [" and ".join(_section(query, tables, *each) for each in dict.fromkeys(query.sections))]
        whole += [f" with {' and '.join(conditions)}"] if conditions else []
    if query.group:
        whole.append(f", by {_name(query.group)}")
    if query.order:
        name, is_greatest_first = query.order
        first = "" if query.first is None else f"the first {query.first} " if query.first > 1 else "the first "
        way = "greatest" if is_greatest_first else "least"
        if name == "updated":
            way = "newest" if is_greatest_first else "oldest"
        whole.append(f"; {first}by {_name(name)}, {way} first")
    return "".join(whole)


def _section(query: SetQuery, tables: SetTables, page_id: str, anchor: str) -> str:
    page = passages_of(tables, page_id)
    passage = next((each for each in page if each.anchor == anchor), page[0] if page and not anchor else None)
    if passage is None:
        return _NOUNS[query.kind].format(anchor, page_id)
    if len(passage.heading_path) < 2 or passage.anchor != anchor:  # of the whole page
        return _PAGE_NOUNS[query.kind].format(passage.title)
    return _NOUNS[query.kind].format(passage.heading_path[-1], passage.title)


def _told(query: SetQuery, condition: Condition, tables: SetTables) -> str:
    name, operator, value = condition.field, condition.operator, condition.value
    if query.kind != "pages":
        return f"{name} {_SIGNS[operator]} {value}"
    if name == "updated":
        return f"updated {_SINCE.get(operator, operator)} {value}"
    if name in ("above", "links_to", "linked_from"):
        value = _title(tables, value)
    told = _PAGES.get(name, {}).get(operator)
    return told.format(value) if told else f"with {_name(name)} {_SIGNS[operator]} {value}"


def _title(tables: SetTables, page_id: str) -> str:
    row = pc.index(tables.pages["page_id"], page_id).as_py()
    return str(tables.pages["title"][row].as_py()) if row >= 0 else page_id


def _name(name: str) -> str:
    return name.removeprefix(PROPERTY)
