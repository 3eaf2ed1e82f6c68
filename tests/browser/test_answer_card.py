"""The card of an answer in a host's chat: what it shows, and what no text in it can do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from app_host import heard, shown
from playwright.sync_api import Page, expect
from support.mcp_calls import call, server_of

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.mcp.server import card_html

pytestmark = pytest.mark.browser

QUOTE = "Run berth rollback on the release host and wait until the health check is green"
ANSWER = {
    "status": "answered",
    "outcome": "told",
    "question": "How do I roll back a release, and who must approve it?",
    "answer": (
        "Run `berth rollback --to PREVIOUS` on the release host and wait until the health check is green. [1]\n\n"
        "1. Freeze the queue.\n2. Roll back the newest release first.\n3. Tell #releases. [1]\n\n"
        "| Service | Approver |\n|---|---|\n| Billing | Duty manager |\n| Search | Team lead |\n\n[2]\n\n"
        "```\nberth rollback --to 2026.11.2\nberth status --watch\n```\n[1]"
    ),
    "citations": [
        {
            "index": 1,
            "chunk_id": "41:7:3",
            "title": "Release handbook → Rollback → By hand",
            "heading_path": ["Release handbook", "Rollback", "By hand"],
            "url": "https://wiki.example/41#Rollback",
            "fragment_url": "https://wiki.example/41#Rollback:~:text=Run",
            "quote": QUOTE,
            "space": "ENG",
            "page_version": 7,
            "verification": "exact",
            "updated_at": "2026-10-04T09:12:00+00:00",
            "also_at": [{"title": "Runbook → Rollback", "url": "https://wiki.example/77#Rollback", "space": "OPS"}],
        },
        {
            "index": 2,
            "chunk_id": "12:2:0",
            "title": "Who approves what",
            "heading_path": ["Who approves what"],
            "url": "https://wiki.example/12",
            "fragment_url": "https://wiki.example/12#:~:text=Billing",
            "quote": "Billing: Duty manager; Search: Team lead",
            "space": "OPS",
            "page_version": 2,
            "verification": "fuzzy",
            "updated_at": None,
            "page": 12,
            "also_at": [],
        },
    ],
    "clarification": None,
    "understood": None,
    "receipt_id": "3f9c2a71d05e4b88",
    "flags": ["stale_generation"],
}
HOSTILE = (
    "<img src=x onerror=parent.postMessage('owned','*')>",
    "</script><script>window.owned=1</script>",
    '"><svg onload=window.owned=1>',
    "javascript:window.owned=1",
    "data:text/html,<script>window.owned=1</script>",
    "${window.owned=1}{{constructor.constructor('window.owned=1')()}}",
    "</style><style>body{background:url(http://evil.test/)}</style>",
    "\u202egnp.exe\u0000\u2066[1](javascript:window.owned=1)",
    "`</pre><iframe src=http://evil.test></iframe>`",
    "a" * 20_000,
)


def result_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "as text"}], "structuredContent": answer}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_card_shows_the_answer_with_its_quotes(page: Page, theme: str, picture: Callable[[str], None]) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    frame = shown(page, card_html(), result_of(ANSWER), theme, openLinks={}, serverTools={})
    text = frame.inner_text("#card")
    for part in (
        "Quotes verified",
        "Who approves what",
        "word for word in the page",
        "version 7",
        "2026-10-04",
        "also at",
    ):
        assert part in text
    assert frame.locator("table tr").count() == 3
    assert frame.locator("ol.sources > li").count() == 2
    picture(f"answer-card-{theme}")
    frame.click("ol.sources .path >> nth=0")
    assert heard(page, "ui/open-link") == [{"url": "https://wiki.example/41#Rollback:~:text=Run"}]
    page.evaluate("window.proof = {valid: true, faults: [], changes: []}")
    frame.click("button")
    frame.wait_for_selector("button.good")
    assert heard(page, "tools/call") == [{"name": "verify_receipt", "arguments": {"receipt_id": "3f9c2a71d05e4b88"}}]
    assert frame.inner_text("button") == "Receipt holds"


def everywhere(value: Any, text: str) -> Any:
    """Return a result in which every text is this one."""
    if isinstance(value, dict):
        return {key: everywhere(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, text) for inner in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize(
    "text", [*HOSTILE[:3], *(pytest.param(text, marks=pytest.mark.nightly) for text in HOSTILE[3:])]
)
def test_no_text_breaks_out(page: Page, text: str) -> None:
    left: list[str] = []
    page.on("request", lambda request: left.append(request.url))
    page.on("console", lambda message: left.append(message.text) if message.type == "error" else None)
    options = [{"label": text, "query": text, "url": None}, {"label": text, "query": None, "url": text}]
    hostile = everywhere({**ANSWER, "clarification": {"text": text, "options": options}}, text) | {"outcome": "told"}
    frame = shown(page, card_html(), result_of(hostile), openLinks={}, serverTools={})
    page.set_viewport_size({"width": 320, "height": 640})
    assert frame.evaluate("window.owned") is None
    assert page.evaluate("window.owned") is None
    assert left == ["http://host.test/"]
    assert frame.locator("script").count() == 1
    assert frame.locator("img, iframe, object, form, embed, [onload], [onerror]").count() == 0
    targets = frame.eval_on_selector_all("a[href]", "all => all.map((a) => a.getAttribute('href'))")
    assert all(target.startswith(("https:", "http:", "#")) for target in targets)
    assert frame.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert "\u202e" not in frame.inner_text("#card")


def test_what_is_no_answer_is_said(page: Page) -> None:
    frame = shown(page, card_html(), {"isError": True, "content": [{"type": "text", "text": "ask again later"}]})
    assert "ask again later" in frame.inner_text("#card")


def test_a_refusal_offers_what_to_ask_instead(page: Page, picture: Callable[[str], None]) -> None:
    options = [
        {"label": "How long can a release be rolled back?", "category": None, "query": "How long?", "url": None},
        {"label": "Release handbook", "category": None, "query": None, "url": "https://wiki.example/41"},
    ]
    clarification = {"text": "Did you mean one of these?", "options": options}
    refused = {**ANSWER, "outcome": "none", "answer": "The pages do not say.", "citations": [], "receipt_id": None}
    page.set_viewport_size({"width": 800, "height": 400})
    frame = shown(page, card_html(), result_of({**refused, "clarification": clarification}), openLinks={})
    assert "No answer in the pages" in frame.inner_text("#card")
    picture("answer-card-refusal")
    frame.click("text=How long can a release")
    frame.click("text=Release handbook")
    assert heard(page, "ui/message") == [{"role": "user", "content": [{"type": "text", "text": "How long?"}]}]
    assert heard(page, "ui/open-link") == [{"url": "https://wiki.example/41"}]


def test_messages_of_others_are_not_heard(page: Page) -> None:
    frame = shown(page, card_html(), result_of(ANSWER))
    before = frame.inner_text("#card")
    forged = result_of({**ANSWER, "question": "forged"})
    frame.evaluate(
        "(params) => window.postMessage({jsonrpc: '2.0', method: 'ui/notifications/tool-result', params}, '*')", forged
    )
    frame.wait_for_timeout(100)
    assert frame.inner_text("#card") == before


def test_a_host_gives_it_colours_and_no_addresses(page: Page) -> None:
    frame = shown(page, card_html(), result_of(ANSWER))
    variables = {"--color-text-primary": "rgb(1, 2, 3)", "--color-background-primary": "url(http://evil.test/)"}
    page.evaluate(
        "(variables) => window.send({method: 'ui/notifications/host-context-changed', params: {styles: {variables}}})",
        variables,
    )
    expect(frame.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
    assert frame.evaluate("document.documentElement.style.getPropertyValue('--color-background-primary')") == ""


def test_what_the_tool_says_is_what_the_card_shows(
    page: Page, pipeline: Pipeline, picture: Callable[[str], None]
) -> None:
    question = "May I restart a broker while partitions are under-replicated?"
    with ThreadPoolExecutor() as beside:  # the browser's event loop runs in this thread
        result = beside.submit(call, server_of(pipeline, Principal("acme")), "ask", question=question).result()
    page.set_viewport_size({"width": 360, "height": 640})
    frame = shown(page, card_html(), result.model_dump(mode="json", by_alias=True), serverTools={})
    citation = result.structured_content["citations"][0]
    text = " ".join(frame.inner_text("#card").split())
    assert question in text
    assert " ".join(citation["quote"].split()) in text
    assert frame.locator("ol.sources > li").count() == len(
        {one["index"] for one in result.structured_content["citations"]}
    )
    picture("answer-card-narrow")
