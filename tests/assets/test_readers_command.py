"""`citelock readers explain`, over the tables that a sync and a build leave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sources.stand_in_mcp import SITE
from sources.stand_in_site import page
from support.synthetic import MODEL, chunk_row
from typer.testing import CliRunner

from rag_assets.publishing.build import build_generation
from rag_assets.sources import open_source
from rag_assets.state.records import write_sync
from rag_serving.artifacts.schema import CHUNKS, GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, write_table
from rag_serving.cli.main import app
from rag_serving.config.loading import load_config
from rag_serving.indexes.catalog import move_current

PAGES = (
    page(1, "Home"),
    page(2, "Harbour", parents=[1], groups=["ops"]),
    page(3, "Crane limits", parents=[1, 2], groups=["hr"], users=["ann"]),
    page(4, "Draft", status="draft"),
    page(5, "Menu", parents=[1]),
)


class Home:
    """A synced and published wiki of two sources."""

    def __init__(self, folder: Path) -> None:
        self.config_path = folder / "app.yaml"
        self.folder = folder
        for key, pages in {"eng": PAGES, "ops": (page(7, "Menu", space="OPS"),)}.items():
            (folder / key).mkdir(parents=True)
            for one in pages:
                told = json.dumps({**one, "_links": {"base": SITE, "webui": f"/spaces/ENG/pages/{one['id']}/T"}})
                (folder / key / f"{one['id']}.json").write_text(told, encoding="utf-8")
        self.configure(["group:staff"])
        config, store = load_config(self.config_path), Store(folder / "home")
        for key, source in config.sources.items():
            result = open_source(key, source, folder).sync(None, {})
            write_sync(store.source(key), None, result)
            rows = [dict(_chunk(row)) for row in result.pages.to_pylist()]
            write_table(store.source(key) / "chunks.parquet", CHUNKS.table([*rows]), CHUNKS)
        table = GENERATION_CHUNKS.table([chunk_row("2", 0, "Old.", readers="group:staff"), chunk_row("1", 0, "Home.")])
        vectors = np.eye(2, 32, dtype=np.float32)
        generation = build_generation(store, "acme", table, vectors, config, MODEL)
        generation.close()
        move_current(store, "acme", generation.id, config)

    def configure(self, readers: list[str] | str) -> None:
        usual = {"kind": "confluence_dump", "tenant": "acme", "id_prefix": ""}
        sources = {
            "eng": {**usual, "path": str(self.folder / "eng"), "readers": readers},
            "ops": {**usual, "path": str(self.folder / "ops"), "readers": "everyone", "id_prefix": "kb."},
        }
        content = {"home": str(self.folder / "home"), "tenants": {"acme": {}}, "sources": sources}
        self.config_path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def explain(self, *arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["readers", "explain", *arguments, "--config", str(self.config_path)])
        return result.exit_code, result.stdout, result.stderr

    def told(self, *arguments: str) -> dict[str, Any]:
        code, out, err = self.explain(*arguments, "--json")
        assert (code, err) == (0, "")
        (one,) = json.loads(out)["pages"]
        assert isinstance(one, dict)
        return one


def _chunk(row: Mapping[str, Any]) -> Mapping[str, object]:
    """One passage a page; that of page 5 shows text of page 3."""
    shown = row["page_id"] == "5"
    readers = "group:hr|user:ann&group:ops&group:staff" if shown else row["readers"]
    made = {
        **chunk_row(row["page_id"], 0, "Text.", readers=readers),
        "content_hash": "",
        "page_readers": row["readers"],
    }
    return {name: made.get(name) for name in CHUNKS.columns.names} | {"included_from": "3" if shown else ""}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def home(built: Home) -> Home:
    built.configure(["group:staff"])
    return built


def test_every_restriction_is_named_with_where_it_comes_from(home: Home) -> None:
    code, out, err = home.explain("3")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines == [
        "Crane limits (page 3, source eng, space ENG, version 1)",
        f"{SITE}/spaces/ENG/pages/3/T",
        "who may read it: (group:hr or user:ann or user:id-ann) and group:ops and group:staff",
        "configuration group:staff sources.eng.readers",
        "ancestor group:ops restriction of page 2 “Harbour”",
        "page group:hr or user:ann or user:id-ann restriction",
        "note: the published generation does not have it; `citelock build` publishes what was synced",
    ]


def test_somebody_is_told_what_keeps_him_out_or_that_he_may_read_it(home: Home) -> None:
    _, out, _ = home.explain("3", "--user", "ann", "--group", "staff")
    assert "group:staff, user:ann may not read it: ancestor (restriction of page 2 “Harbour”)" in out
    told = home.told("3", "--user", "ann", "--group", "staff")
    assert told["may_read"] is False
    assert [(level["where"], level["lets_in"]) for level in told["levels"]] == [
        ("configuration", True),
        ("ancestor", False),
        ("page", True),
    ]
    assert told["levels"][1] == {
        "where": "ancestor",
        "readers": [["group:ops"]],
        "reason": "restriction of page 2 “Harbour”",
        "page_id": "2",
        "lets_in": False,
    }
    assert home.told("3", "--user", "ann", "--group", "staff", "--group", "ops")["may_read"] is True
    assert home.told("3")["may_read"] is None


@pytest.mark.parametrize(
    "named",
    [
        "2",
        "Harbour",
        " harbour ",
        f"{SITE}/spaces/ENG/pages/2/T",
        f"{SITE}/spaces/ENG/pages/2/Other#x",
        f"{SITE}/pages/viewpage.action?pageId=2",
    ],
)
def test_a_page_is_named_by_id_title_or_address(home: Home, named: str) -> None:
    assert home.told(named)["page_id"] == "2"


def test_pages_of_the_same_title_are_all_explained_and_an_id_may_lack_its_prefix(home: Home) -> None:
    code, out, _ = home.explain("Menu", "--json")
    assert code == 0
    assert [one["page_id"] for one in json.loads(out)["pages"]] == ["5", "kb.7"]
    assert home.told("7")["readers"] == home.told("kb.7")["readers"] == "everyone"


def test_what_is_published_and_what_passages_show_is_told(home: Home) -> None:
    notes = home.told("2")["notes"]
    assert notes == ["the published generation still shows it to: group:staff; `citelock build eng` publishes it anew"]
    told = home.told("5")
    assert told["passages"] == {"count": 1, "narrower": 1, "shown_from": ["3"]}
    assert told["notes"][0] == "1 of 1 passages show text of page 3 and need its readers, too"


def test_readers_that_were_configured_since_are_told(home: Home) -> None:
    home.configure(["group:hr"])
    assert "`citelock build eng` applies it" in home.told("2")["notes"][0]


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("4", "page '4' is not indexed: eng: its status is 'draft', not 'current'"),
        ("crane", "no synced page is 'crane'; did you mean 'Crane limits'?"),
        ("Hrabour", "did you mean 'Harbour'?"),
        ("999", "name it by id, title or address"),
        ("", "name it by id, title or address"),
    ],
)
def test_a_page_that_is_not_there_says_why_or_what_is_near(home: Home, named: str, told: str) -> None:
    code, out, err = home.explain(named)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert told in err


def test_a_home_without_a_sync_says_so(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(f"home: {tmp_path}\ntenants: {{acme: {{}}}}\n")
    result = CliRunner().invoke(app, ["readers", "explain", "1", "--config", str(path)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
