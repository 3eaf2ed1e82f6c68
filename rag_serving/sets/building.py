"""One query over pages, composed of the phrases of a question.

Belongs here: combining them. Does not belong here: recognizing them in the question (`reading`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_serving.records.sets import Condition, Operation, SetQuery
from rag_serving.sets.phrases import Fact
from rag_serving.sets.vocabulary import NamedPage, Vocabulary

Said = Mapping[str, list[Any]]


@dataclass(frozen=True)
class ChangeQuestion:
    """The changes since a date, which may be a year or a month: on pages, or in a space. Without a date: the last
    ones."""

    pages: tuple[str, ...]
    space: str | None
    since: str


_OF_PAGE = {"title", "space", "operation", "column", "changed", "order", "who", "key", "noun", "kind"}
_ONCE = ("operation", "column", "order", "first", "group", "title", "links_to", "linked_from")


def query_of(facts: Iterable[Fact], vocabulary: Vocabulary) -> SetQuery | None:
    """Return the query that phrases make together; None: they do not go together."""
    said: dict[str, list[Any]] = defaultdict(list)
    for name, value in facts:
        said[name].append(value)
    if any(len(set(said[name])) > 1 for name in _ONCE):
        return None
    if said["title"]:
        return _of_page(said, vocabulary)
    return None if said["column"] or said["who"] else _of_pages(said, vocabulary)


def change_of(facts: Iterable[Fact]) -> ChangeQuestion | None:
    """Return the pages or the space whose changes since a date the phrases ask for."""
    said = dict(facts)
    if set(said) - {"operation", "changed", "noun", "title", "space", "date"} or not said.get("changed"):
        return None
    operator, since = said.get("date", ("ge", ""))
    if operator not in ("ge", "gt") or said.get("operation") == "count" or not (said.get("title") or since):
        return None
    if not {"title", "space"} & set(said):
        return None
    return ChangeQuestion(tuple(page.page_id for page in said.get("title", ())), said.get("space"), since)


def _of_page(said: Said, vocabulary: Vocabulary) -> SetQuery | None:
    """Return the query after one field of one page."""
    beside = {name for name, values in said.items() if values}
    page = _one(said["title"][0], said["space"])
    if page is None or beside - _OF_PAGE:
        return None
    if "count" in said["operation"] or ("noun" in beside and "column" not in beside):
        return None
    if said["key"]:
        keys = [key for key in said["key"][0] if _has_property(vocabulary, page, key)]
        column = f"property:{keys[0]}" if len(keys) == 1 and not said["column"] and not said["changed"] else None
    elif said["changed"] and said["column"]:
        column = said["column"][0]
        is_person = bool(said["who"])
        if (column == "author") != is_person or (is_person and not vocabulary.author_of(page)):
            return None
    else:
        return None
    where = [Condition("title", "eq", page.title)]
    if sum(other.title == page.title for other in vocabulary.pages) > 1:
        where.append(Condition("space", "eq", page.space))
    return SetQuery("pages", tuple(where), column=column) if column else None


def _has_property(vocabulary: Vocabulary, page: NamedPage, key: str) -> bool:
    return page.page_id in vocabulary.values_of(key)[1]


def _of_pages(said: Said, vocabulary: Vocabulary) -> SetQuery | None:
    """Return the query for the pages that fulfil all conditions."""
    where: list[Condition] = [*said["where"], *_dated(said, vocabulary)]
    is_of_two_kinds = len(set(said["kind"])) > 1  # `runbooks and policies` are no pages that are both
    if said["key"] or is_of_two_kinds or (said["or"] and not said["group"]):
        return None
    for name in ("above", "links_to", "linked_from"):
        pages = [page for those in said[name] for page in those]
        if len(pages) != len(said[name]):
            return None
        where += [Condition(name, "eq", page.page_id) for page in pages]
    spaces = set(said["space"])
    if len(spaces) > 1 and not (said["group"] and spaces == set(vocabulary.spaces)):
        return None
    where += [Condition("space", "eq", space) for space in spaces if len(spaces) == 1]
    if not _is_whole(said, vocabulary):
        return None
    order = said["order"][0] if said["order"] else None
    if order and order[0] == "updated" and said["date"] and any(said["plural"]):
        order = None  # `pages that were last changed in 2011` are all of them
    operation: Operation = "count" if said["group"] else said["operation"][0] if said["operation"] else "list"
    if (operation == "count" and order) or (said["group"] and len(spaces) == 1):
        return None
    conditions = tuple(sorted(set(where), key=lambda each: (each.field, each.operator, each.value)))
    first = (said["first"][0] if said["first"] else 1) if order else None
    return SetQuery("pages", conditions, operation, None, (), said["group"][0] if said["group"] else None, order, first)


def _is_whole(said: Said, vocabulary: Vocabulary) -> bool:
    """Return whether the question names its set, and no part of it is left over."""
    is_linked = bool(said["links_to"]) or (said["linked_from"] and not _links_outside(said, vocabulary))
    has_noun = any(said["noun"]) or is_linked or (said["noun"] and said["order"]) or (said["changed"] and said["date"])
    of_change = [*(each.field for each in _dated(said, vocabulary)), *(field for field, _ in said["order"])]
    return (
        bool(has_noun)
        and bool(said["changed"]) == ("updated" in of_change)
        and bool(said["first"]) <= bool(said["order"])
    )


def _dated(said: Said, vocabulary: Vocabulary) -> list[Condition]:
    """Return conditions on the time of the last change; of pages that are named by their dates, on their titles."""
    labels = [each.value for each in said["where"] if each.field == "label"]
    if not said["changed"] and len(labels) == 1 and vocabulary.are_dated(labels[0]):
        return [Condition("title", "contains", value) for operator, value in said["date"] if operator == "eq"]
    return [Condition("updated", *each) for each in said["date"]]


def _links_outside(said: Said, vocabulary: Vocabulary) -> bool:
    return any(vocabulary.links_outside(page) for page in said["linked_from"][0])


def _one(pages: Sequence[NamedPage], spaces: Sequence[str]) -> NamedPage | None:
    """Return the one page that a title names, among those of a space that is named."""
    inside = [page for page in pages if not spaces or page.space == spaces[0]]
    return inside[0] if len(inside) == 1 else None
