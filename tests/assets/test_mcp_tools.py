"""Editors' tools over MCP: the context of a passage, and indexing anew in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client
from model_of_contexts import good_context
from support.envelopes import Wiki
from support.mcp_calls import call, talk
from support.stand_in_chat import MODEL, StandInChat, served
from support.waiting import wait_until

from rag_assets.llm_contexts import servers
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.mcp.calls import OneCaller
from rag_serving.mcp.server import build_server

EDITOR = Principal("demo", "eve", roles=frozenset({"reader", "editor"}))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInChat]:
    monkeypatch.setattr(servers, "BACKOFF_S", 0.01)
    with served(StandInChat(good_context)) as stand_in:
        yield stand_in


def server_of(wiki: Wiki, pipeline: Pipeline, principal: Principal = EDITOR, is_editor: bool = True) -> Any:
    return build_server(OneCaller(principal, pipeline), is_editor, wiki.config_path)


def a_passage(pipeline: Pipeline) -> str:
    return pipeline.search(EDITOR, "deploy", 1).results[0].chunk.chunk_id


def test_a_model_writes_the_context_of_one_passage(built_wiki: Wiki, model: StandInChat) -> None:
    built_wiki.configure(context={"provider": "ollama", "model": MODEL, "base_url": model.url, "timeout_s": 5})
    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        server, passage = server_of(built_wiki, pipeline), a_passage(pipeline)
        told = call(server, "generate_context", passage_id=passage).structured_content
        assert told["chunk_id"] == passage
        assert told["contextual_prefix"]
        assert told["contextualized_content"] == f"{told['contextual_prefix']}\n{told['original_content']}"
        assert 0 < told["quality"]["overall"] <= 1
        assert (told["llm_provider"], told["llm_model"]) == ("ollama", MODEL)
        assert len(model.requests) >= 1
        assert call(server, "generate_context", passage_id="14:9:0").is_error


def test_without_a_model_the_place_of_a_passage_is_its_context(built_wiki: Wiki) -> None:
    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        told = call(
            server_of(built_wiki, pipeline), "generate_context", passage_id=a_passage(pipeline)
        ).structured_content
    assert told["contextual_prefix"]
    assert told["quality"] is None


def test_an_editor_indexes_anew_and_hears_how_far_it_is(built_wiki: Wiki, model: StandInChat) -> None:
    built_wiki.configure(context={"provider": "ollama", "model": MODEL, "base_url": model.url, "timeout_s": 5})
    before, stages = Store(built_wiki.home).current("demo"), list[str]()

    async def note(*told: Any) -> None:
        stages.append(str(told[2]))

    async def work(client: Client) -> dict[str, Any]:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        annotations = tools["reindex_with_context"].annotations
        assert (annotations.read_only_hint, annotations.destructive_hint) == (False, False)
        result = await client.call_tool("reindex_with_context", progress_callback=note)
        jsonschema.validate(result.structured_content, tools["reindex_with_context"].output_schema)
        return dict(result.structured_content)

    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        told = talk(server_of(built_wiki, pipeline), work)
        assert told["status"] == "completed", told["lines"]
        assert told["published"]
        assert (told["generation_before"], told["generation"]) == (before, Store(built_wiki.home).current("demo"))
        assert stages
        assert all(stage.startswith("build") for stage in stages)
        found = call(server_of(built_wiki, pipeline), "search_with_contextual_retrieval", query="deploy")
        assert found.structured_content["passages"]
    assert model.requests


def test_a_build_ends_with_its_caller_and_what_is_published_stays(built_wiki: Wiki, model: StandInChat) -> None:
    model.pause_s = 30
    built_wiki.configure(context={"provider": "ollama", "model": MODEL, "base_url": model.url, "timeout_s": 60})
    before, others = Store(built_wiki.home).current("demo"), children()

    async def work(client: Client) -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "reindex_with_context")
                while not model.requests:
                    await anyio.sleep(0.05)
                group.cancel_scope.cancel()

    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        talk(server_of(built_wiki, pipeline), work)
        wait_until(lambda: children() <= others)
        assert Store(built_wiki.home).current("demo") == before
        assert call(server_of(built_wiki, pipeline), "ask", question="How long does a deploy take?").structured_content


def children() -> set[str]:
    """Processes that this one has started and that still run."""
    own = os.getpid()
    return {number for path in Path(f"/proc/{own}/task").glob("*/children") for number in path.read_text().split()}


@pytest.mark.parametrize("sources", [["--full"], ["nobody"], ["eng", "../ops"], ["of_others"]])
def test_only_sources_of_ones_own_tenant_are_built(built_wiki: Wiki, sources: list[str]) -> None:
    of_others = {"kind": "confluence_dump", "tenant": "other", "path": "eng", "readers": "everyone"}
    own = {key: built_wiki.source(key) for key in ("eng", "ops")}
    built_wiki.configure(tenants={"demo": {}, "other": {}}, sources={**own, "of_others": of_others})
    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        refused = call(server_of(built_wiki, pipeline), "reindex_with_context", sources=sources)
    assert refused.is_error
    assert "there are: eng, ops" in refused.content[0].text


def test_a_reader_reaches_no_tool_that_writes(built_wiki: Wiki) -> None:
    reader = Principal("demo", "ann")
    with closing(Pipeline.open(load_config(built_wiki.config_path), "demo")) as pipeline:
        for is_editor, message in ((False, "Unknown tool"), (True, "for editors")):
            server = server_of(built_wiki, pipeline, reader, is_editor)
            for name, given in (
                ("reindex_with_context", {}),
                ("generate_context", {"passage_id": a_passage(pipeline)}),
            ):
                assert message in call(server, name, **given).content[0].text
