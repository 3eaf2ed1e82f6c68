"""Reports in a browser as the API serves them: their own script runs, what a page brought in does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from support.quality_runs import FIRST, PUBLISHED, SECOND, asked
from support.running import running
from support.wiki import configuration

from evals.reports.quality import history_of, quality_report
from evals.reports.report import write_report
from rag_serving.api.app import create_app
from rag_serving.artifacts.signed_files import write_signed, write_signed_text
from rag_serving.artifacts.store import Store

pytestmark = pytest.mark.browser

Scheme = Literal["light", "dark"]
EVIL = """<script>document.title = 'owned'</script><img src=x onerror="document.title = 'owned'">
<style>h1 { color: red }</style>"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tenant whose quality is told, and a report into which somebody got markup."""
    home = tmp_path_factory.mktemp("served")
    store, runs = Store(home), {"g1": FIRST, "g2": SECOND, "run with RM3": FIRST}
    history = history_of({"g1": FIRST, "g2": SECOND}, PUBLISHED, [])
    questions = [asked("May I bring my dog?", "not_found", 1.7e9), asked("Who is on call?", "answered", 1.7e9)]
    report = quality_report("acme", "g2", history, runs, questions)
    write_report(store, "acme", "quality", report)
    path = write_report(store, "acme", "dedup", report)
    evil = path.read_text(encoding="utf-8").replace("<h1>", f"{EVIL}<h1>", 1)
    write_signed_text(store, path, evil)  # as if it had got in while the report was made
    write_report(store, "acme", "x", report)
    generation = store.generation("acme", "g2")
    write_signed(store, generation / "eval_report.json", SECOND)
    write_signed_text(store, generation / "eval_report.html", evil)
    return home


def served(home: Path, **more: Any) -> AbstractContextManager[str]:
    return running(create_app(configuration(home, **more)))


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    with served(home) as address:
        yield address


def opened(browser: Browser, scheme: Scheme) -> tuple[Page, list[str]]:
    """A page, and what it complains of."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme).new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    return page, told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_from_the_list_to_two_generations_side_by_side(
    browser: Browser, address: str, scheme: Scheme, picture_in: Callable[[Page, str], None]
) -> None:
    page, told = opened(browser, scheme)
    page.goto(f"{address}/v1/reports")
    expect(page.get_by_text("failed: answerability")).to_be_visible()
    picture_in(page, f"served-list-{scheme}")
    page.get_by_role("link", name="Quality over generations").click()
    expect(page.get_by_role("heading", name="Quality of acme")).to_be_visible()
    expect(page.get_by_role("cell", name="May I bring my dog?")).to_be_visible()
    picture_in(page, f"served-quality-{scheme}")
    expect(page.get_by_role("heading", name="run with RM3 beside g2")).to_be_visible()
    page.get_by_label("before").select_option("g1")
    page.get_by_label("after").select_option("g2")
    expect(page.get_by_role("heading", name="g2 beside g1")).to_be_visible()
    expect(page.get_by_role("heading", name="run with RM3 beside g2")).to_be_hidden()
    page.get_by_label("before").select_option("run with RM3")  # the older of two stands first
    expect(page.get_by_role("heading", name="run with RM3 beside g2")).to_be_visible()
    page.get_by_label("after").select_option("g2")
    expect(page.get_by_text("choose two others")).to_be_visible()
    page.get_by_label("before").select_option("g1")
    case = page.locator("section.pair:visible details").first
    case.locator("summary").click()
    expect(case.get_by_text("answer before")).to_be_visible()
    case.scroll_into_view_if_needed()
    picture_in(page, f"served-pair-{scheme}")
    heads = page.locator("table").nth(1).locator("th button")
    heads.first.click()
    assert page.locator("table").nth(1).locator("tbody td:first-child").all_text_contents() == ["g1", "g2"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert told == []
    page.context.close()


def test_what_a_page_brought_in_does_not_run(browser: Browser, address: str) -> None:
    page, told = opened(browser, "light")
    page.goto(f"{address}/v1/reports/dedup")
    expect(page.get_by_role("heading", name="Quality of acme")).to_be_visible()
    page.get_by_label("before").select_option("g1")  # its own script runs
    assert page.title() == "Quality of acme"
    assert page.locator("h1").evaluate("head => getComputedStyle(head).color") == "rgb(28, 36, 48)"
    assert any("Content Security Policy" in each for each in told)
    page.context.close()


def test_a_browser_asks_for_the_token(browser: Browser, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {"secret-of-olga": {"tenant": "acme", "roles": ["operator"]}, "ann": {"tenant": "acme"}}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(tokens))
    with served(home, serving={"auth": "tokens"}) as address:
        credentials = {"username": "olga", "password": "secret-of-olga"}
        page = browser.new_context(http_credentials=credentials).new_page()  # type: ignore[arg-type]
        page.goto(f"{address}/v1/reports")
        page.get_by_role("link", name="Quality over generations").click()
        expect(page.get_by_role("heading", name="Quality of acme")).to_be_visible()
        page.context.close()
        credentials["password"] = "ann"
        refused = browser.new_context(http_credentials=credentials).new_page()  # type: ignore[arg-type]
        response = refused.goto(f"{address}/v1/reports/quality")
        assert response is not None
        assert response.status == 403
        refused.context.close()
