"""Gold sets: questions whose answers, or lack of answers, are known.

Belongs here: reading and checking `evals/gold/*.yaml`, one record per question.
Does not belong here: asking the questions (`evaluate`), other people's test collections (`gold_collections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_serving.access.principals import Principal

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
_KNOWN = frozenset(
    {"id", "question", "answerable", "answer", "page", "anchor", "quote", "also", "tags", "user", "groups"}
    | {"kind", "facts", "heading"}  # what the usefulness of an answer is judged by
    | {"near", "why", "written", "language"}  # for people
)


class GoldError(Exception):
    """The gold set cannot be used; the message names file and question."""


class GoldPlace(NamedTuple):
    """A section that is right to cite: by its anchor, or by its heading where a page has one anchor for all."""

    page: str
    anchor: str = ""
    heading: str = ""


@dataclass(frozen=True)
class GoldQuestion:
    """A question with what is known of its answer."""

    id: str
    question: str
    answerable: bool
    pages: frozenset[str] = frozenset()  # a citation of one of these is right; empty: unknown
    quotes: tuple[str, ...] = ()  # the answer says one of these, white space and typography aside
    anchor: str = ""
    answer: str = ""
    tags: tuple[str, ...] = ()
    user: str | None = None
    groups: frozenset[str] = frozenset()
    part: str = ""  # questions of one part are learnt from together, or measured together
    kind: str = ""  # of question: a value, steps, one word …
    facts: tuple[tuple[str, ...], ...] = ()  # what a useful answer says: of each fact one of its spellings
    places: tuple[GoldPlace, ...] = ()

    def asker(self, tenant: str) -> Principal:
        """Return who asks."""
        return Principal(tenant, self.user, self.groups)


@dataclass(frozen=True)
class GoldSet:
    """The questions of one tenant."""

    questions: tuple[GoldQuestion, ...]
    tenant: str | None = None


def read_gold(path: Path) -> GoldSet:
    """Read a gold set: `tenant`, and `questions` with `id`, `question`, `answerable`, and for an answerable one `page`
    and `quote`.

    Raises:
        GoldError: the file is missing, is not YAML, or a question lacks something or says something unknown.
    """
    content, entries = read_entries(path)
    questions = tuple(_question(entry, f"{path}: question {number}") for number, entry in enumerate(entries, start=1))
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise GoldError(f"{path}: id {question.id!r} stands twice")
        seen.add(question.id)
    tenant = content.get("tenant")
    return GoldSet(questions, None if tenant is None else str(tenant))


def read_entries(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the content of a gold set, and its list `questions`, which is not empty; its entries are not checked.

    Raises:
        GoldError: the file is missing, is not YAML, or has no questions.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except OSError as error:
        raise GoldError(f"gold set {path} cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GoldError(f"gold set {path} is not valid YAML: {' '.join(str(error).split())}") from None
    entries = content.get("questions") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise GoldError(f"gold set {path} has no list `questions`")
    return content, entries


def check_keys(entry: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Raise GoldError for a key of an entry that is not among the known ones."""
    if unknown := sorted(set(map(str, entry)) - known):
        raise GoldError(f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _question(entry: Any, where: str) -> GoldQuestion:
    if not isinstance(entry, dict):
        raise GoldError(f"{where} is no mapping")
    where = f"{where} ({entry['id']})" if entry.get("id") else where
    check_keys(entry, _KNOWN, where)
    for key in ("id", "question"):
        if not str(entry.get(key) or "").strip():
            raise GoldError(f"{where} has no {key!r}")
    if not isinstance(entry.get("answerable"), bool):
        raise GoldError(f"{where} must say `answerable: true` or `answerable: false`")
    for key in ("page", "quote") if entry["answerable"] else ():
        if not entry.get(key):
            raise GoldError(f"{where} is answerable and has no {key!r}")
    named = [entry] if entry.get("page") else []
    places = [_place(place) for place in (*named, *_list(entry, "also", where))]
    return GoldQuestion(
        id=str(entry["id"]),
        question=str(entry["question"]),
        answerable=entry["answerable"],
        pages=frozenset(place.page for place in places),
        quotes=(str(entry["quote"]),) if entry.get("quote") else (),
        anchor=str(entry.get("anchor") or ""),
        answer=str(entry.get("answer") or ""),
        tags=tuple(str(tag) for tag in _list(entry, "tags", where)),
        user=str(entry["user"]) if entry.get("user") else None,
        groups=frozenset(str(group) for group in _list(entry, "groups", where)),
        part=str(entry.get("page") or entry.get("near") or entry["id"]),
        kind=str(entry.get("kind") or ""),
        facts=tuple(_spellings(fact) for fact in _list(entry, "facts", where)),
        places=tuple(places),
    )


def _place(entry: Mapping[str, Any]) -> GoldPlace:
    return GoldPlace(str(entry["page"]), *(str(entry.get(key) or "") for key in ("anchor", "heading")))


def _spellings(fact: Any) -> tuple[str, ...]:
    return tuple(map(str, fact)) if isinstance(fact, list) else (str(fact),)


def _list(entry: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = entry.get(key) or []
    if not isinstance(value, list) or (key == "also" and not all(isinstance(e, dict) and "page" in e for e in value)):
        raise GoldError(f"{where}: {key!r} must be a list" + (" of places with `page`" if key == "also" else ""))
    return value


def find_gold(folder: Path, tenant: str) -> GoldSet:
    """Return every question of a folder's gold sets that are of this tenant.

    Raises:
        GoldError: there is none, or a set cannot be used.
    """
    found = tenant_gold(folder, tenant)
    if found is None:
        raise GoldError(f"{folder} has no gold set of tenant {tenant!r}; name a file")
    return found


def tenant_gold(folder: Path, tenant: str) -> GoldSet | None:
    """Return the same, None where there is none.

    Raises:
        GoldError: a set cannot be used.
    """
    sets = [read_gold(path) for path in sorted(folder.glob("*.yaml"))]
    questions = tuple(question for gold in sets if gold.tenant in (None, tenant) for question in gold.questions)
    return GoldSet(questions, tenant) if questions else None
