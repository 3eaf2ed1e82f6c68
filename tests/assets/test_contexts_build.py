"""Contexts of a language model through the whole publish job."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc
import pytest
from model_of_contexts import good_context
from support.building import BuiltAs, build_json
from support.envelopes import DEPLOY, Wiki, envelope
from support.stand_in_chat import MODEL, StandInChat, served

from rag_assets.llm_contexts import servers
from rag_assets.making import Making
from rag_assets.making.selections import make_contexts
from rag_assets.progress import Reporter
from rag_serving.artifacts.schema import CONTEXTS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation
from rag_serving.models.protocols import ModelError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInChat]:
    monkeypatch.setattr(servers, "BACKOFF_S", 0.01)
    with served(StandInChat(good_context)) as stand_in:
        yield stand_in


@pytest.fixture
def modelled(wiki: Wiki, server: StandInChat) -> Wiki:
    """The tiny wiki with a model for its contexts."""
    wiki.configure(context=model_at(server))
    return wiki


@pytest.fixture
def written(built_as: BuiltAs, server: StandInChat) -> Wiki:
    """The tiny wiki whose contexts a model wrote, published; the model's server is another one now."""

    def prepare(wiki: Wiki) -> None:
        wiki.configure(context=model_at(server))

    wiki = built_as("wiki_with_written_contexts", prepare)
    server.requests.clear()
    prepare(wiki)
    return wiki


def model_at(server: StandInChat) -> dict[str, Any]:
    return {"provider": "ollama", "model": MODEL, "base_url": server.url, "timeout_s": 5}


def published(wiki: Wiki) -> Generation:
    store = Store(wiki.home)
    return Generation.open(store, "demo", store.current("demo") or "", load_config(wiki.config_path))


def levels(wiki: Wiki) -> dict[str, int]:
    table = read_table(Store(wiki.home).candidate("demo") / "contexts.parquet", CONTEXTS)
    return {row["values"]: row["counts"] for row in pc.value_counts(table["level"]).to_pylist()}


def test_what_the_model_wrote_is_searched_and_never_quoted(written: Wiki) -> None:
    assert levels(written) == {"llm": 4}
    generation = published(written)
    try:
        row = generation.table.to_pylist()[0]
        assert "It tells of" in row["prefix"]
        assert "It tells of" in row["lexical_prefix"]
        assert "It tells of" not in row["text"]
        assert generation.manifest.settings["context"]["levels"] == {"llm": 4}
    finally:
        generation.close()


def test_every_context_says_who_wrote_it_and_when_which_names_no_generation(written: Wiki) -> None:
    table = read_table(Store(written.home).candidate("demo") / "contexts.parquet", CONTEXTS)
    for row in table.to_pylist():
        assert (row["llm_provider"], row["llm_model"], row["document_type"]) == ("ollama", MODEL, "wiki page")
        assert datetime.now(UTC) - timedelta(hours=1) < row["generation_timestamp"] <= datetime.now(UTC)
        weights = {"length_score": 0.2, "relevance_score": 0.4, "coherence_score": 0.2, "specificity_score": 0.2}
        assert sum(weight * row[name] for name, weight in weights.items()) == pytest.approx(row["quality"], abs=1e-5)
        assert row["token_count"] > 60
    first = Store(written.home).current("demo")
    cache = Store(written.home).cache("demo") / "contexts.sqlite"
    with closing(sqlite3.connect(cache)) as database, database:
        database.execute("UPDATE contexts SET made_at = made_at - 86400")
    again = build_json(written, "--full")["tenants"]["demo"]
    table = read_table(Store(written.home).candidate("demo") / "contexts.parquet", CONTEXTS)
    assert max(table["generation_timestamp"].to_pylist()) < datetime.now(UTC) - timedelta(hours=23)
    assert (again["published"], again["shards_built"]) == (True, 0)
    assert again["generation"] == first


def test_a_changed_page_asks_only_about_its_changed_chunks(written: Wiki, server: StandInChat) -> None:
    written.write("eng", envelope("101", "Deploy guide", DEPLOY.replace("ten minutes", "an hour"), version=2))
    assert build_json(written)["tenants"]["demo"]["contexts_generated"] == 1
    assert len(server.requests) == 1
    assert build_json(written)["tenants"]["demo"]["published"] is False


def test_a_renamed_page_asks_no_model_for_contexts_and_embeds_its_own_texts_again(
    written: Wiki, server: StandInChat
) -> None:
    written.write("eng", envelope("101", "Release handbook", DEPLOY, version=2))
    summary = build_json(written)
    moved = envelope("101", "Release handbook", DEPLOY, version=3) | {"ancestors": [{"id": "102"}]}
    written.write("eng", moved)
    after = build_json(written)["tenants"]["demo"]
    assert (after["texts_embedded"], after["contexts_generated"], server.requests) == (0, 0, [])
    source, tenant = summary["sources"]["eng"], summary["tenants"]["demo"]
    assert (source["pages_changed"], source["pages_deleted"], source["chunks_new"]) == (1, 0, 0)
    assert (tenant["contexts_generated"], tenant["contexts_failed"]) == (0, 0)
    assert tenant["texts_embedded"] == 2  # the title is part of what is embedded; page 101 has two of the four chunks
    assert tenant["published"]
    generation = published(written)
    rows = [row for row in generation.table.to_pylist() if row["page_id"] == "101"]
    generation.close()
    assert [row["chunk_id"] for row in rows] == ["101:3:0", "101:3:1"]
    assert all(row["prefix"].startswith("Release handbook › ") and "It tells of" in row["prefix"] for row in rows)


def test_a_model_that_fails_costs_no_page_and_is_asked_again_on_request(modelled: Wiki, server: StandInChat) -> None:
    server.script = lambda _: [""]
    broken = build_json(modelled)["tenants"]["demo"]
    assert broken["published"]
    assert levels(modelled) == {"metadata": 4}
    server.script = good_context
    assert build_json(modelled)["tenants"]["demo"]["published"] is False
    server.requests.clear()
    again = build_json(modelled, "--retry-contexts")["tenants"]["demo"]
    assert (again["contexts_generated"], again["chunks"], len(server.requests)) == (4, 4, 4)
    assert again["published"]
    assert levels(modelled) == {"llm": 4}
    assert build_json(modelled, "--retry-contexts")["tenants"]["demo"]["published"] is False


def made_contexts(wiki: Wiki) -> dict[str, int]:
    """Return how many contexts of a build each level wrote."""
    config = load_config(wiki.config_path)
    making = Making("demo", config, Store(wiki.home), Reporter(), logging.getLogger())
    make_contexts(making)
    return levels(wiki)


def test_contexts_can_be_switched_off(written: Wiki, server: StandInChat) -> None:
    written.configure(context={"provider": "none"})
    assert made_contexts(written) == {"none": 4}
    assert not server.requests


def test_no_model_named_is_an_error_that_says_how_to_mend_it(built_wiki: Wiki) -> None:
    built_wiki.configure(context={"provider": "ollama"})
    with pytest.raises(ModelError, match=r"context\.model"):
        made_contexts(built_wiki)
