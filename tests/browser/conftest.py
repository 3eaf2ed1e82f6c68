"""Debian's Chromium for the browser tests; skipped where it is absent, except in CI."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")  # its event loop runs in the main thread, where other tests start their own
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        message = f"{CHROMIUM} is not installed; `apt-get install chromium`"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
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
