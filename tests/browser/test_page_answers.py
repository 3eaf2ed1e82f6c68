"""Answers on the web page: cards over numbers, outcomes, what can be done with them, hostile pages; a checked text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect
from support.examples import by_day
from web_page import ARABIC, QUESTION, TABLE_QUESTION, UNKNOWN, ask, asked, axe_violations, overflow

CLOSEST = "What happens with the coffee beans and the logs in general?"


def serving(body: str) -> Callable[[Route], None]:
    """Return a handler that answers with events."""
    return lambda route: route.fulfill(body=body, content_type="text/event-stream")


def test_the_card_shows_the_quote_inside_its_surroundings(web: Page) -> None:
    turn = ask(web, QUESTION)
    turn.locator(".cite").first.hover()
    card = web.get_by_role("tooltip")
    expect(card).to_be_visible()
    expect(card.locator("mark")).not_to_be_empty()
    expect(card).to_contain_text("Kafka operations → Restarting a broker")
    expect(card).to_contain_text("Found word for word on the page")
    expect(card).to_contain_text("OPS · version 1")
    card.hover()
    web.wait_for_timeout(300)
    expect(card).to_be_visible()
    web.mouse.move(5, 400)
    expect(card).to_have_count(0)


def test_the_card_stays_inside_the_window(web: Page) -> None:
    web.set_viewport_size({"width": 320, "height": 500})
    turn = ask(web, QUESTION)
    turn.locator(".cite").first.hover()
    box = web.get_by_role("tooltip").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 500


def test_a_passage_is_fetched_once(web: Page) -> None:
    asked: list[str] = []
    web.on("request", lambda request: asked.append(request.url) if "/v1/passages/" in request.url else None)
    turn = ask(web, QUESTION)
    for _ in range(3):
        turn.locator(".cite").first.hover()
        expect(web.get_by_role("tooltip")).to_be_visible()
        web.mouse.move(5, 400)
        expect(web.get_by_role("tooltip")).to_have_count(0)
    assert len(asked) == 1


def test_a_number_opens_the_source_beside_the_answer(web: Page) -> None:
    turn = ask(web, QUESTION)
    turn.locator(".cite").first.click()
    pane = web.get_by_role("complementary", name="Source")
    expect(pane).to_be_visible()
    expect(turn.locator(".cited[aria-current=true]")).to_be_visible()
    pane.get_by_role("button", name="Close").click()
    expect(pane).to_have_count(0)
    expect(turn.locator(".cite").first).to_be_focused()


def test_passages_that_come_closest_are_no_answer(web: Page) -> None:
    turn = ask(web, CLOSEST)
    expect(turn.locator(".answer-closest")).to_be_visible()
    expect(turn.get_by_text("This may answer it:")).to_be_visible()
    assert turn.locator(".passage").count() == turn.locator(".passage .cite").count()
    expect(turn.get_by_role("button", name="Helpful", exact=True)).to_have_count(0)


MARKED = "() => [...(CSS.highlights.get('quoted') ?? [])].map(range => range.toString())"


@pytest.mark.parametrize("question", by_day([TABLE_QUESTION], [QUESTION, TABLE_QUESTION, CLOSEST]))
def test_quotes_are_marked_in_what_is_shown_whole(web: Page, question: str) -> None:
    turn = ask(web, question)
    cite = turn.locator(".cite").first
    cite.hover()
    quote = web.get_by_role("tooltip").locator("mark").inner_text()
    marked = web.evaluate(MARKED)
    assert letters(quote) in map(letters, marked)
    shown = letters(turn.locator(".answer").inner_text())
    assert all(letters(text) in shown for text in marked)
    web.get_by_role("button", name="New session").click()
    expect(turn).to_have_count(0)
    assert web.evaluate(MARKED) == [], "marks go with their answer"


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def test_where_there_is_no_answer_the_page_says_so_and_why(web: Page) -> None:
    turn = ask(web, UNKNOWN)
    expect(turn.get_by_text("The pages don't answer this.")).to_be_visible()
    expect(turn.locator(".cite")).to_have_count(0)
    turn.get_by_role("button", name="Report missing").click()
    comment = turn.get_by_label("What should the pages say")
    expect(comment).to_be_focused()
    comment.fill("Chess is missing <b>here</b>")
    with web.expect_response("**/v1/feedback") as answered:
        turn.get_by_role("button", name="Send").click()
    assert answered.value.status == 202
    sent = answered.value.request.post_data_json
    assert (sent["verdict"], sent["comment"]) == ("missing", "Chess is missing <b>here</b>")
    expect(turn.get_by_text("Thank you for your feedback.")).to_be_visible()


def test_what_can_be_asked_instead_is_asked_by_a_button(web: Page) -> None:
    turn = ask(web, "hello")
    option = turn.locator(".options button").first
    question = option.inner_text()
    option.click()
    expect(web.get_by_role("heading", name=question)).to_be_visible()
    expect(web.locator("article.turn").nth(1).locator(".answer")).to_be_visible()


def test_an_answer_and_a_citation_are_judged(web: Page) -> None:
    turn = ask(web, QUESTION)
    for name, verdict in (("Helpful", "helpful"), ("Source 1 is wrong here", "wrong_citation")):
        with web.expect_response("**/v1/feedback") as answered:
            turn.get_by_role("button", name=name, exact=True).click()
        assert answered.value.status == 202
        assert answered.value.request.post_data_json["verdict"] == verdict
    expect(turn.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "true")


def test_an_answer_is_copied_with_footnotes(web: Page) -> None:
    web.context.grant_permissions(["clipboard-read", "clipboard-write"])
    turn = ask(web, QUESTION)
    turn.get_by_role("button", name="Copy").click()
    expect(turn.get_by_text("Copied as Markdown")).to_be_visible()
    copied = web.evaluate("navigator.clipboard.readText()")
    assert "[^1]" in copied
    assert re.search(r"\[\^1\]: “.+” — Kafka operations → Restarting a broker, <https://wiki\.example/", copied)


def test_why_and_verify_open_below_the_answer(web: Page) -> None:
    turn = ask(web, QUESTION)
    for name in ("Why these sources?", "Check again"):
        button = turn.get_by_role("button", name=name)
        button.click()
        expect(button).to_have_attribute("aria-expanded", "true")
        button.click()
        expect(button).to_have_attribute("aria-expanded", "false")


def test_a_hostile_page_is_only_text(web: Page) -> None:
    turn = ask(web, "At which pressure does the zebra valve open?")
    expect(turn.locator(".answer")).to_contain_text("onerror")
    turn.locator(".cite").first.hover()
    expect(web.get_by_role("tooltip")).to_contain_text("<script>")
    turn.locator(".cite").first.click()
    expect(web.get_by_role("complementary", name="Source")).to_be_visible()
    web.get_by_role("complementary", name="Source").get_by_role("button", name="Close").click()
    turn = ask(web, '<img src=x onerror="window.hurt = 1"> <script>window.hurt = 1</script> zebra valve?')
    expect(turn.get_by_role("heading").first).to_contain_text("<script>")
    web.get_by_role("button", name="Earlier questions").click()
    expect(web.get_by_role("dialog", name="Earlier questions")).to_be_visible()
    assert web.evaluate("window.hurt") is None
    assert web.locator("main img, main script, a[href^='javascript']").count() == 0


def test_a_server_that_sends_anything_is_only_text(web: Page) -> None:
    evil = '<img src=x onerror="window.hurt = 1">'
    citation = {
        "index": 1, "chunk_id": evil, "title": evil, "heading_path": [evil], "url": "javascript:window.hurt=1",
        "fragment_url": "javascript:window.hurt=1", "quote": evil, "space": evil, "page_version": 1,
        "verification": "exact", "start": 0, "end": 4, "also_at": [{"title": evil, "url": evil, "space": evil}],
    }  # fmt: skip
    answer = {
        "status": "answered", "outcome": "told", "confidence": 1, "threshold": 0, "answer": f"{evil} [1]",
        "citations": [citation], "refusal": None, "understood": evil, "notes": [evil], "generation": evil,
        "generator": evil, "reranker": evil, "receipt_id": None, "timings_ms": {}, "flags": [evil],
        "clarification": {"text": evil, "options": [{"label": evil, "category": None, "query": None, "url": "data:1"}]},
        "why": {"passages": [], "left_out": [], "flags": [{"flag": evil, "text": evil}]},
    }  # fmt: skip
    none = {**answer, "status": "clarify", "outcome": "none", "citations": []}
    for sent in (answer, none):
        body = f"event: answer\ndata: {json.dumps(sent)}\n\n"
        web.unroute("**/v1/ask")
        web.route("**/v1/ask", serving(body))
        expect(asked(web, "anything").locator(".answer")).to_contain_text("onerror")
    web.locator(".cite").first.hover()
    expect(web.get_by_role("tooltip")).to_contain_text("onerror")
    web.locator(".cite").first.click()
    expect(web.get_by_role("complementary", name="Source")).to_be_visible()
    assert web.evaluate("window.hurt") is None
    assert web.locator("main img, a[href^='javascript'], a[href^='data']").count() == 0


def test_long_answers_of_odd_markup_are_drawn_in_time(web: Page) -> None:
    odd = [
        "`" * 40_000,
        " " * 100_000 + "x",
        "-" * 60_000 + "x",
        "|" * 20_000,
        "**" * 20_000,
        "[1]" * 20_000,
        "> " * 9_000,
    ]
    answer = {
        "status": "answered", "outcome": "told", "confidence": 1, "threshold": 0, "answer": "\n\n".join(odd),
        "citations": [], "clarification": None, "refusal": None, "generation": "", "generator": "", "reranker": "",
        "receipt_id": None, "timings_ms": {}, "flags": [],
    }  # fmt: skip
    for outcome in ("told", "closest"):
        web.unroute("**/v1/ask")
        body = f"event: answer\ndata: {json.dumps({**answer, 'outcome': outcome})}\n\n"
        web.route("**/v1/ask", serving(body))
        expect(asked(web, "anything").locator(".answer")).to_be_visible()


def test_text_from_right_to_left_runs_so(web: Page) -> None:
    turn = ask(web, "كم تحفظ السجلات في كل خادم؟")
    heading = turn.get_by_role("heading").first
    assert heading.evaluate("each => getComputedStyle(each).direction") == "rtl"
    if ARABIC[:20] in turn.inner_text():
        paragraph = turn.locator(".answer-text p", has_text=ARABIC[:20]).first
        assert paragraph.evaluate("each => getComputedStyle(each).direction") == "rtl"


def test_links_leave_nothing_behind(web: Page) -> None:
    turn = ask(web, TABLE_QUESTION)
    link = turn.get_by_role("link", name="Original").first
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert (link.get_attribute("href") or "").startswith("https://wiki.example/pages/15#Settings")


def test_an_answer_is_shared_by_its_link(web: Page) -> None:
    web.context.grant_permissions(["clipboard-read", "clipboard-write"])
    turn = ask(web, QUESTION)
    turn.get_by_role("button", name="Share").click()
    expect(turn.get_by_text("Link copied.")).to_be_visible()
    link = web.evaluate("navigator.clipboard.readText()")
    assert re.search(r"/a/[0-9a-f]{32}$", link)
    web.goto(link)
    expect(web.get_by_text("under-replicated").first).to_be_visible()


TEXT = """# Our brokers

