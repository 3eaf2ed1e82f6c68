"""The asset `dedup_map` in the publish job: what is dropped, what the kept chunk remembers, what people are told."""

from __future__ import annotations

from typing import Any

from support.building import build_json
from support.envelopes import Wiki, write_twins
from support.project import Project

from rag_assets.state.content_cache import SIGNATURES_FILE
from rag_serving.artifacts.schema import DEDUP_MAP
from rag_serving.artifacts.store import read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation


def test_the_newer_of_two_twins_is_indexed_and_remembers_the_other_whose_page_is_explained(project: Project) -> None:
    write_twins(project.wiki)
    made = project.build()
    found = read_table(project.store.tenant("demo") / "dedup_map.parquet", DEDUP_MAP).to_pylist()
    assert found == [{"dropped_id": "301:2:0", "kept_id": "300:5:0", "jaccard": 1.0, "scope": "across_spaces"}]
    assert made["dedup_map"]["why_left_out"] == {"near-duplicate": 1}
    assert made["generation"]["pages"] == {"eng": 3, "ops": 1}
    assert made["dedup_map"]["scopes"] == {"across_spaces": 1}
    assert "| OPS | 1 | 0 | 0 | 1 |" in made["dedup_map"]["effectiveness"]
    assert "data:image/png;base64," in made["dedup_map"]["dropped"]
    current = project.store.current("demo")
    assert current is not None
    generation = Generation.open(project.store, "demo", current, load_config(project.wiki.config_path))
    row = generation.row_of("300:5:0")
    assert generation.row_of("301:2:0") is None
    assert row is not None
    assert [place["chunk_id"] for place in generation.table["places"][row].as_py()] == ["301:2:0"]
    generation.close()


def test_duplicates_stay_where_dropping_them_is_switched_off(project: Project) -> None:
    write_twins(project.wiki)
    project.wiki.configure(ingestion={"dedup_enabled": False})
    made = project.build()
    assert made["dedup_map"]["duplicates_dropped"] == 0
    assert made["generation"]["chunks"] == 6


def test_only_new_texts_are_fingerprinted_and_a_deleted_cache_changes_nothing(built_project: Project) -> None:
    write_twins(built_project.wiki)
    assert all(built_project.run("ingest", source).success for source in ("eng", "ops"))
    counted = [dedup_map(built_project)["fingerprints_computed"] for _ in range(2)]
    (built_project.store.cache("demo") / SIGNATURES_FILE).unlink()
    assert [*counted, dedup_map(built_project)["fingerprints_computed"]] == [1, 0, 5]


def dedup_map(project: Project) -> dict[str, Any]:
    """What the asset says when it is made."""
    result = project.materialize("dedup_map")
    (made,) = result.asset_materializations_for_node("dedup_map")
    return {name: value.value for name, value in made.metadata.items()}


def test_the_summary_tells_what_the_published_generation_left_out_whether_or_not_it_was_built_now(wiki: Wiki) -> None:
    write_twins(wiki)
    first, second = build_json(wiki), build_json(wiki)
    assert first["tenants"]["demo"]["duplicates_dropped"] == 1
    assert second["tenants"]["demo"]["duplicates_dropped"] == 1
    assert not second["tenants"]["demo"]["published"]
