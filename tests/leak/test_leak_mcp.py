"""The same over MCP: every tool and resource tells a principal what it would tell if the pages that it may not read had
never been written. CITELOCK_LEAK_DOORS sets how many questions are asked: nine calls each."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from brute_force import Judge, pages_told
from mcp import Client
from mcp.shared.exceptions import MCPError
from partial_wikis import SECRET, received, some_query
from restricted_wiki import Wiki, restricted_wiki, some_principal
from support.mcp_calls import server_of, talk

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.ask import Pipeline

QUESTIONS = max(8, int(os.environ.get("CITELOCK_LEAK_DOORS", "0")) // 40)
_OF_THE_BUILD = {"generation", "receipt_id"}


@pytest.fixture(scope="module")
def wiki(seed: int, size: Callable[[int], int]) -> Wiki:
    return restricted_wiki(size(300), seed + 4000, including=0.1)


@pytest.fixture(scope="module")
def whole(wiki: Wiki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_ENV, SECRET)
        opened = received(tmp_path_factory.mktemp("mcp"), wiki)
        yield opened
        opened.close()


async def told(client: Client, query: str, page_id: str) -> dict[str, Any]:
    """Return what every tool and the page's resource say, by name, without what names a build."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": query}),
        ("search_book", {"query": query, "limit": 30}),
        ("search_with_contextual_retrieval", {"query": query}),
        ("ask", {"question": query}),
        ("check", {"text": f"{query} has 7 rules."}),
        ("fetch", {"id": page_id}),
        ("fetch", {"id": f"{page_id}:1:0"}),
        ("get_passage", {"passage_id": f"{page_id}:1:0"}),
        ("list_sources", {}),
    ]
    said: dict[str, Any] = {}
    for name, arguments in asked:
        result = await client.call_tool(name, arguments)
        content = result.structured_content if result.structured_content is not None else result.content[0].text
        said[f"{name} {sorted(arguments)}"] = without_build(content)
    try:
        said["resource"] = (
            (await client.read_resource(f"citelock://page/{quote(page_id, safe='')}"))
            .contents[0]
            .text.partition('"metadata"')[0]
        )
    except MCPError as error:
        said["resource"] = str(error)
    return said


def without_build(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return {key: without_build(value) for key, value in content.items() if key not in _OF_THE_BUILD}


def test_hidden_pages_might_as_well_not_exist(wiki: Wiki, whole: Pipeline, seed: int, tmp_path: Path) -> None:
    dice = random.Random(f"mcp {seed}")
    judge, who = Judge(wiki), some_principal(dice)
    hidden = judge.unreadable(who)
    assert hidden
    rest = received(tmp_path, wiki.without(hidden))
    questions = [(some_query(dice, judge), dice.choice(judge.page_ids)) for _ in range(QUESTIONS)]

    async def conversation(client: Client) -> list[dict[str, Any]]:
        return [await told(client, *question) for question in questions]

    of_all, of_rest = (talk(server_of(pipeline, who), conversation) for pipeline in (whole, rest))
    for question, got, wanted in zip(questions, of_all, of_rest, strict=True):
        assert got == wanted, f"{who} asked {question!r}"
    rest.close()


def test_no_tool_tells_of_a_hidden_page(wiki: Wiki, whole: Pipeline, seed: int, pairs: int) -> None:
    dice, judge = random.Random(f"mcp pairs {seed}"), Judge(wiki)
    per_caller, seen = 5, 0
    for _ in range(max(3, pairs // 50)):
        who = some_principal(dice)
        questions = [(some_query(dice, judge), dice.choice(judge.page_ids)) for _ in range(per_caller)]

        async def conversation(client: Client, questions: Any = questions) -> list[dict[str, Any]]:
            return [await told(client, *question) for question in questions]

        for (query, page_id), said in zip(questions, talk(server_of(whole, who), conversation), strict=True):
            said["ask ['question']"].pop("question", None)  # the words of the caller
            for claim in said["check ['text']"]["claims"]:
                claim.pop("text")
            leaks = [page for page in pages_told(said) if page != page_id and not judge.may_read(who, page)]
            assert not set(leaks) - set(pages_told({"echo": query})), (who, query, leaks)
            seen += len(list(pages_told(said)))
    assert seen, "the pages that may be read are told"


def test_the_check_can_fail(wiki: Wiki, whole: Pipeline, seed: int) -> None:
    dice, judge = random.Random(f"fails {seed}"), Judge(wiki)
    page, who = next(
        (page, who)
        for who in (some_principal(dice) for _ in range(100))
        for page in judge.page_ids
        if judge.may_read(who, page) and not judge.may_read(Principal(who.tenant), page)
    )

    async def conversation(client: Client) -> bool:
        return bool((await client.call_tool("fetch", {"id": page})).is_error)

    assert not talk(server_of(whole, who), conversation)
    assert talk(server_of(whole, Principal(who.tenant)), conversation)
