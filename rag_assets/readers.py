"""`citelock readers explain`: who may read a page, by which restriction, and whether somebody may.

It shows titles and restrictions of pages whoever may read them: it is for who can read the home folder anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import pyarrow.compute as pc
import typer

from rag_assets.state.records import LastSync, read_last_sync
from rag_assets.steps.readers import Explained, clauses, explain, in_words
from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import CHUNKS, PAGES
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.cli.options import chosen_tenant
from rag_serving.config.loading import Config, load_config
from rag_serving.escaping.targets import for_json, for_terminal
from rag_serving.indexes.sources import read_page_readers

app = typer.Typer(help="Say who may read a page, and by which restriction.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Say who may read a page, and by which restriction."""


@app.command("explain")
def explain_command(
    page: Annotated[str, typer.Argument(help="The page: its id, its title in quotes, or its address.")],
    user: Annotated[str | None, typer.Option("--user", help="Who asks: account id or name.")] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", help="A group of who asks; repeatable.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file; default config/app.yaml or CITELOCK_CONFIG.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The tenant; may be left out where there is only one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say who may read a page and by which restriction: of the space, an ancestor, the page, or the configuration.

    \b
    citelock readers explain "Rolling Back a Release"
    citelock readers explain 1311223 --user ann --group ops
    citelock readers explain https://acme.example/wiki/spaces/ENG/pages/1311223 --json

    It uses the records of the last sync, and no source. With --user or --group it also says whether they may, and which
    restriction keeps them out.
    """
    settings = load_config(config)
    name, store = chosen_tenant(settings, tenant), Store(settings.home)
    principal = _principal(settings, name, user, groups or [])
    pages = find_pages(settings, store, settings.sources_of(name), page)
    payloads = [_payload(settings, store, name, one, principal) for one in pages]
    if as_json:
        typer.echo(for_json({"pages": payloads}))
        return
    for number, one in enumerate(payloads):
        typer.echo(for_terminal("\n".join(["", *_lines(one)] if number else _lines(one))))


def _principal(config: Config, tenant: str, user: str | None, groups: list[str]) -> Principal | None:
    """Return the principal to explain, with the user's groups as of the last sync; None if nobody was named."""
    if user is None and not groups:
        return None
    return Memberships(config).with_groups(Principal(tenant, user, frozenset(groups)))


def _payload(
    config: Config, store: Store, tenant: str, page: ExplainedPage, principal: Principal | None
) -> dict[str, Any]:
    setting = config.sources[page.source].readers
    origins, hidden = (page.sync.origins, page.sync.hidden.get(page.row["page_id"])) if page.sync else (None, None)
    explained = explain(page.row, page.pages, origins, page.source, setting, hidden, principal)
    passages = passages_of(store, page)
    return {
        **{name: page.row[name] for name in ("page_id", "title", "url", "space", "version")},
        "source": page.source,
        "tenant": tenant,
        "readers": clauses(explained.readers),
        "levels": [level.payload() for level in explained.levels],
        "principal": sorted(principal.names) if principal else None,
        "may_read": explained.may_read,
        "passages": {"count": passages.count, "narrower": passages.narrower, "shown_from": list(passages.shown_from)},
        "notes": [*explained.notes, *_notes(store, tenant, page, explained, passages)],
    }


def _notes(
    store: Store, tenant: str, page: ExplainedPage, explained: Explained, passages: PassageCounts
) -> Iterator[str]:
    """Yield notes beyond the page's readers: on its passages, and on what is published."""
    if passages.narrower:
        other = f" of page {', '.join(passages.shown_from)}" if passages.shown_from else ""
        yield f"{passages.narrower} of {passages.count} passages show text{other} and need its readers, too"
    if not passages.count:
        yield "it has no passage: nothing in it can be found"
    published = published_readers(store, tenant, explained.page_id)
    if store.current(tenant) is None:
        yield "nothing is published yet; `citelock build` publishes it"
    elif published is None:
        yield "whether it is published so is not known; `citelock doctor` looks at what is published"
    elif not published and passages.count:
        yield "the published generation does not have it; `citelock build` publishes what was synced"
    elif not published <= passages.readers:
        classes = "; ".join(in_words(clauses(readers)) for readers in sorted(published))
        yield f"the published generation still shows it to: {classes}; `citelock build {page.source}` publishes it anew"


def _lines(payload: dict[str, Any]) -> Iterator[str]:
    place = f"source {payload['source']}, space {payload['space']}, version {payload['version']}"
    yield f"{payload['title']}  (page {payload['page_id']}, {place})"
    yield f"  {payload['url']}"
    yield f"  who may read it: {in_words(payload['readers'])}"
    for level in payload["levels"]:
        mark = "" if level["lets_in"] is None else "yes  " if level["lets_in"] else "NO   "
        yield f"    {mark}{level['where']:<13} {in_words(level['readers']):<32} {level['reason']}"
    if payload["principal"] is not None:
        who = ", ".join(payload["principal"]) or "who asks without a name"
        against = [f"{level['where']} ({level['reason']})" for level in payload["levels"] if level["lets_in"] is False]
        yield f"  {who} may read it" if payload["may_read"] else f"  {who} may not read it: {'; '.join(against)}"
    yield from (f"  note: {note}" for note in payload["notes"])


_COLUMNS = ["page_id", "version", "space", "title", "url", "ancestors", "ancestor_titles", "readers"]
_ID_IN_URL = re.compile(r"(?:/pages/|/blog/\d{4}/\d\d/\d\d/|[?&]pageId=)(\d+)")


class PageNotFoundError(Exception):
    """No source has the page; the message says what is near, or why it is not indexed."""


@dataclass(frozen=True)
class ExplainedPage:
    """A page of a source."""

    source: str
    row: Mapping[str, Any]  # columns of PAGES
    pages: Mapping[str, Mapping[str, Any]]  # all of the source, by id
    sync: LastSync | None  # None: it cannot be read


@dataclass(frozen=True)
class PassageCounts:
    """A page's passages: how many, how many of them fewer may read, and whose text these show."""

    count: int
    narrower: int
    shown_from: tuple[str, ...]  # page ids
    readers: frozenset[str]  # reader classes


def find_pages(config: Config, store: Store, sources: Iterable[str], wanted: str) -> list[ExplainedPage]:
    """Return the pages that an id, a title or an address names; several where spaces have pages of the same title.
    Raises PageNotFoundError: there is none."""
    wanted = wanted.strip()
    titles: list[str] = []
    matches: list[ExplainedPage] = []
    reasons: list[str] = []
    for key in sources:
        pages, sync = _pages(store, key), read_last_sync(store.source(key))
        ids = {wanted, f"{config.sources[key].id_prefix}{_id_in(wanted)}"}
        matches += [ExplainedPage(key, row, pages, sync) for row in pages.values() if _is_meant(row, wanted, ids)]
        reasons += [f"{key}: {why}" for why in _reasons(sync, ids)]
        titles += [str(row["title"]) for row in pages.values()]
    if matches:
        return matches
    if reasons:
        raise PageNotFoundError(f"page {wanted!r} is not indexed: {'; '.join(reasons)}")
    near = [title for title in titles if wanted.casefold() in title.casefold()][:3] if wanted else []
    near = near or get_close_matches(wanted, titles, n=3, cutoff=0.5)
    mend = f"did you mean {' or '.join(map(repr, near))}?" if near else "name it by id, title or address"
    raise PageNotFoundError(f"no synced page is {wanted!r}; {mend}")


def passages_of(store: Store, page: ExplainedPage) -> PassageCounts:
    """Return the outcome of a page's text in its source's chunk table."""
    columns = ["page_id", "readers", "page_readers", "included_from"]
    try:
        table = read_table(store.source(page.source) / "chunks.parquet", CHUNKS, columns)
    except StoreError:
        return PassageCounts(0, 0, (), frozenset())
    rows = table.filter(pc.equal(table["page_id"], page.row["page_id"])).to_pylist()
    narrower = [row for row in rows if row["readers"] != row["page_readers"]]
    shown = {row["included_from"] for row in narrower} - {None, ""}
    return PassageCounts(len(rows), len(narrower), tuple(sorted(shown)), frozenset(row["readers"] for row in rows))


def published_readers(store: Store, tenant: str, page_id: str) -> frozenset[str] | None:
    """Return the reader classes of a page's text in the published generation; None if unknown."""
    current = store.current(tenant)
    try:
        table = read_page_readers(store, tenant, current) if current else None
    except StoreError:
        return None
    if table is None:
        return None
    rows = table.filter(pc.equal(table["page_id"], page_id)).to_pylist()
    return frozenset(readers for row in rows for readers in row["classes"])


def _pages(store: Store, source: str) -> dict[str, dict[str, Any]]:
    try:
        rows = read_table(store.source(source) / "pages.parquet", PAGES, _COLUMNS).to_pylist()
    except StoreError:  # never synced, or by another version of the program
        return {}
    return {row["page_id"]: row for row in rows}


def _is_meant(row: Mapping[str, Any], wanted: str, ids: set[str]) -> bool:
    if row["page_id"] in ids or row["title"].casefold() == wanted.casefold():
        return True
    return "://" in wanted and row["url"] == wanted.partition("#")[0]


def _id_in(wanted: str) -> str:
    match = _ID_IN_URL.search(wanted) if "/" in wanted else None
    return match[1] if match else wanted


def _reasons(sync: LastSync | None, ids: set[str]) -> list[str]:
    left_out = {**sync.excluded, **sync.failed} if sync else {}
    return [left_out[page_id] for page_id in sorted(ids & left_out.keys())]
