"""The page at `/` in a browser: asked, read and followed on a narrow screen, in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect
from support.running import running
from support.wiki import RESTART, configuration, publish

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

QUESTION = "May I restart a broker while partitions are under-replicated?"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("page")
    publish(home)
    with running(create_app(configuration(home))) as address:
        yield f"{address}/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_question_is_asked_and_answered_on_a_narrow_screen_without_script(
    browser: Browser, address: str, scheme: Literal["light", "dark"], picture_in: Callable[..., None]
) -> None:
    context = browser.new_context(
        viewport={"width": 320, "height": 640}, color_scheme=scheme, java_script_enabled=False
    )
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(address)
    page.get_by_label("Your question").fill(QUESTION)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{RESTART} [1]")).to_be_visible()
    expect(page.get_by_role("link", name="Kafka operations → Restarting a broker")).to_be_visible()
    box = page.locator("html").bounding_box()
    assert box
    assert box["width"] <= 320
    picture_in(page, f"page-{scheme}")
    assert messages == [], "no style was refused by the policy"
    context.close()


def test_nothing_is_wider_than_the_screen(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 640}, color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Your question").fill(QUESTION + " x" + "y" * 300)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("Status:")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    colors = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert colors == ["rgb(232, 233, 234)", "rgb(22, 24, 26)"]
    context.close()
