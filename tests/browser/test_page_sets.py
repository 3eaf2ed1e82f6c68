"""The web page shows a whole set as a table that sorts and can be saved."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.damaged import Sample
from support.running import running
from support.shared import SharedFolders
from web_page import Complaints

from rag_serving.api.app import create_app
from rag_serving.config.loading import load_config


@pytest.fixture(scope="session")  # before the browser, whose event loop runs in this thread
def sample_folder(shared_folders: SharedFolders, request: pytest.FixtureRequest) -> Path:
    """The folder of `published_sample` in tests/assets."""

    def publish(folder: Path) -> None:
        sample = Sample(folder, judged=bool(request.config.getoption("nightly")))
        sample.ingest()
        assert sample.publish().success

    return shared_folders.get("published_sample", publish)


@pytest.fixture(scope="module")
def sample_address(sample_folder: Path) -> Iterator[str]:
    with running(create_app(load_config(sample_folder / "app.yaml"))) as address:
        yield address


def test_a_set_is_a_table_that_sorts_and_can_be_saved(
    page: Page, sample_address: str, picture_in: Callable[[Page, str], None]
) -> None:
    complaints = Complaints(page)
    page.goto(sample_address)
    page.get_by_label("Your question").fill("Which runbooks do we have?")
    page.keyboard.press("Enter")
    table = page.get_by_role("group", name="Members of the set")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("Certificate Renewal")
    picture_in(page, "set")
    header = table.get_by_role("columnheader", name="updated")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(rows.first).to_contain_text("2025-06-30")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("2026-02-17")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    lines = list(csv.reader(io.StringIO(Path(saved.value.path()).read_text(encoding="utf-8"))))
    assert lines[0][0] == "page"
    assert [line[0] for line in lines[1:]].count("Database Failover Runbook") == 2
    assert all("/" in line[-1] for line in lines[1:])
    rows.filter(has_text="Scheduler Stall Runbook").get_by_role("button").click()
    expect(page.locator("mark").first).to_be_visible()
    assert complaints.lines == []