Who restarts them? You must not restart a broker while partitions are under-replicated.

- Each broker keeps logs for 72 hours by default.
- The broker is restarted by its stop script.
- Every engineer receives a golden umbrella in June.
"""


def test_a_text_is_checked_claim_by_claim(web: Page, picture: Callable[[str], None]) -> None:
    web.get_by_role("link", name="Check", exact=True).click()
    web.get_by_label("The text").fill(TEXT)
    waiting: list[Route] = []
    web.route("**/v1/check", lambda route: waiting.append(route))
    web.keyboard.press("Tab")
    web.keyboard.press("Enter")
    expect(web.locator(".verify-busy")).to_be_visible()
    assert axe_violations(web) == []
    web.get_by_role("button", name="Stop").click()
    expect(web.locator(".verify-busy")).to_have_count(0)
    web.unroute("**/v1/check")
    web.route("**/v1/check", lambda route: route.fulfill(status=504, body="{}"), times=1)
    web.get_by_role("button", name="Check", exact=True).click()
    expect(web.get_by_role("alert")).to_have_text(re.compile("^The text is too long to be checked at once"))
    web.get_by_role("button", name="Check", exact=True).click()
    claims = web.locator(".claims > li")
    expect(claims).to_have_count(4)
    verdicts = ("word for word", "the page says otherwise", "closest, not verified", "not in the pages")
    for claim, verdict in zip(claims.all(), verdicts, strict=True):
        expect(claim.locator("p").first).to_have_text(verdict)
    expect(web.get_by_role("alert")).to_have_count(0)
    told = " · ".join(["Claims: 4", *(f"{verdict}: 1" for verdict in verdicts)])
    expect(web.locator(".view > .notice")).to_have_text(told)
    expect(web.locator("[role=status]").last).to_have_text(told)
    expect(claims.nth(1).locator("mark")).to_have_text(["72", "168"])
    claims.last.scroll_into_view_if_needed()
    picture("check")
    assert axe_violations(web) == []
    web.context.grant_permissions(["clipboard-read", "clipboard-write"])
    web.get_by_role("button", name="Copy").click()
    expect(web.get_by_text("Copied as Markdown.").last).to_be_visible()
    copied = web.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(told)
    assert "- **the page says otherwise:** " in copied
    assert "keeps logs for 168 hours" in copied
    assert "Kafka operations → Log retention, <https://wiki.example/pages/12#Log-retention>" in copied
    claims.nth(1).get_by_role("button", name="Kafka operations → Log retention").click()
    expect(web.get_by_role("complementary", name="Source").locator("mark").first).to_contain_text("168 hours")
    web.keyboard.press("Escape")
    web.set_viewport_size({"width": 375, "height": 800})
    web.emulate_media(color_scheme="dark")
    assert overflow(web) <= 0
    assert axe_violations(web) == []
    picture("check-narrow")
