"""Reports as analysts see them: on the pages of the Dagster UI, and as HTML files, light and dark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster_server import ROOT, dagster_ui
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUN_MS = 90_000
ASKED = {
    "How long can a release be rolled back?": "helpful",
    "May I bring my dog to the office?": "missing",
    "How many days of leave do I get per year?": "wrong_citation",
}


@dataclass(frozen=True)
class Reported:
    """A UI of the sample wiki, which was asked and judged, and the tenant's folder."""

    address: str
    tenant: Path

    def file(self, pattern: str) -> Path:
        (found,) = self.tenant.glob(pattern)
        return found


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reported]:
    folder, config = tmp_path_factory.mktemp("reports"), ROOT / "config" / "app.yaml"
    environment = {**os.environ, "CITELOCK_HOME": str(folder / "home"), "CITELOCK_CONFIG": str(config)}
    environment["CITELOCK_TELEMETRY__STORE_QUESTIONS"] = "true"

    def citelock(*arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "citelock"), *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=200
        )
        return done.stdout

    citelock("build")
    for question, verdict in ASKED.items():
        receipt = re.search(r'"receipt_id": "(\w+)"', citelock("ask", question, "--json"))
        assert receipt is not None
        citelock("feedback", receipt[1], verdict)
    with dagster_ui(folder, config) as address:
        yield Reported(address, folder / "home" / "tenants" / "demo")


def show(page: Page, address: str, asset: str, partition: str) -> None:
    """Open the report on an asset's page, as Markdown in a dialog."""
    button = page.get_by_role("row", name=re.compile("^report")).get_by_text("Show Markdown").first
    until = time.monotonic() + RUN_MS / 1000
    while time.monotonic() < until:  # the page does not look again by itself
        page.goto(f"{address}/assets/{asset}?view=partitions&partition={partition}")
        page.wait_for_timeout(3000)
        if button.count():
            break
    button.click()
    expect(page.get_by_role("dialog").locator("table").first).to_be_visible()
    page.wait_for_timeout(500)  # the dialog fades in


def test_the_report_on_duplicates_is_made_when_a_generation_is_published(
    page: Page, reported: Reported, picture: Callable[[str], None]
) -> None:
    show(page, reported.address, "dedup_report", "demo")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Largest groups")).to_be_visible()
    picture_of = dialog.locator("img").first
    expect(picture_of).to_be_visible()
    assert picture_of.evaluate("image => image.naturalWidth") > 300
    picture("report-dedup")


def test_the_questions_of_today_are_told_when_a_person_asks_for_them(
    page: Page, reported: Reported, picture: Callable[[str], None]
) -> None:
    page.goto(f"{reported.address}/assets/telemetry_report")
    page.get_by_role("button", name=re.compile("Materialize")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Latest", exact=True).first.click()
    dialog.get_by_role("button", name="Launch 1 run").click()
    page.get_by_text("View", exact=True).locator("visible=true").last.click()
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=RUN_MS)
    show(page, reported.address, "telemetry_report", datetime.now(UTC).date().isoformat())
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("3 questions and 0 searches, ")).to_be_visible()
    expect(dialog.get_by_text("missing: May I bring my dog to the office?")).to_be_attached()
    dialog.locator("table").first.scroll_into_view_if_needed()
    picture("report-telemetry")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("dedup", "reports/dedup.html"),
        ("telemetry", "reports/telemetry-*.html"),
        ("evaluation", "generations/*/eval_report.html"),
    ],
)
def test_a_report_is_one_file_that_sorts_filters_and_opens(
    browser: Browser, reported: Reported, picture_in: Callable[[Page, str], None], name: str, pattern: str, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme, offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(reported.file(pattern).as_uri())
    picture_in(page, f"html-{name}-{scheme}")
    back, text = (page.evaluate(f"getComputedStyle(document.body).{key}") for key in ("backgroundColor", "color"))
    assert contrast(back, text) > 7
    table = page.locator("table").first
    cells = table.locator("tbody tr td:first-child")
    table.locator("th button").first.click()
    up = cells.all_text_contents()
    table.locator("th button").first.click()
    assert cells.all_text_contents() == up[::-1]
    page.get_by_role("searchbox", name="Filter the rows").first.fill("no such thing")
    expect(table.locator("tbody tr:visible")).to_have_count(0)
    case = page.locator("details.case").first
    case.locator("summary").click()
    expect(case.locator("dd").first).to_be_visible()
    case.scroll_into_view_if_needed()
    picture_in(page, f"html-{name}-{scheme}-case")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()


def contrast(*colors: str) -> float:
    """Contrast ratio of two CSS colours (WCAG 2.2, relative luminance)."""

    def luminance(color: str) -> float:
        channels = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, colors))
    return (light + 0.05) / (dark + 0.05)
