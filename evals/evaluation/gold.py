"""Gold sets: questions whose answers, or lack of answers, are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from rapidfuzz import fuzz, process

from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import SECTIONS
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config
from rag_serving.text.normalization import fold

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
        """Return the asking principal."""
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
    for name, count in Counter(question.id for question in questions).items():
        if count > 1:
            raise GoldError(f"{path}: id {name!r} stands twice")
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
    places = [
        GoldPlace(str(place["page"]), *(str(place.get(key) or "") for key in ("anchor", "heading")))
        for place in (*named, *_list(entry, "also", where))
    ]
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
        facts=tuple(
            (tuple(map(str, fact)) if isinstance(fact, list) else (str(fact),)) for fact in _list(entry, "facts", where)
        ),
        places=tuple(places),
    )


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
    """Return the same, None if there is none.

    Raises:
        GoldError: a set cannot be used.
    """
    sets = [read_gold(path) for path in sorted(folder.glob("*.yaml"))]
    questions = tuple(question for gold in sets if gold.tenant in (None, tenant) for question in gold.questions)
    return GoldSet(questions, tenant) if questions else None


# Below this partial ratio the nearest passage has nothing to do with the quote.
_NEAR = 50.0

Lack = Literal["page", "quote", "anchor"]


class GoldLocation(NamedTuple):
    """A section of a page."""

    anchor: str
    text: str


Pages = Mapping[str, Sequence[GoldLocation]]  # sections by page id


@dataclass(frozen=True)
class Stale:
    """An entry that is no longer in the pages."""

    question: GoldQuestion
    lacks: Lack
    nearest: str = ""  # the nearest quote, or the quote's present anchor
    nearest_anchor: str = ""

    def line(self) -> str:
        """For people, in one line."""
        what = {
            "page": f"page {', '.join(sorted(self.question.pages))} is gone",
            "quote": f"the quote “{self.question.quotes[0] if self.question.quotes else ''}” is gone",
            "anchor": f"the quote stands no longer under #{self.question.anchor}",
        }[self.lacks]
        instead = f"“{self.nearest}” under #{self.nearest_anchor}" if self.nearest else f"#{self.nearest_anchor}"
        return f"{self.question.id}: {what}" + (f"; nearest: {instead}" if self.nearest_anchor else "")


def live_pages(store: Store, config: Config, tenant: str) -> dict[str, list[GoldLocation]]:
    """Return the sections of the tenant's pages as its sources were synced last; a source without a table has none."""
    pages: dict[str, list[GoldLocation]] = {}
    for source in config.sources_of(tenant):
        try:
            table = read_table(store.source(source) / "sections.parquet", SECTIONS)
        except StoreError:
            continue
        for page, anchor, text in zip(
            *(table[name].to_pylist() for name in ("page_id", "anchor", "text")), strict=True
        ):
            pages.setdefault(page, []).append(GoldLocation(anchor, text))
    return pages


def check_gold(gold: GoldSet, pages: Pages) -> list[Stale]:
    """Return the answerable questions whose page, quote or anchor is gone; one without a quote needs only its page."""
    found = [_stale(question, pages) for question in gold.questions if question.answerable]
    return [stale for stale in found if stale]


def live(gold: GoldSet, stale: Sequence[Stale]) -> GoldSet:
    """Return the questions whose quotes are still in the pages; a moved anchor does not make an answer wrong."""
    gone = {each.question.id for each in stale if each.lacks != "anchor"}
    return GoldSet(tuple(question for question in gold.questions if question.id not in gone), gold.tenant)


def _stale(question: GoldQuestion, pages: Pages) -> Stale | None:
    places = [place for page in sorted(question.pages) for place in pages.get(page, ())]
    if not places:
        return Stale(question, "page")
    wanted = [plain(quote) for quote in question.quotes]
    holders = [place.anchor for place in places if any(quote in plain(place.text) for quote in wanted)]
    if wanted and not holders:
        return _nearest(question, places)
    if question.anchor and holders and question.anchor not in holders:
        return Stale(question, "anchor", nearest_anchor=holders[0])
    return None


def _nearest(question: GoldQuestion, places: Sequence[GoldLocation]) -> Stale:
    quote = question.quotes[0]
    best = process.extractOne(quote, [place.text for place in places], scorer=fuzz.partial_ratio, score_cutoff=_NEAR)
    if best is None:
        return Stale(question, "quote")
    text, _, number = best
    if (part := fuzz.partial_ratio_alignment(quote, text)) is None:
        return Stale(question, "quote", "", places[number].anchor)
    start, end = part.dest_start, part.dest_end
    while start > 0 and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return Stale(question, "quote", " ".join(text[start:end].split()), places[number].anchor)


def plain(text: str) -> str:
    """Return a text as quotes are compared: white space, typography and case aside."""
    return " ".join(fold(text).text.split()).casefold()
