"""Debian's Chromium for the browser tests; skipped where it is absent, except in CI."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.running import running
from support.wiki import configuration, publish
from web_page import WIKI, Complaints, SlowWire

from rag_serving.api.app import create_app

# Without the parts that draw a window a page costs a third of the processor's time.
SHELL, WHOLE = Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium")
CHROMIUM = SHELL if SHELL.exists() else WHOLE
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")  # its event loop runs in the main thread, where other tests start their own
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        message = "Chromium is not installed; `apt-get install chromium-headless-shell`"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    expect.set_options(timeout=20_000)  # of the slowest machine: what holds is seen at once
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 860})
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


@pytest.fixture(scope="session")
def asked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the wiki that the web page's journeys ask."""
    home = tmp_path_factory.mktemp("asked")
    publish(home, WIKI)
    return home


@pytest.fixture(scope="module")
def wire(asked_home: Path) -> SlowWire:
    return SlowWire(create_app(configuration(asked_home)))


@pytest.fixture(scope="module")
def address(wire: SlowWire) -> Iterator[str]:
    """Where the web page is served to this machine's own reader."""
    with running(wire) as address:
        yield address


@pytest.fixture
def web(page: Page, address: str, wire: SlowWire) -> Iterator[Page]:
    """The web page before the first question; at the end the browser must have complained of nothing."""
    page.set_default_timeout(20_000)
    complaints = Complaints(page)
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    yield page
    wire.pause_s = 0
    assert complaints.lines == []


@pytest.fixture
def picture_in(tmp_path: Path) -> Callable[[Page, str], None]:
    """Saves what a page shows under a name; in CITELOCK_SCREENSHOTS where that is set."""
    folder = Path(os.environ.get("CITELOCK_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def save(page: Page, name: str) -> None:
        assert re.fullmatch(r"[a-z-]+", name)
        page.screenshot(path=folder / f"{name}.png")

    return save


@pytest.fixture
def picture(page: Page, picture_in: Callable[[Page, str], None]) -> Callable[[str], None]:
    """Saves what the page shows under a name."""
    return lambda name: picture_in(page, name)
