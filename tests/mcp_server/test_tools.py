"""What the tools say, to whom, and in which shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from support.mcp_calls import call, server_of, talk
from support.wiki import COFFEE, SALARIES

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.mcp.reading import NOTHING
from rag_serving.mcp.server import ALIASES, REFUSAL, URI, card_html
from rag_serving.mcp.shapes import PassagesOutput

QUESTION = "May I restart a broker while partitions are under-replicated?"
BONUS = "What salary bonus does the broker team earn?"
ANYBODY, HR = Principal("acme"), Principal("acme", "ann", frozenset({"hr"}))
READING = {
    "search": {"query": "consumer lag"},
    "fetch": {"id": "13"},
    "ask": {"question": QUESTION},
    "get_passage": {"passage_id": "13:1:0"},
    "search_book": {"query": "consumer lag"},
    "search_with_contextual_retrieval": {"query": "consumer lag", "limit": 3},
    "list_sources": {},
    "check": {"text": "An alert fires when the lag stays above 20,000 records for five minutes."},
}


@pytest.fixture
def anybody(pipeline: Pipeline) -> Any:
    return server_of(pipeline, ANYBODY)


@pytest.fixture
def hr(pipeline: Pipeline) -> Any:
    return server_of(pipeline, HR)


def test_every_result_is_what_its_tool_says_it_is(anybody: Any) -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("ask", READING["ask"])
        proof = {"verify_receipt": {"receipt_id": answer.structured_content["receipt_id"]}}
        assert tools.keys() == (READING.keys() | proof.keys()) - set(ALIASES)  # one search is listed
        schemas = {name: tool.output_schema for name, tool in tools.items()}
        schemas |= dict.fromkeys(ALIASES, PassagesOutput.model_json_schema())
        for name, arguments in (READING | proof).items():
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result.content)
            jsonschema.validate(result.structured_content, schemas[name])
            if name != "ask":
                assert json.loads(result.content[0].text) == result.structured_content
        for tool in tools.values():
            assert tool.annotations.read_only_hint
            assert not tool.annotations.destructive_hint
            assert not tool.annotations.open_world_hint

    talk(anybody, work)


def test_an_answer_has_its_citations_and_a_receipt_that_holds(anybody: Any) -> None:
    answer = call(anybody, "ask", question=QUESTION)
    content, markdown = answer.structured_content, answer.content[0].text
    assert (content["status"], content["outcome"], content["question"]) == ("answered", "told", QUESTION)
    citation = content["citations"][0]
    assert citation["quote"] in " ".join(
        call(anybody, "get_passage", passage_id=citation["chunk_id"]).content[0].text.split()
    )
    assert f"]({citation['fragment_url']})" in markdown
    assert call(anybody, "verify_receipt", receipt_id=content["receipt_id"]).structured_content["valid"] is True


def test_a_question_goes_on_from_the_one_before(anybody: Any) -> None:
    history = [{"role": "user", "content": "How long are logs kept?"}, {"role": "assistant", "content": "168 hours"}]
    understood = call(anybody, "ask", question="and for brokers?", history=history).structured_content["understood"]
    assert "logs" in understood


def test_filters_narrow_a_question(anybody: Any) -> None:
    narrowed = call(anybody, "ask", question=QUESTION, filters={"space": ["HQ"]}).structured_content
    assert all(citation["space"] == "HQ" for citation in narrowed["citations"])
    assert call(anybody, "ask", question=QUESTION, filters={"colour": "red"}).is_error


def test_a_page_is_found_once(anybody: Any) -> None:
    found = call(anybody, "search", query="broker").structured_content["results"]
    assert len({hit["id"] for hit in found}) == len(found) > 1


@pytest.mark.parametrize(
    ("tool", "argument", "hidden", "missing"),
    [
        ("fetch", "id", "14", "no-such-page"),
        ("fetch", "id", "14:1:0", "14:9:0"),
        ("get_passage", "passage_id", "14:1:0", "14:9:0"),
        ("verify_receipt", "receipt_id", None, "f" * 32),
    ],
)
def test_what_is_for_others_is_as_if_it_were_not_there(
    anybody: Any, hr: Any, tool: str, argument: str, hidden: str | None, missing: str
) -> None:
    hidden = hidden or call(hr, "ask", question=BONUS).structured_content["receipt_id"]
    assert not call(hr, tool, **{argument: hidden}).is_error
    refused, absent = (call(anybody, tool, **{argument: given}) for given in (hidden, missing))
    assert refused.is_error
    assert refused.model_dump() == absent.model_dump()


def test_nothing_tells_a_reader_of_pages_for_others(anybody: Any, hr: Any) -> None:
    assert SALARIES in call(hr, "fetch", id="14").structured_content["text"]
    for name, arguments in READING.items():
        asked = {key: BONUS if key in ("query", "question") else value for key, value in arguments.items()}
        told = call(anybody, name, **asked).model_dump_json().replace(BONUS, "")
        assert not {word for word in ("4,000", "Compensation", '"HR"', "Salaries") if word in told}, name


def test_what_a_question_can_be_narrowed_to_is_what_the_caller_may_read(anybody: Any, hr: Any) -> None:
    spaces = [
        {space["key"]: space["count"] for space in call(server, "list_sources").structured_content["spaces"]}
        for server in (anybody, hr)
    ]
    assert spaces[0] == {"OPS": 2, "SRE": 2, "HQ": 1}
    assert spaces[1] == spaces[0] | {"HR": 1}
    narrowed = call(anybody, "ask", question=QUESTION, filters={"source": ["ops"], "kind": ["page"]})
    assert not narrowed.is_error


def test_a_page_is_fetched_with_its_headings(anybody: Any) -> None:
    document = call(anybody, "fetch", id="13").structured_content
    assert document["text"].startswith("## Consumer lag\n\nConsumer lag is the distance")
    assert document["url"] == "https://wiki.example/pages/13"
    assert (document["metadata"]["space"], document["metadata"]["source"]) == ("SRE", "ops")


def test_pages_are_resources_for_who_may_read_them(anybody: Any, hr: Any) -> None:
    async def read(client: Client) -> dict[str, Any]:
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["citelock://page/{page_id}"]
        assert COFFEE in (await client.read_resource("citelock://page/16")).contents[0].text
        refused = []
        for page_id in ("14", "nowhere", "../../etc/passwd", "a/b?c#d%00"):
            try:
                refused.append(
                    (await client.read_resource(f"citelock://page/{quote(page_id, safe='')}")).contents[0].text
                )
            except MCPError as error:
                refused.append(f"{error.code} {error.message}")
        return dict(zip(("hidden", "absent", "path", "odd"), refused, strict=True))

    told = talk(anybody, read)
    assert told["hidden"] == told["absent"] == f"-32602 {NOTHING}"
    assert all(one.startswith("-32602") for one in told.values())
    assert SALARIES in talk(hr, read)["hidden"]


def test_a_text_is_checked_as_its_caller_may_read(anybody: Any, hr: Any) -> None:
    text = "The broker team earns a salary bonus of 9,000 euros in December."
    (said,), (hidden,) = (call(each, "check", text=text).structured_content["claims"] for each in (hr, anybody))
    assert (said["verdict"], said["page_says"]) == ("otherwise", SALARIES)
    assert hidden["verdict"] != "otherwise"
    assert "4,000" not in json.dumps(hidden)


def test_the_answer_names_its_card(anybody: Any) -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["ask"].meta["ui"]["resourceUri"] == URI
        content = (await client.read_resource(URI)).contents[0]
        assert (content.mime_type, content.text) == ("text/html;profile=mcp-app", card_html())
        assert content.meta["ui"]["csp"] == {
            "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [],
        }  # fmt: skip

    talk(anybody, work)


def test_what_is_read_of_pages_is_never_kept_by_a_client(anybody: Any) -> None:
    async def work(client: Client) -> None:
        kept = [await client.list_tools(), await client.read_resource("citelock://page/16")]
        assert [(one.cache_scope, one.ttl_ms) for one in kept] == [("private", 60_000), ("private", 0)]

    talk(anybody, work)


def test_prompts_bind_a_model_to_the_passages(anybody: Any) -> None:
    async def work(client: Client) -> None:
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert names == {"grounded_answer", "verified_answer"}
        prompt = await client.get_prompt("grounded_answer", {"question": QUESTION})
        text = prompt.messages[0].content.text
        assert REFUSAL in text
        assert text.endswith(QUESTION)

    talk(anybody, work)


LONG = "a" * 1_000_000


@pytest.mark.parametrize(("tool", "arguments"), [*READING.items(), ("verify_receipt", {"receipt_id": "x"})])
def test_a_million_characters_are_an_error_in_a_line(anybody: Any, tool: str, arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if isinstance(value, str):
            refused = call(anybody, tool, **{**arguments, name: LONG})
            assert refused.is_error
            assert len(refused.content[0].text) < 1000
    assert not call(anybody, "list_sources").is_error


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": ""},
        {"question": "  "},
        {"question": "a" * 4001},
        {"question": "nul\0"},
        {"question": QUESTION, "history": [{"role": "user", "content": "x"}] * 101},
        {"question": QUESTION, "history": [{"role": "system", "content": "x"}]},
        {"question": QUESTION, "filters": {"space": ["x"] * 101}},
        {"question": 7},
        {},
    ],
)
def test_arguments_out_of_bounds_are_errors(anybody: Any, arguments: dict[str, Any]) -> None:
    assert call(anybody, "ask", **arguments).is_error


def test_an_unknown_tool_is_an_error(anybody: Any) -> None:
    for name in ("no_such_tool", "reindex_with_context", "generate_context", "__class__"):
        assert call(anybody, name).model_dump() == call(anybody, name, tenant="acme").model_dump()
        assert call(anybody, name).content[0].text == f"Unknown tool: {name}"


def test_a_home_without_pages_says_how_to_get_some(tmp_path: Path) -> None:
    from support.wiki import configuration, embedder

    empty = Pipeline.open(configuration(tmp_path), "acme", embedder())
    for name in ("search", "ask", "list_sources", "fetch"):
        told = call(server_of(empty, ANYBODY), name, **READING[name])
        assert told.is_error
        assert "citelock build" in told.content[0].text
    empty.close()
