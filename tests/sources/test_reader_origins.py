"""Whatever the kind of source: what a sync writes down of restrictions gives, put together again, the readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sources.export_writer import Export
from sources.stand_in_confluence import StandIn
from sources.stand_in_mcp import SITE, make_server, over_http
from sources.stand_in_site import Envelope, page
from sources.syncs import settings_of
from support.constants import section_of

from rag_assets.sources import SyncResult, open_source
from rag_assets.state.records import read_last_sync, write_sync
from rag_assets.steps.readers import ReaderOrigins, explain
from rag_serving.access.principals import EVERYONE, NOBODY, Principal, satisfies
from rag_serving.config.sources import Confluence, ConfluenceDump, ConfluenceExport, ConfluenceMcp

PAGES = (
    page(1, "Home"),
    page(2, "Harbour", parents=[1], groups=["ops"], users=["ann"]),
    page(3, "Cranes", parents=[1, 2], groups=["hr"]),
    page(4, "Open", parents=[1]),
    page(5, "Deep", parents=[1, 2, 3]),
    page(6, "Lost", parents=[77]),
)
READERS = ["group:staff", "user:bob"]
PRINCIPALS = (
    Principal("acme"),
    Principal("acme", "bob"),
    Principal("acme", "ann", frozenset({"staff"})),
    Principal("acme", "ann", frozenset({"staff", "hr", "ops"})),
)


def of_dump(folder: Path) -> SyncResult:
    write(folder / "wiki", *PAGES)
    settings = ConfluenceDump(kind="confluence_dump", tenant="acme", path=folder / "wiki", readers=READERS)
    return open_source("eng", settings, folder).sync(None, {})


def of_site(folder: Path) -> SyncResult:
    with StandIn("datacenter") as wiki:
        wiki.site.put(*PAGES)
        settings = section_of(Confluence, **settings_of(wiki, readers=READERS, id_prefix="kb."))
        return open_source("eng", settings, folder).sync(None, {})


def of_site_with_permissions(folder: Path) -> SyncResult:
    with StandIn("cloud") as wiki:
        wiki.site.put(*PAGES)
        group = {"results": [{"type": "group", "name": "staff"}]}
        wiki.site.permissions["ENG"] = [
            {"operation": {"operation": "read", "targetType": "space"}, "subjects": {"group": group}}
        ]
        settings = section_of(Confluence, **settings_of(wiki, readers="from_source", comments=True))
        return open_source("eng", settings, folder).sync(None, {})


def of_server(folder: Path) -> SyncResult:
    write(folder / "wiki", *PAGES)
    with over_http(make_server(folder / "wiki")) as url:
        settings = ConfluenceMcp(kind="confluence_mcp", tenant="acme", space="ENG", url=url, readers=READERS)
        return open_source("eng", settings, folder).sync(None, {})


def of_export(folder: Path) -> SyncResult:
    path = Export().add(*PAGES).write(folder / "export.zip")
    settings = ConfluenceExport(
        kind="confluence_export", tenant="acme", path=path, base_url=SITE, readers=READERS, id_prefix="x."
    )
    return open_source("eng", settings, folder).sync(None, {})


def write(folder: Path, *pages: Envelope) -> None:
    folder.mkdir()
    for one in pages:
        (folder / f"{one['id']}.json").write_text(json.dumps({**one, "_links": {"base": SITE}}), encoding="utf-8")


@pytest.mark.parametrize("sync", [of_dump, of_site, of_site_with_permissions, of_server, of_export])
def test_the_levels_of_every_page_are_its_readers_and_let_in_who_may_read_it(sync: object, tmp_path: Path) -> None:
    result: SyncResult = sync(tmp_path)  # type: ignore[operator]
    write_sync(tmp_path, None, result)
    last = read_last_sync(tmp_path)
    assert last is not None
    assert (last.origins, last.hidden) == (result.origins, dict(result.hidden))
    assert last.finished_at is not None
    rows = {row["page_id"]: row for row in result.pages.to_pylist()}
    assert len(rows) == 6
    setting = "from_source" if sync is of_site_with_permissions else READERS
    for row in rows.values():
        for principal in PRINCIPALS:
            told = explain(row, rows, last.origins, "eng", setting, last.hidden.get(row["page_id"]), principal)
            assert "further" not in {level.where for level in told.levels}
            assert told.may_read == satisfies(principal, row["readers"]) == all(one.lets_in for one in told.levels)
            assert told.notes == ()
    readers = {page_id.rpartition(".")[2]: row["readers"] for page_id, row in rows.items()}
    assert readers["6"] == NOBODY, "a page above it is not known"
    assert readers["4"] == result.origins.space if result.origins else None
    deep = next(row for row in rows.values() if row["title"] == "Deep")
    told = explain(deep, rows, last.origins, "eng", setting, None, None)
    assert [level.where for level in told.levels][1:] == ["ancestor", "ancestor", "page"]
    assert told.levels[1].reason.startswith("restriction of page ")
    assert told.levels[1].reason.endswith("2 “Harbour”")


def test_what_an_older_program_wrote_is_said_to_be_unknown() -> None:
    row = {"page_id": "1", "space": "ENG", "readers": "group:hr", "ancestors": [], "ancestor_titles": []}
    told = explain(row, {"1": row}, None, "eng", "everyone", None, Principal("acme"))
    assert [(level.where, level.readers, level.lets_in) for level in told.levels] == [("further", "group:hr", False)]
    assert told.may_read is False
    assert "`citelock build eng`" in told.notes[0]


def test_readers_that_were_configured_since_and_pages_that_were_hidden_are_told() -> None:
    row = {"page_id": "1", "space": "ENG", "readers": NOBODY, "ancestors": [], "ancestor_titles": []}
    origins = ReaderOrigins(EVERYONE, {})
    told = explain(row, {"1": row}, origins, "eng", ["group:hr"], "it changed again and again", None)
    assert told.levels[-1].reason == "it changed again and again"
    assert told.may_read is None
    assert "sources.eng.readers has changed" in told.notes[0]


@pytest.mark.parametrize("payload", [None, [], {}, {"space": "everyone"}, {"space": "x", "levels": {"1": "y"}}, 7])
def test_a_payload_that_is_none_is_not_believed(payload: object) -> None:
    assert ReaderOrigins.of(payload) is None


def test_origins_are_read_as_they_were_written() -> None:
    origins = ReaderOrigins("group:staff", {"1": ("group:hr", None), "": (NOBODY, "is not known")})
    assert ReaderOrigins.of(json.loads(json.dumps(origins.payload()))) == origins
    assert origins.prefixed("kb.").levels.keys() == {"kb.1", ""}
