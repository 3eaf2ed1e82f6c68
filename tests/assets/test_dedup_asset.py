"""The asset `dedup_map` in the publish job: what is dropped, what the kept chunk remembers, what people are told."""

from __future__ import annotations

from support.envelopes import SECTION, Wiki, envelope
from test_build_command import build_json
from test_jobs import Project, project  # noqa: F401

from rag_assets.state.signature_cache import FILE
from rag_serving.artifacts.schema import DEDUP_MAP
from rag_serving.artifacts.store import read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation

TEXT = (
    "Before the failover the engineer on call tells the harbour master, stops the scheduler, and waits until the "
    "replica has caught up with the primary. Then the old primary is fenced, or two berth plans exist."
)
BODY = SECTION.format(heading="Promote a replica", text=TEXT)


def write_twins(wiki: Wiki) -> None:
    older = envelope("301", "Failover", BODY, version=2)
    older["space"] = {"key": "OPS", "name": "Operations"}
    wiki.write("eng", envelope("300", "Failover", BODY, version=5))
    wiki.write("ops", older)


def test_the_newer_of_two_twins_is_indexed_and_remembers_the_other(project: Project) -> None:  # noqa: F811
    write_twins(project.wiki)
    made = project.build()
    found = read_table(project.store.tenant("demo") / "dedup_map.parquet", DEDUP_MAP).to_pylist()
    assert found == [{"dropped_id": "301:2:0", "kept_id": "300:5:0", "jaccard": 1.0, "scope": "across_spaces"}]
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


def test_a_page_of_which_nothing_is_left_is_explained_and_the_generation_published(project: Project) -> None:  # noqa: F811
    write_twins(project.wiki)
    made = project.build()
    assert made["dedup_map"]["why_left_out"] == {"near-duplicate": 1}
    assert made["generation"]["pages"] == {"eng": 3, "ops": 1}


def test_duplicates_stay_where_dropping_them_is_switched_off(project: Project) -> None:  # noqa: F811
    write_twins(project.wiki)
    project.wiki.configure(ingestion={"dedup_enabled": False})
    made = project.build()
    assert made["dedup_map"]["duplicates_dropped"] == 0
    assert made["generation"]["chunks"] == 6


def test_only_new_texts_are_fingerprinted_and_a_deleted_cache_changes_nothing(project: Project) -> None:  # noqa: F811
    write_twins(project.wiki)
    first = project.build()["dedup_map"]
    project.wiki.write("eng", envelope("302", "Another", SECTION.format(heading="One", text="A text of its own.")))
    second = project.build()["dedup_map"]
    assert (first["fingerprints_computed"], second["fingerprints_computed"]) == (5, 1)
    (project.store.cache("demo") / FILE).unlink()
    third = project.build()["dedup_map"]
    assert (third["fingerprints_computed"], third["scopes"]) == (6, first["scopes"])


def test_the_summary_tells_what_the_published_generation_left_out_whether_or_not_it_was_built_now(wiki: Wiki) -> None:
    write_twins(wiki)
    first, second = build_json(wiki), build_json(wiki)
    assert first["tenants"]["demo"]["duplicates_dropped"] == 1
    assert second["tenants"]["demo"]["duplicates_dropped"] == 1
    assert not second["tenants"]["demo"]["published"]
