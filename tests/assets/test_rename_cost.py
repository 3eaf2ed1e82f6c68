"""What renaming or moving a page costs: chunks and contexts stay, under a new title its texts are embedded again."""

from __future__ import annotations

from model_of_contexts import good_context
from support.building import build_json
from support.envelopes import DEPLOY, Wiki, envelope
from support.stand_in_chat import MODEL, StandInChat, served

from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation


def test_a_renamed_page_asks_no_model_for_contexts_and_embeds_its_own_texts_again(wiki: Wiki) -> None:
    with served(StandInChat(good_context)) as server:
        wiki.configure(context={"provider": "ollama", "model": MODEL, "base_url": server.url, "timeout_s": 5})
        build_json(wiki)
        asked = len(server.requests)
        wiki.write("eng", envelope("101", "Release handbook", DEPLOY, version=2))
        summary = build_json(wiki)
        moved = envelope("101", "Release handbook", DEPLOY, version=3) | {"ancestors": [{"id": "102"}]}
        wiki.write("eng", moved)
        after = build_json(wiki)["tenants"]["demo"]
    assert (after["texts_embedded"], after["contexts_generated"], len(server.requests)) == (0, 0, asked)
    source, tenant = summary["sources"]["eng"], summary["tenants"]["demo"]
    assert (source["pages_changed"], source["pages_deleted"], source["chunks_new"]) == (1, 0, 0)
    assert (tenant["contexts_generated"], tenant["contexts_failed"], len(server.requests)) == (0, 0, asked)
    assert tenant["texts_embedded"] == 2  # the title is part of what is embedded; page 101 has two of the four chunks
    assert tenant["published"]
    store = Store(wiki.home)
    generation = Generation.open(store, "demo", store.current("demo") or "", load_config(wiki.config_path))
    rows = [row for row in generation.table.to_pylist() if row["page_id"] == "101"]
    generation.close()
    assert [row["chunk_id"] for row in rows] == ["101:3:0", "101:3:1"]
    assert all(row["prefix"].startswith("Release handbook › ") and "It tells of" in row["prefix"] for row in rows)
