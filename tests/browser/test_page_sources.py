"""The source viewer: the page beside the answer with the quote marked, and a page of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sourced import LONG_TASKS, SOURCES, cited, is_in_view, marked, opened, plain
from support.examples import by_day
from support.running import running
from support.wiki import configuration, publish
from web_page import IMAGE, QUESTION, Complaints, ask, axe_violations, overflow

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

IN_PARAGRAPH = "How soon does the keeper answer about a blocked sluice?"
IN_LIST = "How close may a barge be to the gate?"
IN_TABLE = "What does the red and white lamp mean?"
IN_CODE = "With which command is the status of the sluice gate shown?"
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("sources")
    publish(home, SOURCES)
    with running(create_app(configuration(home))) as address:
        yield address


@pytest.fixture
def web(page: Page, address: str) -> Iterator[Page]:
    complaints = Complaints(page)
    page.add_init_script(LONG_TASKS)
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    yield page
    assert complaints.lines == []


@pytest.mark.parametrize("question", by_day([IN_PARAGRAPH, IN_TABLE], [IN_PARAGRAPH, IN_LIST, IN_TABLE, IN_CODE]))
def test_what_is_marked_is_what_was_verified(web: Page, question: str) -> None:
    citation = cited(web, question)
    assert citation["page_id"] == "31"
    pane = opened(web, question)
    assert marked(pane) == plain(citation["quote"])
    assert is_in_view(pane.locator("mark.quote").first)
    expect(pane.locator("mark.quote").first).to_be_focused()
    expect(pane.get_by_role("status")).to_have_text(f"Marked in Lock keeping: {citation['quote']}")


def test_a_source_shows_its_facts_and_its_blocks(web: Page) -> None:
    pane = opened(web, IN_TABLE)
    expect(pane.get_by_role("heading", name="Lock keeping")).to_be_visible()
    expect(pane).to_contain_text("Verified: the page has exactly these words.")
    expect(pane).to_contain_text("Version 1")
    expect(pane).to_contain_text("Updated Jan 1, 2026")
    original = pane.get_by_role("link", name="Open the original")
    assert "#:~:text=" in str(original.get_attribute("href")) or ":~:text=" in str(original.get_attribute("href"))
    assert original.get_attribute("rel") == "noopener noreferrer"
    assert pane.get_by_role("columnheader").all_inner_texts() == ["Lamp", "Meaning of the lamp"]
    assert pane.get_by_role("row").count() == 4
    assert pane.locator("ol > li").count() == 3
    assert pane.locator("ol ul > li").count() == 1
    expect(pane.get_by_role("group", name="Code in bash")).to_contain_text("grep ajar")
    expect(pane.locator("strong")).to_have_text("blocked sluice")
    expect(pane.get_by_role("link", name="the keeper")).to_have_attribute("href", "https://keeper.example/desk")
    assert "**" not in pane.inner_text()


def test_the_outline_leads_to_a_heading(web: Page) -> None:
    pane = opened(web, IN_LIST)
    pane.get_by_text("On this page").click()
    links = pane.get_by_role("navigation", name="On this page").get_by_role("link")
    assert links.all_inner_texts() == ["Before the gate opens", "Lamps", "Commands", "Blockages"]
    links.filter(has_text="Blockages").click()
    heading = pane.get_by_role("heading", name="Blockages")
    expect(heading).to_be_focused()
    assert is_in_view(heading)
    assert web.url.endswith("/")


def test_escape_closes_the_source_and_gives_the_focus_back(web: Page) -> None:
    pane = opened(web, QUESTION)
    expect(pane.locator("mark.quote").first).to_be_focused()
    web.keyboard.press("Escape")
    expect(pane).to_have_count(0)
    expect(web.locator(".cite").first).to_be_focused()


def test_another_quote_of_the_same_page_is_marked_instead(web: Page) -> None:
    pane = opened(web, IN_TABLE)
    first = marked(pane)
    turn = ask(web, IN_LIST)
    turn.locator(".cite").first.click()
    expect(pane.locator("ol mark.quote")).to_be_visible()
    assert marked(pane) != first
    expect(pane.locator("table mark.quote")).to_have_count(0)


def test_a_page_stands_alone_at_its_passage(page: Page, address: str) -> None:
    complaints = Complaints(page)
    page.goto(f"{address}/p/31#chunk=31%3A1%3A2")
    expect(page.get_by_role("heading", level=1, name="Lock keeping")).to_be_visible()
    target = page.locator(".viewer-passage-target")
    expect(target).to_contain_text("sluicectl")
    assert is_in_view(target)
    for path in ("docs/a%20b", "docs%2Fa%20b#Start"):
        page.goto(f"{address}/p/{path}")
        expect(page.get_by_role("heading", level=1, name="In a folder")).to_be_visible()
    page.goto(f"{address}/p/nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no such page, or you may not read it")
    assert complaints.lines == []


def test_a_text_that_is_selected_can_be_asked_about(web: Page) -> None:
    pane = opened(web, IN_PARAGRAPH)
    pane.locator("ol > li").nth(1).evaluate("item => getSelection().selectAllChildren(item)")
    button = pane.get_by_role("button", name="Ask about this text")
    expect(button).to_be_visible()
    web.keyboard.press("Tab")
    expect(button).to_be_focused()
    assert axe_violations(web) == []
    web.keyboard.press("Enter")
    expect(web.locator(".composer .chip")).to_contain_text("Lock keeping")
    with web.expect_request("**/v1/ask") as asked:
        turn = ask(web, "How far away must a barge be?")
    body: dict[str, Any] = asked.value.post_data_json or {}
    assert body["mode"] == "selected_text"
    assert body["context"].startswith("No barge is closer than 20 metres")
    turn.locator(".cite").first.click()
    source = web.get_by_role("complementary", name="Source")
    expect(source.get_by_role("heading", name="The text you asked about")).to_be_visible()
    assert "20metres" in marked(source)


def test_a_whole_page_can_be_asked_about(page: Page, address: str) -> None:
    page.goto(f"{address}/p/31")
    page.get_by_role("button", name="Ask about this page").click()
    page.wait_for_url(f"{address}/")
    expect(page.locator(".composer .chip")).to_contain_text("Lock keeping")


def test_a_page_that_was_changed_since_says_so(web: Page) -> None:
    def newer(route: Route) -> None:
        told = json.loads(route.fetch().text().replace('"31:1:', '"31:2:'))
        route.fulfill(json={**told, "version": 2})

    web.route("**/v1/pages/31", newer)
    pane = opened(web, IN_TABLE)
    expect(pane).to_contain_text("it is now version 2, and the answer was checked against version 1")
    assert marked(pane), "the quote is found in the passage of the new version"


def test_a_page_without_the_quote_says_so_and_shows_the_quote(web: Page) -> None:
    def gone(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "version": 3, "sections": []})

    web.route("**/v1/pages/31", gone)
    quote = cited(web, IN_LIST)["quote"]
    pane = opened(web, IN_LIST)
    expect(pane).to_contain_text("The page no longer has the quoted words")
    expect(pane.get_by_role("blockquote")).to_have_text(quote)
    expect(pane.locator("mark.quote")).to_have_count(0)


def test_a_near_duplicate_leads_to_the_kept_passage(web: Page) -> None:
    def dropped(route: Route) -> None:
        page = route.fetch().json()
        chunk = page["sections"][1]["chunks"][0]
        missing = {
            "text": "x",
            "title": "Kafka operations",
            "url": "https://wiki.example/",
            "page_id": "11",
            "chunk_id": "11:1:0",
        }
        page["sections"][1]["chunks"] = [{**chunk, "text": "", "blocks": [], "missing": missing}]
        route.fulfill(json=page)

    web.route("**/v1/pages/31", dropped)
    pane = opened(web, IN_LIST)
    pane.get_by_role("button", name="Kafka operations").click()
    expect(pane.get_by_role("heading", name="Kafka operations", exact=True)).to_be_visible()
    expect(pane.locator(".viewer-passage-target")).to_contain_text("under-replicated")


def test_a_page_of_five_thousand_words_is_marked_far_down(web: Page) -> None:
    question = "How often is basin 7 dredged on stretch 13?"
    pane = opened(web, question)
    expect(pane.get_by_role("heading", name="The long canal")).to_be_attached()
    assert marked(pane)
    assert is_in_view(pane.locator("mark.quote").first)
    expect(pane.locator(".viewer-passage")).to_have_count(16)
    assert len(str(pane.text_content()).split()) > 5_000


def test_two_thousand_passages_stay_smooth(page: Page, address: str) -> None:
    def long(route: Route) -> None:
        told = route.fetch().json()
        chunks = [chunk for section in told["sections"] for chunk in section["chunks"]] * 5
        told["sections"] = [
            {
                **told["sections"][0],
                "heading": f"Part {part}",
                "heading_path": ["Lock keeping", f"Part {part}"],
                "chunks": [{**chunk, "chunk_id": f"{part}-{place}"} for place, chunk in enumerate(chunks)],
            }
            for part in range(100)
        ]
        route.fulfill(json=told)

    page.route("**/v1/pages/31", long)
    page.add_init_script(LONG_TASKS)
    page.goto(f"{address}/p/31#chunk=80-3")
    target = page.locator(".viewer-passage-target")
    expect(target).to_be_visible()
    page.wait_for_timeout(300)
    page.get_by_text("On this page").click()
    parts = page.get_by_role("navigation", name="On this page")
    for part in (95, 20, 70, 5, 50):  # a machine that has much else to do may be slow now and then, not every time
        begun = page.evaluate("performance.now()")
        for _ in range(6):
            page.mouse.move(700, 400)
            page.mouse.wheel(0, 4_000)
            page.wait_for_timeout(60)
        parts.get_by_role("link", name=f"Part {part}", exact=True).click()
        expect(page.locator(".viewer-passage")).to_have_count(2_000)
        slow = [round(task) for start, task in page.evaluate("longTasks") if start > begun and task > 50]
        if not slow:
            break
    assert slow == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_page_hurts_nobody(
    browser: Browser, address: str, scheme: Scheme, picture_in: Callable[..., None]
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    complaints = Complaints(page)
    page.goto(f"{address}/p/21")
    expect(page.get_by_role("heading", level=1)).to_contain_text(IMAGE)
    expect(page.locator(".viewer-text")).to_contain_text("window.hurt = 1")
    assert page.evaluate("window.hurt") is None
    assert page.locator(".viewer-text img, .viewer-text script, a[href^=javascript]").count() == 0
    assert axe_violations(page) == []
    page.goto(address)
    opened(page, IN_TABLE)
    page.wait_for_timeout(600)
    assert axe_violations(page) == []
    picture_in(page, f"source-{scheme}")
    assert complaints.lines == []
    context.close()


def test_a_narrow_screen_shows_the_source_over_the_answer(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    page.goto(address)
    turn = ask(page, IN_TABLE)
    turn.locator(".cite").first.click()
    over = page.get_by_role("dialog", name="Source")
    assert marked(over)
    assert overflow(page) <= 0
    assert axe_violations(page) == []
    page.keyboard.press("Escape")
    expect(over).to_have_count(0)
    page.goto(f"{address}/p/32")
    page.locator(".viewer-passage").first.wait_for()
    assert overflow(page) <= 0
    context.close()


def test_foreign_writing_runs_its_own_way(page: Page, address: str, picture_in: Callable[..., None]) -> None:
    page.goto(f"{address}/p/22")
    passage = page.locator(".viewer-passage p").first
    passage.wait_for()
    assert passage.evaluate("element => getComputedStyle(element).direction") == "rtl"
    assert page.get_by_role("heading", level=1).evaluate("element => getComputedStyle(element).direction") == "rtl"
    page.evaluate("document.documentElement.dir = 'rtl'")
    assert overflow(page) <= 0
    picture_in(page, "source-rtl")


def test_a_page_is_printed_whole(page: Page, address: str) -> None:
    page.goto(f"{address}/p/32")
    page.locator(".viewer-passage").first.wait_for()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".viewer-passage")).to_have_count(16)
    expect(page.get_by_role("button", name="Ask about this page")).to_be_hidden()
    assert (
        page.locator(".viewer-piece").first.evaluate("element => getComputedStyle(element).contentVisibility")
        == "visible"
    )
