"""How the web page looks and what it is to a screen reader: axe, narrow and wide, directions, print, languages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from web_page import QUESTION, TABLE_QUESTION, UNKNOWN, Complaints, SlowWire, ask, asked, axe_violations, overflow

CLOSEST = "What happens with the coffee beans and the logs in general?"
Scheme = Literal["light", "dark"]


@pytest.fixture(params=["light", "dark"])
def schemed(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """The web page in light and in dark colours."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=request.param)
    page = context.new_page()
    page.set_default_timeout(20_000)
    complaints = Complaints(page)
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    yield page
    context.close()
    assert complaints.lines == []


def test_axe_finds_nothing_in_any_state(schemed: Page) -> None:
    found = {"welcome": axe_violations(schemed)}
    for question in (QUESTION, TABLE_QUESTION, CLOSEST, UNKNOWN, "hello"):
        ask(schemed, question)
    schemed.get_by_role("button", name="Report missing").first.click()
    schemed.context.set_offline(True)
    asked(schemed, QUESTION).get_by_role("alert").wait_for()
    schemed.context.set_offline(False)
    found["turns"] = axe_violations(schemed)
    schemed.locator(".cite").first.hover()
    schemed.get_by_role("tooltip").wait_for()
    found["card"] = axe_violations(schemed)
    schemed.locator(".cite").first.click()
    schemed.get_by_role("complementary", name="Source").wait_for()
    found["source"] = axe_violations(schemed)
    for name, role in (("Earlier questions", "dialog"), ("Settings", "menu")):
        schemed.get_by_role("button", name=name, exact=True).click()
        schemed.get_by_role(role, name=name).wait_for()  # type: ignore[arg-type]
        found[name] = axe_violations(schemed)
        schemed.keyboard.press("Escape")
    schemed.keyboard.press("?")
    schemed.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    found["keys"] = axe_violations(schemed)
    assert {state: lines for state, lines in found.items() if lines} == {}


def test_axe_finds_nothing_while_an_answer_streams(web: Page, wire: SlowWire) -> None:
    wire.pause_s = 0.5
    asked(web, QUESTION).locator(".progress").wait_for()
    assert axe_violations(web) == []


@pytest.mark.parametrize("width", [320, 768, 1440, 2560])
def test_nothing_is_wider_than_the_window(web: Page, width: int) -> None:
    web.set_viewport_size({"width": width, "height": 700})
    assert overflow(web) <= 0
    for question in (QUESTION, TABLE_QUESTION, CLOSEST, UNKNOWN, "x" * 300):
        ask(web, question)
        assert overflow(web) <= 0, question
    web.locator(".cite").first.click()
    web.locator(".viewer-pane").wait_for()
    assert overflow(web) <= 0


def test_text_twice_as_large_still_fits(web: Page) -> None:
    web.set_viewport_size({"width": 640, "height": 700})
    web.evaluate("document.documentElement.style.fontSize = '200%'")
    ask(web, TABLE_QUESTION)
    assert overflow(web) <= 0
    expect(web.get_by_role("button", name="Ask", exact=True)).to_be_in_viewport()


def test_targets_are_24_pixels_at_least(web: Page) -> None:
    for question in (QUESTION, CLOSEST, "hello"):
        ask(web, question)
    small = web.evaluate(
        """[...document.querySelectorAll('button, summary, input, textarea')]
          .filter(each => each.checkVisibility())
          .map(each => [each.textContent || each.ariaLabel, each.getBoundingClientRect()])
          .filter(([, {width, height}]) => width < 23.99 || height < 23.99)
          .map(([name, {width, height}]) => `${name}: ${width} x ${height}`)"""
    )
    assert small == []


def test_the_page_can_run_from_right_to_left(web: Page) -> None:
    web.evaluate("document.documentElement.dir = 'rtl'")
    turn = ask(web, QUESTION)
    brand, settings = (
        web.locator(".brand").bounding_box(),
        web.get_by_role("button", name="Settings", exact=True).bounding_box(),
    )
    assert brand
    assert settings
    assert brand["x"] > settings["x"]
    assert overflow(web) <= 0
    turn.locator(".cite").first.click()
    pane, main = web.locator(".viewer-pane").bounding_box(), web.locator("main").bounding_box()
    assert pane
    assert main
    assert pane["x"] < main["x"]


def test_on_paper_there_are_answers_quotes_and_addresses_alone(web: Page) -> None:
    turn = ask(web, QUESTION)
    web.emulate_media(media="print")
    for hidden in (".header", ".composer", ".actions"):
        expect(web.locator(hidden).first).to_be_hidden()
    expect(turn.get_by_text("https://wiki.example/pages/11#Restarting-a-broker")).to_be_visible()
    expect(turn.locator("blockquote").first).to_be_visible()
    assert len(web.pdf()) > 1000


def test_who_wants_no_motion_sees_none(web: Page, wire: SlowWire) -> None:
    web.emulate_media(reduced_motion="reduce")
    wire.pause_s = 0.3
    asked(web, QUESTION).locator(".spinner").wait_for()
    assert web.evaluate("document.getAnimations().filter(each => each.playState === 'running').length") == 0


def test_forced_colours_and_more_contrast_leave_everything_readable(web: Page) -> None:
    web.emulate_media(forced_colors="active")
    turn = ask(web, QUESTION)
    assert turn.locator(".cite").first.evaluate("each => getComputedStyle(each).borderStyle") == "solid"
    web.emulate_media(forced_colors="none", contrast="more")
    assert web.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


def test_the_page_speaks_german(browser: Browser, address: str) -> None:
    context = browser.new_context(locale="de-DE")
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Ihre Frage").fill(QUESTION)
    page.get_by_role("button", name="Fragen", exact=True).click()
    expect(page.get_by_text("Wort für Wort an der Seite geprüft")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    page.get_by_role("button", name="Einstellungen").click()
    page.get_by_role("menuitemradio", name="English").click()
    expect(page.get_by_text("checked word for word")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Your question")).to_be_visible()
    context.close()


def test_colours_are_chosen_and_kept(web: Page) -> None:
    for name, scheme in (("Dark theme", "dark"), ("Light theme", "light")):
        web.get_by_role("button", name="Settings", exact=True).click()
        web.get_by_role("menuitemradio", name=name).click()
        web.reload()
        assert web.evaluate("getComputedStyle(document.documentElement).colorScheme") == scheme


def test_a_reader_of_the_screen_finds_the_landmarks(web: Page) -> None:
    ask(web, QUESTION)
    for role in ("banner", "main"):
        expect(web.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
    web.keyboard.press("Tab")
    web.evaluate("document.activeElement.blur(); document.body.focus()")
    skip = web.get_by_role("link", name="Skip to the content")
    skip.focus()
    web.keyboard.press("Enter")
    expect(web.locator("main")).to_be_focused()
