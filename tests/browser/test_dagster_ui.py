"""The Dagster UI as a data engineer uses it: the graph, the buttons, what a run left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from dagster_server import ROOT, dagster_ui
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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
RUN_MS = 200_000  # only what hangs takes that long


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The UI of the sample wiki."""
    with dagster_ui(tmp_path_factory.mktemp("ui"), ROOT / "config" / "app.yaml") as address:
        yield address


def materialize(page: Page, ui: str, job: str, partition: str) -> None:
    """Press the job's button, choose one partition, and wait until its run has succeeded."""
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


def test_the_asset_graph_shows_the_way_from_pages_to_the_published_generation(
    page: Page, ui: str, picture: Callable[[str], None]
) -> None:
    page.goto(f"{ui}/{GRAPH}")
    for asset in ASSETS:
        expect(page.get_by_text(asset, exact=True).first).to_be_visible()
    picture("dagster-graph")


def test_both_jobs_run_from_their_buttons_and_publish_the_sample(
    page: Page, ui: str, picture: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    materialize(page, ui, "ingest", "eng")
    picture("dagster-run")
    materialize(page, ui, "ingest", "ops")
    materialize(page, ui, "publish", "demo")
    page.goto(f"{ui}/assets/chunks?view=partitions&partition=eng")
    expect(page.get_by_text("dagster/row_count")).to_be_visible()
    expect(page.get_by_text("chunks_new")).to_be_visible()
    picture("dagster-chunks")
    page.goto(f"{ui}/assets/generation?view=checks")
    expect(page.get_by_text("Succeeded").first).to_be_visible(timeout=60_000)
    picture("dagster-checks")
    page.goto(f"{ui}/{GRAPH}")
    expect(page.get_by_text("generation", exact=True).first).to_be_visible()
    page.wait_for_timeout(3000)  # the graph colours its nodes when their events have arrived
    picture("dagster-graph-published")
    current = tmp_path_factory.getbasetemp() / "ui0" / "home" / "tenants" / "demo" / "current"
    assert re.fullmatch(r"[0-9a-f]{16}", current.read_text(encoding="utf-8").strip())
