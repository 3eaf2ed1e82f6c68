"""The facts of pages in a real build: what they tell of each page, when a build makes them again, for whom."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow.parquet as pq
from support.building import build, build_json
from support.envelopes import Wiki, envelope, write_twins

from rag_assets.publishing.publish import publish_narrowed
from rag_assets.publishing.repair import repair
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.set_tables import DUPLICATES_FILE, FACTS_FILE
from rag_serving.records.sets import SetTables


def tables(wiki: Wiki) -> SetTables:
    """What everybody may see of the published generation."""
    store = Store(wiki.home)
    generation = Generation.open(store, "demo", store.current("demo") or "", load_config(wiki.config_path))
    found = generation.for_reader(Principal("demo")).set_tables()
    generation.close()
    assert found is not None
    return found


def facts(wiki: Wiki) -> dict[str, dict[str, Any]]:
    return {row["page_id"]: row for row in tables(wiki).pages.to_pylist()}


def written_by(wiki: Wiki, author: str) -> None:
    page = envelope("101", "Deploy guide", "<p>See <ac:link><ri:page ri:content-title='Empty' /></ac:link> first.</p>")
    page["version"]["by"] = {"type": "known", "displayName": author}
    wiki.write("eng", page)


def test_every_page_of_the_generation_has_its_facts_and_every_text_its_row(wiki: Wiki) -> None:
    write_twins(wiki)
    written_by(wiki, "Ann Lee")
    wiki.write("eng", envelope("103", "Empty", "", labels=["howto"]))
    wiki.write("eng", envelope("104", "Draft", "<p>Not for the index.</p>", labels=["draft"]))
    wiki.write("eng", envelope("105", "Long", "<p>Words.</p><h2>End</h2><p>Back to top</p>"))
    wiki.configure(ingestion={"drop_labels": ["Draft"]})
    assert build_json(wiki)["tenants"]["demo"]["duplicates_dropped"] == 1
    found = facts(wiki)
    assert sorted(found) == ["101", "102", "103", "105", "201", "300", "301"]
    assert (found["101"]["author"], found["102"]["author"]) == ("Ann Lee", None)
    assert (found["101"]["space_name"], found["101"]["words"]) == ("Engineering", 3)
    assert found["101"]["links"] == [{"page_id": "103", "url": None}]
    assert (found["103"]["labels"], found["103"]["words"], found["103"]["kind"]) == (["howto"], 0, "page")
    texts = {row["chunk_id"]: row for row in tables(wiki).texts.to_pylist()}
    assert texts["301:2:0"]["text"] == texts["300:5:0"]["text"]
    assert (texts["105:1:1"]["text"], found["105"]["words"]) == ("Back to top", 4)  # boilerplate, which is not indexed
    assert (texts["301:2:0"]["space"], texts["301:2:0"]["structure"]) == ("OPS", texts["300:5:0"]["structure"])


def test_an_edit_that_changes_no_chunk_is_published(built_wiki: Wiki) -> None:
    assert not build_json(built_wiki)["tenants"]["demo"]["published"]
    built_wiki.write("eng", envelope("105", "Just a title", ""))
    assert build_json(built_wiki)["tenants"]["demo"]["published"]
    assert "105" in facts(built_wiki)


def test_a_home_of_an_older_program_goes_on_and_has_facts_after_a_build(built_wiki: Wiki) -> None:
    """Its pages have no columns for author and name of the space, and its generation has no facts."""
    store = Store(built_wiki.home)
    for key in ("eng", "ops"):
        path = store.source(key) / "pages.parquet"
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["author", "space_name"]), path)
        read = read_table(path, PAGES)
        assert read.column_names == PAGES.columns.names
        assert read["author"].null_count == len(read)
        assert read_table(path, PAGES, ["author", "page_id"]).column_names == ["author", "page_id"]
    written_by(built_wiki, "Ann Lee")
    build(built_wiki)
    assert facts(built_wiki)["101"]["author"] == "Ann Lee"


def test_pages_that_nobody_may_read_any_more_leave_the_facts_without_a_build(twins: Wiki) -> None:
    wiki = twins
    store, config = Store(wiki.home), load_config(wiki.config_path)
    path = store.source("ops") / "pages.parquet"
    pages = read_table(path, PAGES)
    hidden = ["nobody" if one == "301" else readers for one, readers in _readers(pages)]
    place = pages.schema.get_field_index("readers")
    pq.write_table(pages.set_column(place, pages.schema.field(place), [hidden]), path)
    assert publish_narrowed(config, "demo") is not None
    found = tables(wiki)
    assert "301" not in found.pages["page_id"].to_pylist()
    assert "300" in found.pages["page_id"].to_pylist()
    assert "301:2:0" not in found.texts["chunk_id"].to_pylist()
    assert publish_narrowed(config, "demo") is None


def _readers(pages: Any) -> list[tuple[str, str]]:
    return list(zip(pages["page_id"].to_pylist(), pages["readers"].to_pylist(), strict=True))


def test_damaged_facts_are_restored_from_the_last_build_or_made_again(built_wiki: Wiki) -> None:
    store, config = Store(built_wiki.home), load_config(built_wiki.config_path)
    current = store.current("demo") or ""
    folder = store.generation("demo", current)
    before = facts(built_wiki)
    damaged = [folder / name for name in (DUPLICATES_FILE, FACTS_FILE)]
    for path in damaged:
        path.write_bytes(b"damaged")
    assert repair(store, "demo", current, config).restored == (DUPLICATES_FILE, FACTS_FILE)
    shutil.rmtree(store.candidate("demo"))
    for path in damaged:
        path.unlink()
    assert len(repair(store, "demo", current, config).left) == 2
    build(built_wiki)
    assert store.current("demo") == current
    assert facts(built_wiki) == before
