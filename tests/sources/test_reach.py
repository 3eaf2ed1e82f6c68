"""What the doctor says of sources: what it met, how to mend it, within a bound, and nothing that is secret."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sources.export_writer import Export
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_faults import Answer, Fault, broken, gone_v1, throttled
from sources.stand_in_mcp import SITE, make_server, over_http
from sources.stand_in_site import page
from sources.syncs import settings_of
from support.constants import section_of

from rag_assets.monitoring import source_health as source_checks
from rag_assets.monitoring.source_health import answers_within, examine, without_secrets
from rag_assets.sources import open_source
from rag_assets.sources import reach as module
from rag_assets.sources.reach import Reach, reach
from rag_assets.state.records import write_sync
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, read_json, write_json, write_table
from rag_serving.config.loading import parse_config
from rag_serving.config.sources import (
    BasicAuth,
    Confluence,
    ConfluenceDump,
    ConfluenceExport,
    ConfluenceMcp,
    DocsFolder,
    Files,
)

RESTRICTIONS, TREE = "confluence_get_page_restrictions", "confluence_get_space_page_tree"
STAFF = {"results": [{"type": "group", "name": "staff"}]}
PERMISSIONS = [{"operation": {"operation": "read", "targetType": "space"}, "subjects": {"group": STAFF}}]


def site(wiki: StandIn, **more: Any) -> Confluence:
    return section_of(Confluence, **settings_of(wiki, **more))


@pytest.fixture
def signed(wiki: StandIn, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings that sign in, at a wiki that asks for it and tells its permissions."""
    wiki.require("basic")
    wiki.site.permissions["ENG"] = PERMISSIONS
    monkeypatch.setenv("CONFLUENCE_USER", USER)
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    return {"auth": BasicAuth(kind="basic"), "readers": "from_source"}


def test_a_site_that_can_be_read_says_all_that_was_met(wiki: StandIn, signed: dict[str, Any]) -> None:
    found = reach("eng", site(wiki, **signed))
    assert (found.state, found.mend) == ("ok", "")
    assert found.detail == (
        f"{wiki.url}, signed in, space ENG is there, its permissions can be read, restrictions of pages can be read"
    )
    assert len(wiki.requests) == 3
    assert wiki.bodies_asked() == set()


def test_a_site_without_v1_content_can_be_read(wiki: StandIn, signed: dict[str, Any]) -> None:
    wiki.faults.append(gone_v1())
    wiki.faults.append(broken(None, 410, "rest/api/space"))
    found = reach("eng", site(wiki, **{**signed, "readers": "everyone"}))
    assert found.state == ("ok" if wiki.flavor == "cloud" else "fail")


@pytest.mark.parametrize(
    ("spoil", "given", "state", "told", "mend"),
    [
        (lambda _: None, {"space": "NOPE"}, "fail", "has no space 'NOPE' for this user", "sources.eng.space"),
        (lambda wiki: wiki.site.permissions.clear(), {}, "fail", "nobody could read its pages", "sources.eng.readers"),
        (lambda wiki: wiki.site.pages.clear(), {}, "warn", "it lists no page", "sources.eng.space"),
        (lambda wiki: wiki.require("bearer"), {}, "fail", "not signed in", "check auth"),
        (lambda wiki: wiki.faults.append(throttled(99, "600")), {}, "fail", "throttled", "later"),
        (lambda wiki: wiki.faults.append(broken(None)), {}, "fail", "answered 500", "sources.eng"),
        (lambda wiki: wiki.faults.append(_says({"type": "anonymous"}, "current")), {}, "fail", "for nobody", "auth"),
        (lambda wiki: wiki.faults.append(_without_restrictions()), {}, "fail", "are not told", "restrictions"),
        (lambda wiki: wiki.faults.append(broken(None, 403, "api/content")), {}, "fail", "cannot be listed", "rights"),
    ],
)
def test_what_is_wrong_with_a_site_is_said_with_how_to_mend_it(
    wiki: StandIn, signed: dict[str, Any], spoil: Any, given: dict[str, Any], state: str, told: str, mend: str
) -> None:
    spoil(wiki)
    found = reach("eng", site(wiki, **{**signed, **given}))
    assert found.state == state
    assert told in found.detail
    assert mend in found.mend


