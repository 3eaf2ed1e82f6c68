"""A space by way of a real MCP server gives the rows of its pages and hides what it cannot judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sources.stand_in_mcp import SITE, make_server, over_http
from sources.stand_in_site import Envelope, page
from support.constants import section_of

from rag_assets.sources import SourceError, SyncResult, open_source
from rag_assets.sources.confluence_mcp import named_spaces
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceDump, ConfluenceMcp

SERVER = Path(__file__).parent / "stand_in_mcp.py"
TREE, RESTRICTIONS = "confluence_get_space_page_tree", "confluence_get_page_restrictions"


def write(folder: Path, *pages: Envelope) -> Path:
    folder.mkdir(exist_ok=True)
    for one in pages:
        (folder / f"{one['id']}.json").write_text(json.dumps({**one, "_links": {"base": SITE}}), encoding="utf-8")
    return folder


def sync(last: SyncResult | None = None, **given: Any) -> SyncResult:
    more = {"tenant": "acme", "space": "ENG", "readers": "everyone", "timeout_s": 20, **given}
    source = open_source("eng", section_of(ConfluenceMcp, kind="confluence_mcp", **more), Path("unused"))
    result = source.sync(last.pages if last else None, last.state if last else {})
    assert result.unaccounted == 0
    return result


def stdio(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(SERVER), str(folder), *arguments]


def column(result: SyncResult, name: str) -> dict[str, Any]:
    return dict(zip(result.pages["page_id"].to_pylist(), result.pages[name].to_pylist(), strict=True))


PAGES = (
    page(1, "Home"),
    page(2, "Harbour", parents=[1], groups=["ops"]),
    page(3, "Cranes", parents=[1, 2], body="<h2>Limits</h2><p>20 m/s</p>"),
    page(4, "Empty", body=""),
)


def rows_of_dump(folder: Path) -> list[dict[str, Any]]:
    settings = ConfluenceDump(kind="confluence_dump", tenant="acme", path=folder, readers="everyone")
    rows = open_source("eng", settings, folder).sync(None, {}).pages.to_pylist()
    return [{**row, "ancestor_titles": None} for row in rows]


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("style", ["atlassian", "envelopes"])
def test_a_server_gives_the_rows_of_the_dump_of_its_pages(tmp_path: Path, way: str, style: str) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    if way == "stdio":
        result = sync(command=stdio(folder, style))
    else:
        with over_http(make_server(folder, style)) as url:
            result = sync(url=url)
    found = [{**row, "ancestor_titles": None} for row in result.pages.to_pylist()]
    assert found == rows_of_dump(folder)
    assert (result.seen, result.failed, result.hidden, result.notes) == (4, 0, (), ())
    assert column(result, "readers")["3"] == "group:ops"


def test_a_space_is_listed_by_searches_where_there_is_no_tree(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *(page(number) for number in range(1, 9)))
    with over_http(make_server(folder, "envelopes", without=(TREE,))) as url:
        result = sync(url=url)
    assert len(result.pages) == result.seen == 8


def test_markdown_answers_become_pages_with_their_sections(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    (folder / "spaces").touch()
    with over_http(make_server(folder, "markdown")) as url:
        result = sync(url=url, base_url=SITE)
    assert set(column(result, "body_format").values()) == {"markdown"}
    assert column(result, "title")["3"] == "Cranes"
    found = build_sections(result.pages)
    assert found.failures == []
    assert {"Text of page 3."} <= set(found.sections["text"].to_pylist())


def test_without_a_word_of_restrictions_nobody_reads_unless_it_is_said_that_there_are_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", page(1), page(2, groups=["ops"]))
    with over_http(make_server(folder, without=(RESTRICTIONS,))) as url:
        hidden = sync(url=url)
        opened = sync(url=url, unrestricted=True)
    assert set(column(hidden, "readers").values()) == {NOBODY}
    assert "sources.eng.unrestricted" in hidden.notes[0]
    assert set(column(opened, "readers").values()) == {EVERYONE}


def test_without_a_tree_the_ancestors_are_not_known_and_hide(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", page(1))
    with over_http(make_server(folder, without=(TREE,))) as url:
        result = sync(url=url)
    assert column(result, "readers") == {"1": NOBODY}
    assert result.hidden == (("1", "its ancestors are not known"),)


def test_a_page_that_the_server_does_not_give_keeps_its_last_version_and_readers(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    with over_http(make_server(folder)) as url:
        first = sync(url=url)
        (folder / "2.broken").touch()
        second = sync(first, url=url)
        alone = sync(url=url)
    assert (second.changed, second.deleted, second.failed) == (0, 0, 1)
    assert second.pages.equals(first.pages)
    assert second.failures[0][1].startswith("the server says: Failed to retrieve page")
    assert column(alone, "readers")["3"] == NOBODY


def test_where_the_list_tells_versions_only_changed_pages_are_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    (folder / "versions").touch()
    (folder / "spaces").touch()
    log = folder / "read.log"
    with over_http(make_server(folder)) as url:
        first = sync(url=url)
        write(
            folder,
            page(2, "Harbour", groups=["hq"]),
            page(3, "Cranes", parents=[2], version={"number": 2, "when": None}),
        )
        log.unlink()
        second = sync(first, url=url)
        assert log.read_text() == "3 "
        assert column(second, "readers") == {"1": EVERYONE, "2": "group:hq", "3": "group:hq", "4": EVERYONE}
        assert second.pages.equals(sync(url=url).pages)
        log.unlink()
        sync(second, url=url, base_url=SITE)
        assert log.read_text() == "1 2 3 4 "
    with over_http(make_server(folder, without=(RESTRICTIONS,))) as url:
        log.unlink()
        sync(sync(url=url), url=url)
        assert log.read_text() == "1 2 3 4 1 2 3 4 "
    (folder / "spaces").unlink()
    with over_http(make_server(folder)) as url:
        log.unlink()
        sync(sync(url=url), url=url)
        assert log.read_text() == "1 2 3 4 1 2 3 4 ", "a page may have moved to another space in the same version"


SALARIES = page(9, "Salaries", space="HR", body="<p>Ann earns 90,000 euros.</p>")


@pytest.mark.parametrize("listing", ["tree", "search"])
@pytest.mark.parametrize("style", ["atlassian", "envelopes"])
def test_a_page_of_another_space_is_not_taken_whatever_the_server_lists(
    tmp_path: Path, listing: str, style: str
) -> None:
    folder = write(tmp_path / "wiki", *PAGES, SALARIES)
    server = make_server(folder, style, without=(TREE,) if listing == "search" else ())
    with over_http(server) as url:
        result = sync(url=url)
    assert sorted(column(result, "space")) == ["1", "2", "3", "4"]
    assert result.excluded == (("9", "it belongs to space 'hr', not 'ENG'"),)
    assert "left out: 1 (page 9: it belongs to space 'hr', not 'ENG')" in " ".join(result.notes)
    asked = (folder / "read.log").read_text().split()
    assert ("9" in asked) == (listing == "tree"), "what the list names is not even asked for"


def test_a_page_whose_space_nothing_names_is_not_taken(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    with over_http(make_server(folder, "markdown")) as url:
        result = sync(url=url, base_url=SITE)
    assert len(result.pages) == 0
    assert dict(result.excluded)["3"] == "the server does not say which space it belongs to"
    assert "update the server" in " ".join(result.notes)


def test_a_page_that_moved_to_another_space_goes_and_a_server_that_stops_naming_spaces_empties_nothing(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "wiki", *(page(number) for number in range(1, 9)))
    (folder / "spaces").touch()
    with over_http(make_server(folder, "markdown")) as url:
        first = sync(url=url, base_url=SITE)
        write(folder, page(8, space="HR"))
        second = sync(first, url=url, base_url=SITE)
        assert (second.deleted, sorted(column(second, "space"))) == (1, [str(one) for one in range(1, 8)])
        (folder / "spaces").unlink()
        with pytest.raises(SourceError, match=r"7 of 7 pages .* does not say which space"):
            sync(second, url=url, base_url=SITE)


@pytest.mark.parametrize(
    ("told", "keys"),
    [
        ({"space": {"key": "ENG", "alias": "eng2"}}, {"eng", "eng2"}),
        ({"space": "Eng"}, {"eng"}),
        ({"space_key": "ENG"}, {"eng"}),
        ({"_expandable": {"space": "/rest/api/space/~ann"}}, {"~ann"}),
        ({"url": "https://a.example/wiki/spaces/ENG/pages/7/T"}, {"eng"}),
        ({"_links": {"webui": "/display/%7Eann/Home"}}, {"~ann"}),
        ({"space": {"key": "HR"}, "url": "https://a.example/wiki/spaces/ENG/pages/7/T"}, {"hr"}),
        ({"url": "https://a.example/pages/viewpage.action?pageId=7", "space": {"key": 7}}, set()),
    ],
)
def test_a_space_is_named_by_its_fields_or_by_the_address_of_the_page(told: dict[str, Any], keys: set[str]) -> None:
    assert named_spaces(told) == keys


def test_deletions_are_believed_up_to_a_share(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *(page(number) for number in range(1, 21)))
    with over_http(make_server(folder)) as url:
        first = sync(url=url)
        (folder / "20.json").unlink()
        second = sync(first, url=url)
        assert (second.deleted, len(second.pages)) == (1, 19)
        for number in range(8, 20):
            (folder / f"{number}.json").unlink()
        with pytest.raises(SourceError, match="max_deleted_share"):
            sync(second, url=url)
        assert sync(second, url=url, max_deleted_share=1).deleted == 12


def test_a_list_that_is_cut_deletes_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    (folder / "has_more").touch()
    with over_http(make_server(folder)) as url, pytest.raises(SourceError, match="only the first 1000 pages"):
        sync(url=url)


def test_names_of_tools_can_be_set(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    server = make_server(folder, without=("confluence_get_page",))

    def read_page(id: str) -> str:
        """Get a page under another name, by another argument."""
        return json.dumps(json.loads((folder / f"{id}.json").read_text()))

    server.tool()(read_page)
    with over_http(server) as url:
        with pytest.raises(SourceError, match=r"no tool 'confluence_get_page'; set tools.page .*read_page"):
            sync(url=url)
        assert len(sync(url=url, tools={"page": "read_page"}).pages) == 4


def test_the_token_is_sent_and_its_lack_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    with over_http(make_server(folder), token="s3cret") as url:
        with pytest.raises(SourceError, match="cannot be reached") as caught:
            sync(url=url)
        assert "\n" not in str(caught.value)
        with pytest.raises(SourceError, match="MCP_TOKEN is not set"):
            sync(url=url, token_env="MCP_TOKEN")
        monkeypatch.setenv("MCP_TOKEN", "s3cret")
        assert len(sync(url=url, token_env="MCP_TOKEN").pages) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"command": ["no-such-command-anywhere"]}, "cannot be reached"),
        ({"command": [sys.executable, "-c", "raise SystemExit(2)"]}, "cannot be reached"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
    ],
)
def test_a_server_that_is_not_there_is_one_clear_error(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SourceError, match=told) as caught:
        sync(**given, timeout_s=5)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", ["die", "slow"])
def test_a_server_that_dies_or_sleeps_changes_nothing(tmp_path: Path, fault: str) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    (folder / fault).touch()
    with pytest.raises(SourceError, match="the MCP server failed at confluence_get_page") as caught:
        sync(command=stdio(folder), timeout_s=6)
    assert "\n" not in str(caught.value)


def test_an_error_of_the_list_names_the_space(tmp_path: Path) -> None:
    folder = write(tmp_path / "wiki", *PAGES)
    with over_http(make_server(folder)) as url, pytest.raises(SourceError, match="cannot list space 'HR'"):
        sync(url=url, space="HR")


def test_without_the_package_the_error_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SourceError, match=r"citelock\[mcp\]"):
        sync(command=stdio(tmp_path))


def test_a_source_has_either_a_command_or_a_url() -> None:
    wrong: list[dict[str, Any]] = [{}, {"command": ["a"], "url": "http://127.0.0.1/mcp"}]
    for given in wrong:
        with pytest.raises(ValueError, match="either a command or a url"):
            sync(**given)
