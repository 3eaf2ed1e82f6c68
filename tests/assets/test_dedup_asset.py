"""The asset `dedup_map` in the publish job: what is dropped, what the kept chunk remembers, what people are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from support.building import build_json
from support.envelopes import Wiki, write_twins
from support.project import Project

from rag_assets.state.content_cache import SIGNATURES_FILE
from rag_serving.artifacts.schema import DEDUP_MAP
from rag_serving.artifacts.store import read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation


@pytest.fixture
def project(twins: Wiki) -> Iterator[Project]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(twins, instance)


def test_the_newer_of_two_twins_is_indexed_and_remembers_the_other_whose_page_is_explained(project: Project) -> None:
    made = dedup_map(project)
    found = read_table(project.store.tenant("demo") / "dedup_map.parquet", DEDUP_MAP).to_pylist()
    assert found == [{"dropped_id": "301:2:0", "kept_id": "300:5:0", "jaccard": 1.0, "scope": "across_spaces"}]
    assert made["why_left_out"] == {"near-duplicate": 1}
    assert made["scopes"] == {"across_spaces": 1}
    assert "| OPS | 1 | 0 | 0 | 1 |" in made["effectiveness"]
    assert "data:image/png;base64," in made["dropped"]
    current = project.store.current("demo")
    assert current is not None
    generation = Generation.open(project.store, "demo", current, load_config(project.wiki.config_path))
    assert {source: pages.pages for source, pages in generation.manifest.pages.items()} == {"eng": 3, "ops": 1}
    row = generation.row_of("300:5:0")
    assert generation.row_of("301:2:0") is None
    assert row is not None
    assert [place["chunk_id"] for place in generation.table["places"][row].as_py()] == ["301:2:0"]
    generation.close()


def test_duplicates_stay_where_dropping_them_is_switched_off(project: Project) -> None:
    project.wiki.configure(ingestion={"dedup_enabled": False})
    made = dedup_map(project)
    assert (made["duplicates_dropped"], made["chunks_kept"]) == (0, 6)


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


def test_the_summary_tells_what_the_published_generation_left_out_though_it_was_not_built_now(twins: Wiki) -> None:
    told = build_json(twins)["tenants"]["demo"]
    assert (told["duplicates_dropped"], told["published"]) == (1, False)