def _says(value: object, path: str) -> Fault:
    return Fault(lambda *_: Answer.of(value), None, lambda request: path in request.path)


def _without_restrictions() -> Fault:
    def spoil(_: object, answer: Answer) -> Answer:
        content = json.loads(answer.content)
        return Answer.of({**content, "results": [{**one, "restrictions": {}} for one in content["results"]]})

    return Fault(spoil, None, lambda request: request.path.endswith("rest/api/content"))


def test_a_site_that_hangs_or_is_not_there_takes_no_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, signed: dict[str, Any], wiki: StandIn
) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        found = reach("eng", site(wiki, **{**signed, "base_url": f"http://127.0.0.1:{silent.getsockname()[1]}"}))
        assert time.monotonic() - began < 10
    assert (found.state, "gave no answer" in found.detail) == ("fail", True)
    found = reach("eng", site(wiki, **{**signed, "base_url": "http://127.0.0.1:9"}))
    assert (found.state, "base_url" in found.mend) == ("fail", True)


def test_a_token_that_is_not_set_is_named(wiki: StandIn, signed: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.delenv("CONFLUENCE_TOKEN")
    assert "CONFLUENCE_TOKEN is not set" in reach("eng", site(wiki, **signed)).detail


def write_pages(folder: Path, *numbers: int, space: str = "ENG") -> Path:
    folder.mkdir()
    for number in numbers:
        told = {**page(number, space=space), "_links": {"base": SITE}}
        (folder / f"{number}.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def dump(path: Path, **more: Any) -> ConfluenceDump:
    return ConfluenceDump(kind="confluence_dump", tenant="acme", path=path, **{"readers": "everyone", **more})


def test_a_dump_counts_its_pages_and_cannot_say_who_may_read_them(tmp_path: Path) -> None:
    folder = write_pages(tmp_path / "wiki", 1, 2)
    assert reach("eng", dump(folder)) == Reach("ok", f"2 page files in {folder}")
    closed = reach("eng", dump(folder, readers="from_source"))
    assert (closed.state, "nobody can read its pages" in closed.detail) == ("fail", True)
    assert "sources.eng.readers" in closed.mend
    gone = reach("eng", dump(tmp_path / "gone"))
    assert (gone.state, "does not exist" in gone.detail, "set the source's path" in gone.mend) == ("fail", True, True)


def test_an_export_is_looked_at_without_being_read(tmp_path: Path) -> None:
    usual: dict[str, Any] = {"kind": "confluence_export", "tenant": "acme", "base_url": SITE}
    path = Export().add(page(1)).write(tmp_path / "export.zip")
    assert reach("eng", ConfluenceExport(**usual, path=path)).state == "ok"
    assert reach("eng", ConfluenceExport(**usual, path=tmp_path / "no.zip")).state == "fail"
    (tmp_path / "text.zip").write_text("no zip")
    assert "export it again" in reach("eng", ConfluenceExport(**usual, path=tmp_path / "text.zip")).mend


def server(url: str | None = None, **more: Any) -> ConfluenceMcp:
    usual: dict[str, Any] = {"tenant": "acme", "space": "ENG", "readers": "everyone", "url": url}
    return ConfluenceMcp(kind="confluence_mcp", **{**usual, **more})


def test_an_mcp_server_is_asked_for_its_tools_and_for_one_page(tmp_path: Path) -> None:
    folder = write_pages(tmp_path / "wiki", 1, 2)
    with over_http(make_server(folder)) as url:
        assert reach("eng", server(url)) == Reach("ok", "the server answers, space ENG is there")
        assert reach("eng", server(url, readers="from_source")).state == "fail"
        assert "cannot list space 'HR'" in reach("eng", server(url, space="HR")).detail
        renamed = reach("eng", server(url, tools={"page": "read_page"}))
        assert (renamed.state, "no tool 'read_page'" in renamed.detail) == ("fail", True)
        assert "confluence_get_page" in renamed.mend
    with over_http(make_server(folder, without=(RESTRICTIONS,))) as url:
        assert reach("eng", server(url)).state == "warn"
        assert reach("eng", server(url, unrestricted=True)).state == "ok"
    assert not (folder / "read.log").exists()


def test_an_mcp_server_that_lists_another_space_or_is_not_there_is_told(tmp_path: Path) -> None:
    folder = write_pages(tmp_path / "wiki", 1, space="HR")
    with over_http(make_server(folder, without=(TREE,))) as url:
        found = reach("eng", server(url))
        assert found.detail == "asked for space 'ENG', the server lists a page of 'hr'"
    gone = reach("eng", server(command=[sys.executable, "-c", "raise SystemExit(2)", "--token", "s3cret-word"]))
    assert gone.state == "fail"


# The findings of all sources


def config_of(home: Path, **sources: Any) -> Any:
    told = {key: source.model_dump(mode="json") for key, source in sources.items()}
    return parse_config({"home": str(home), "tenants": {"acme": {}}, "sources": told})


def found_by(config: Any) -> dict[str, Any]:
    return {finding.name: finding for finding in examine(config)}


def synced(home: Path, key: str, source: Any, readers: str = "everyone") -> None:
    """A source as its sync leaves it, with one passage."""
    folder = Store(home).source(key)
    write_sync(folder, source_print := open_source(key, source, folder).fingerprint(), _result(key, source, folder))
    row = dict.fromkeys(CHUNKS.columns.names) | {"readers": readers}
    write_table(folder / "chunks.parquet", CHUNKS.table([row]), CHUNKS)
    assert source_print


def _result(key: str, source: Any, folder: Path) -> Any:
    return open_source(key, source, folder).sync(None, {})


def test_each_source_has_a_finding_of_now_and_one_of_its_last_sync(tmp_path: Path) -> None:
    source = dump(write_pages(tmp_path / "wiki", 1, 2))
    config = config_of(tmp_path, eng=source, ops=dump(tmp_path / "gone"))
    synced(tmp_path, "eng", source)
    found = found_by(config)
    assert list(found) == ["source eng", "sync eng", "source ops", "sync ops"]
    assert [one.state for one in found.values()] == ["ok", "ok", "fail", "warn"]
    assert found["sync eng"].detail.startswith("complete 0 seconds ago, 2 pages; 1 of 1 passages are readable for")
    assert (found["sync ops"].detail, found["sync ops"].mend) == ("never synced", "run `citelock build ops`")


def test_a_source_that_nobody_can_read_fails_with_the_reason_of_its_sync(tmp_path: Path) -> None:
    source = dump(write_pages(tmp_path / "wiki", 1), readers="from_source")
    synced(tmp_path, "eng", source, "nobody")
    found = found_by(config_of(tmp_path, eng=source))["sync eng"]
    assert (found.state, "nobody may read any of its 1 passages: a dump does not say" in found.detail) == ("fail", True)


def test_a_sync_that_is_late_says_so_where_only_a_sync_can_tell(tmp_path: Path) -> None:
    source = dump(write_pages(tmp_path / "wiki", 1))
    synced(tmp_path, "eng", source)
    file = Store(tmp_path).source("eng") / "sync_state.json"
    state = read_json(file)
    state["state"]["finished_at"] = (datetime.now(UTC) - timedelta(days=8)).isoformat()
    write_json(file, state)
    config = config_of(tmp_path, eng=source)
    assert found_by(config)["sync eng"].state == "ok", "a dump whose content is the same is not synced again"
    write_json(file, {**state, "fingerprint": None})
    found = found_by(config)["sync eng"]
    assert (found.state, found.mend) == ("warn", "run `citelock build eng`, or give it a schedule")
    scheduled = config_of(tmp_path, eng=source.model_copy(update={"schedule": "*/15 * * * *"}))
    assert "its schedule ticked 3 times since" in found_by(scheduled)["sync eng"].mend


def test_failed_pages_are_told_with_a_reason(tmp_path: Path) -> None:
    source = dump(write_pages(tmp_path / "wiki", 1, 2))
    (tmp_path / "wiki" / "2.json").write_text("{")
    synced(tmp_path, "eng", source)
    found = found_by(config_of(tmp_path, eng=source))["sync eng"]
    assert (found.state, "1 failed" in found.detail, "2.json: not valid JSON" in found.detail) == ("warn", True, True)


def test_a_machine_that_only_serves_asks_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_checks, "find_spec", lambda _: None)
    found = found_by(config_of(tmp_path, eng=dump(tmp_path / "gone")))
    assert found["source eng"].state == "ok"
    assert "does not build" in found["source eng"].detail


def test_without_sources_that_is_said(tmp_path: Path) -> None:
    assert [finding.state for finding in examine(config_of(tmp_path))] == ["warn"]


def test_one_source_that_hangs_does_not_keep_the_others_from_answering() -> None:
    hang = threading.Event()
    calls = {"slow": lambda: Reach("ok", str(hang.wait(60))), "fast": lambda: Reach("ok", "there")}
    assert answers_within(calls, 0.5) == {"fast": Reach("ok", "there")}
    hang.set()


def test_no_secret_is_printed(monkeypatch: pytest.MonkeyPatch, wiki: StandIn) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "s3cret-word")
    command = ["npx", "server", "--token", "t0ken-word"]
    mcp = server(command=command, env=["TOKEN_OF_MINE"])
    told = without_secrets(f"the MCP server {' '.join(command)} says\ns3cret-word", mcp)
    assert told == "the MCP server npx says ***"
    by_url = server("https://user:pw@mcp.example/mcp?key=t0ken-word", token_env="TOKEN_OF_MINE")
    assert without_secrets(f"at {by_url.url} s3cret-word", by_url) == "at https://mcp.example/mcp ***"
    site_of_mine = site(wiki, base_url="https://ann:pw@wiki.example/wiki")
    answered = without_secrets("https://ann:pw@wiki.example/wiki answered", site_of_mine)
    assert answered == "https://wiki.example/wiki answered"
    assert module._site("https://ann:pw@wiki.example:8443/wiki/?x=1") == "https://wiki.example:8443/wiki"


def test_a_folder_of_documents_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    settings = Files(kind="files", tenant="acme", path=tmp_path, readers="everyone")
    found = reach("docs", settings)
    assert (found.state, found.detail) == ("ok", f"1 files in {tmp_path}")
    closed = reach("docs", settings.model_copy(update={"readers": "from_source"}))
    assert (closed.state, "sources.docs.readers" in closed.mend) == ("fail", True)
    gone = reach("docs", settings.model_copy(update={"path": tmp_path / "gone"}))
    assert (gone.state, gone.mend) == (
        "fail",
        "set sources.docs.path to a folder or zip of documents, or to s3://BUCKET/PREFIX",
    )
    assert reach("inbox", Files(kind="files", tenant="acme")).state == "ok"


def test_pictures_and_settings_of_a_site_are_no_fault_of_its_sync(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.md").write_text("# A\n\nWords.\n")
    (site / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    source = DocsFolder(kind="docs_folder", tenant="acme", path=site, readers="everyone")
    synced(tmp_path, "docs", source)
    found = found_by(config_of(tmp_path, docs=source))
    assert [one.state for one in found.values()] == ["ok", "ok"]
