"""The Dagster UI as a data engineer and an analyst use it: the graph, the buttons, what a run left, and the reports.

One UI serves all of it. The reports are looked at on its pages, and as HTML files, light and dark.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster_server import ROOT, dagster_ui
from playwright.sync_api import Browser, Page, expect
from support.command_line import run
from support.envelopes import Wiki

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

GRAPH = "asset-groups?expanded=global%40global%3Aingest,global%40global%3Apublish"
ASSETS = [
    "pages",
    "sections",
    "chunks",
    "dedup_map",
    "contexts",
    "embeddings",
    "dense_index",
    "lexical_index",
    "generation",
]
RUN_MS = 400_000  # only what hangs takes that long
REPORT_MS = 180_000
ASKED = {
    "How long can a release be rolled back?": "helpful",
    "May I bring my dog to the office?": "missing",
    "How many days of leave do I get per year?": "wrong_citation",
}


@dataclass(frozen=True)
class Ui:
    """A UI of the sample wiki, and the tenant's folder."""

    address: str
    tenant: Path

    def file(self, pattern: str) -> Path:
        (found,) = self.tenant.glob(pattern)
        return found


@dataclass(frozen=True)
class Published:
    """The UI after jobs were run from their buttons, and the page of the first run."""

    ui: Ui
    run: str


@pytest.fixture(scope="session")
def is_whole(request: pytest.FixtureRequest) -> bool:
    """Whether people run both jobs from the buttons, for the whole sample; by day nothing is built."""
    return bool(request.config.getoption("nightly")) or "CITELOCK_SCREENSHOTS" in os.environ


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory, is_whole: bool) -> tuple[Path, Path]:
    """A folder for the UI, and its configuration: the sample's, or that of three pages."""
    folder = tmp_path_factory.mktemp("ui")
    if is_whole:
        return folder, ROOT / "config" / "app.yaml"
    wiki = Wiki(folder / "wiki")
    wiki.configure(home=str(folder / "home"))
    return folder, wiki.config_path


@pytest.fixture(scope="module")
def ui(configured: tuple[Path, Path]) -> Iterator[Ui]:
    folder, config = configured
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_HOME", str(folder / "home"))
        patch.setenv("CITELOCK_CONFIG", str(config))
        patch.setenv("CITELOCK_TELEMETRY__STORE_QUESTIONS", "true")
        with dagster_ui(folder, config) as address:
            yield Ui(address, folder / "home" / "tenants" / "demo")


@pytest.fixture(scope="module")
def published(browser: Browser, ui: Ui) -> Published:
    """The jobs, run by a person."""
    page = browser.new_page()
    page.set_default_timeout(30_000)
    run = materialize(page, ui.address, "ingest", "eng")
    materialize(page, ui.address, "ingest", "ops")
    materialize(page, ui.address, "publish", "demo")
    page.close()
    return Published(ui, run)


@pytest.fixture(scope="module")
def reported(published: Published) -> Ui:
    """The UI of a tenant that was asked and judged."""
    for question, verdict in ASKED.items():
        code, out, err = run("ask", question, "--json")
        receipt = re.search(r'"receipt_id": "(\w+)"', out)
        assert receipt is not None, err
        assert (code, run("feedback", receipt[1], verdict)[0]) == (0, 0)
    return published.ui


def materialize(page: Page, ui: str, job: str, partition: str) -> str:
    """Press the job's button, choose one partition, and wait until its run has succeeded; the run's page."""
    page.goto(f"{ui}/locations/citelock/jobs/{job}")
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_text(partition, exact=True).locator("visible=true").first.click()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch 1 run").click()
    expect(page.get_by_text("Launched run")).to_be_visible(timeout=60_000)
    page.get_by_text("View", exact=True).locator("visible=true").last.click()
    expect(page).to_have_url(re.compile("/runs/"))
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=RUN_MS)
    return page.url


def expect_on_reload(page: Page, text: str) -> None:
    """Wait for a text on a page that does not ask again for what it loaded a moment too early."""
    for _ in range(5):
        if page.get_by_text(text).first.is_visible():
            return
        page.wait_for_timeout(8_000)
        if page.get_by_text(text).first.is_visible():
            return
        page.reload()
    expect(page.get_by_text(text).first).to_be_visible(timeout=20_000)


def test_the_asset_graph_shows_the_way_from_pages_to_the_published_generation(
    page: Page, ui: Ui, picture: Callable[[str], None]
) -> None:
    page.goto(f"{ui.address}/{GRAPH}")
    for asset in ASSETS:
        expect(page.get_by_text(asset, exact=True).first).to_be_visible()
    picture("dagster-graph")


def test_jobs_run_from_their_buttons_and_publish(
    page: Page, published: Published, picture: Callable[[str], None]
) -> None:
    address = published.ui.address
    page.goto(published.run)
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    picture("dagster-run")
    page.goto(f"{address}/assets/chunks?view=partitions&partition=eng")
    expect(page.get_by_text("dagster/row_count")).to_be_visible()
    expect(page.get_by_text("chunks_new")).to_be_visible()
    picture("dagster-chunks")
    page.goto(f"{address}/assets/generation?view=checks")
    expect_on_reload(page, "Succeeded")
    picture("dagster-checks")
    page.goto(f"{address}/{GRAPH}")
    expect(page.get_by_text("generation", exact=True).first).to_be_visible()
    page.wait_for_timeout(1000)  # the graph colours its nodes when their events have arrived
    picture("dagster-graph-published")
    current = (published.ui.tenant / "current").read_text(encoding="utf-8").strip()
    assert re.fullmatch(r"[0-9a-f]{16}", current)


def show(page: Page, address: str, asset: str, partition: str) -> None:
    """Open the report on an asset's page, as Markdown in a dialog."""
    button = page.get_by_role("row", name=re.compile("^report")).get_by_text("Show Markdown").first
    until = time.monotonic() + REPORT_MS / 1000
    while time.monotonic() < until:  # the page does not look again by itself
        page.goto(f"{address}/assets/{asset}?view=partitions&partition={partition}")
        page.wait_for_timeout(1000)
        if button.count():
            break
    button.click()
    expect(page.get_by_role("dialog").locator("table").first).to_be_visible()
    page.wait_for_timeout(500)  # the dialog fades in


def test_the_report_on_duplicates_is_made_when_a_generation_is_published(
    page: Page, reported: Ui, picture: Callable[[str], None]
) -> None:
    show(page, reported.address, "dedup_report", "demo")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Largest groups")).to_be_visible()
    picture_of = dialog.locator("img").first
    expect(picture_of).to_be_visible()
    assert picture_of.evaluate("image => image.naturalWidth") > 300
    picture("report-dedup")


def test_the_questions_of_today_are_told_when_a_person_asks_for_them(
    page: Page, reported: Ui, picture: Callable[[str], None]
) -> None:
    page.goto(f"{reported.address}/assets/telemetry_report")
    page.get_by_role("button", name=re.compile("Materialize")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Latest", exact=True).first.click()
    dialog.get_by_role("button", name="Launch 1 run").click()
    page.get_by_text("View", exact=True).locator("visible=true").last.click()
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=REPORT_MS)
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
    browser: Browser, reported: Ui, picture_in: Callable[[Page, str], None], name: str, pattern: str, scheme: str
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
