"""The tables of queries over sets, of a small generation: order, readers, what is kept in memory, old generations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import MODEL, TENANT, chunk_row, clustered_vectors, config_for

from rag_assets.making.selections import page_facts
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import CHUNKS, DUPLICATES, GENERATION_CHUNKS, PASSAGE_COLUMNS
from rag_serving.artifacts.store import Store
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.set_tables import DUPLICATES_FILE, FACTS_FILE, Facts
from rag_serving.records.sets import SetTables

STAFF, ANYBODY = Principal(TENANT, "ann", frozenset({"staff"})), Principal(TENANT)
BOTH = Principal(TENANT, "ann", frozenset({"staff", "board"}))


def page(page_id: str, readers: str = "everyone", **fields: Any) -> dict[str, Any]:
    return {
        "page_id": page_id,
        "version": 1,
        "title": f"Page {page_id}",
        "space": "ENG",
        "space_name": None,
        "url": f"https://wiki.example/pages/{page_id}/Page",
        "status": "current",
        "updated_at": datetime(2024, 5, 1, tzinfo=UTC),
        "labels": None,
        "ancestors": [],
        "ancestor_titles": [],
        "author": None,
        "source": "eng",
        "kind": "page",
        "category": None,
        "lang": None,
        "readers": readers,
        **fields,
    }


def link(target: str, kind: str = "page") -> dict[str, str]:
    return {"text": "see", "kind": kind, "target": target, "space": "", "anchor": ""}


PAGES = [
    page("3", "group:staff", ancestors=["2", "1"], ancestor_titles=["Two", "One"]),
    page("2", "group:board"),
    page("1", author="Ann", space_name="Engineering"),
    page("4", "group:staff", title="Empty"),
]
LINKS = {
    "3": [
        link("Page 2"),
        link("page 1"),
        link("Page 1"),
        link("No such page"),
        link("https://wiki.example/pages/2", "url"),
        link("https://wiki.example/wiki/pages/1#above", "url"),
        link("#here", "url"),
        link("Page 3"),
        link("plan.pdf", "file"),
    ]
}
CHUNK = [
    chunk_row("1", 1, "The second passage."),
    chunk_row("1", 0, "The first passage of page one."),
    chunk_row("3", 0, "Three for the staff.", readers="group:staff"),
    chunk_row("3", 1_000_000, "Text of page two.", readers="group:board&group:staff"),
    chunk_row("2", 0, "Two.", readers="group:board", source="ops"),
]
DROPPED = [chunk_row("1", 2, "The second passage!"), chunk_row("3", 1, "Three for staff.", readers="group:staff")]


def built(home: Path, facts: Facts | None) -> Generation:
    table = GENERATION_CHUNKS.table(CHUNK)
    vectors = clustered_vectors(len(table), dimension=8)
    return build_generation(Store(home), TENANT, table, vectors, config_for(home), MODEL, facts=facts)


@pytest.fixture
def facts() -> Facts:
    page_readers = {row["page_id"]: row["readers"] for row in PAGES}
    names = set(CHUNKS.columns.names) & set(CHUNK[0])
    texts = [
        {name: row[name] for name in names}
        | {"page_readers": page_readers[row["page_id"]], "content_hash": "", "included_from": None, "lang": "en"}
        for row in CHUNK + DROPPED
    ]
    dropped = [{name: row[name] for name in DUPLICATES.columns.names} for row in DROPPED]
    return Facts(page_facts(PAGES, LINKS, CHUNKS.table(texts)), DUPLICATES.table(dropped))


def tables(generation: Generation, who: Principal) -> SetTables:
    found = generation.for_reader(who).set_tables()
    assert found is not None
    return found


def ids(found: SetTables) -> tuple[list[str], list[str]]:
    return found.pages["page_id"].to_pylist(), found.texts["chunk_id"].to_pylist()


def test_each_reader_has_the_rows_of_its_classes_by_page_and_place(tmp_path: Path, facts: Facts) -> None:
    generation = built(tmp_path, facts)
    assert ids(tables(generation, ANYBODY)) == (["1"], ["1:1:0", "1:1:1", "1:1:2"])
    assert ids(tables(generation, STAFF)) == (["1", "3", "4"], ["1:1:0", "1:1:1", "1:1:2", "3:1:0", "3:1:1"])
    everything = tables(generation, BOTH)
    assert ids(everything) == (
        ["1", "2", "3", "4"],
        ["1:1:0", "1:1:1", "1:1:2", "2:1:0", "3:1:0", "3:1:1", "3:1:1000000"],
    )
    assert everything.classes == {"everyone", "group:staff", "group:board", "group:board&group:staff"}
    assert everything.texts.column_names == [*PASSAGE_COLUMNS]
    assert "readers" not in everything.pages.column_names
    assert everything.texts["text"].to_pylist()[2] == "The second passage!"
    assert ids(tables(generation, Principal("another", "ann", frozenset({"staff"})))) == ([], [])
    generation.close()


def test_a_page_tells_its_facts(tmp_path: Path, facts: Facts) -> None:
    generation = built(tmp_path, facts)
    one, two, three, four = tables(generation, BOTH).pages.to_pylist()
    assert (one["author"], one["space_name"], two["space_name"]) == ("Ann", "Engineering", "ENG")
    assert (one["words"], three["words"], four["words"]) == (6 + 3 + 3, 4 + 3, 0)  # none of text for fewer readers
    assert (one["lang"], four["lang"], four["labels"]) == ("en", None, [])
    assert three["links"] == [
        {"page_id": "2", "url": None},
        {"page_id": "1", "url": None},
        {"page_id": "2", "url": "https://wiki.example/pages/2"},
        {"page_id": "1", "url": "https://wiki.example/wiki/pages/1#above"},
    ]
    assert three["ancestors"] == ["2", "1"]
    generation.close()


def test_a_hidden_page_is_named_by_no_link_and_no_ancestor(tmp_path: Path, facts: Facts) -> None:
    generation = built(tmp_path, facts)
    three = tables(generation, STAFF).pages.to_pylist()[1]
    assert three["links"] == [
        {"page_id": "1", "url": None},
        {"page_id": None, "url": "https://wiki.example/pages/2"},
        {"page_id": "1", "url": "https://wiki.example/wiki/pages/1#above"},
    ]
    assert (three["ancestors"], three["ancestor_titles"]) == (["1"], ["One"])
    generation.close()


def test_tables_are_made_once_for_readers_of_the_same_classes(tmp_path: Path, facts: Facts) -> None:
    generation = built(tmp_path, facts)
    assert tables(generation, STAFF) is tables(generation, Principal(TENANT, "bob", frozenset({"staff", "ops"})))
    generation.close()


def test_threads_that_ask_at_once_have_the_same_tables(tmp_path: Path, facts: Facts) -> None:
    generation = built(tmp_path, facts)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tables(generation, STAFF), range(16)))
    assert all(one is found[0] for one in found)
    generation.close()


def test_a_generation_of_an_older_program_has_none(tmp_path: Path) -> None:
    generation = built(tmp_path, None)
    assert FACTS_FILE not in generation.manifest.files
    assert generation.for_reader(BOTH).set_tables() is None
    generation.close()


@pytest.mark.parametrize("name", [FACTS_FILE, DUPLICATES_FILE])
def test_altered_facts_are_not_believed(
    tmp_path: Path, facts: Facts, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    generation = built(tmp_path, facts)
    path = Store(tmp_path).generation(TENANT, generation.id) / name
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert generation.for_reader(BOTH).set_tables() is None
    assert f"{name} is not what the manifest says" in caplog.text
    generation.close()


def test_other_facts_make_another_generation(tmp_path: Path, facts: Facts) -> None:
    plain, first, second = (
        built(tmp_path, one) for one in (None, facts, facts._replace(duplicates=facts.duplicates.slice(0, 1)))
    )
    assert len({plain.id, first.id, second.id}) == 3
    for generation in (plain, first, second):
        generation.close()
