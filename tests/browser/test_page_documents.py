"""Documents on the web page: put in, followed until they are published, read, replaced, deleted; the state of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import FilePayload, Locator, Page, Route, expect
from sources.pdf_writer import pdf
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_site import page as wiki_page
from support.building import build
from support.envelopes import Wiki
from support.running import running
from web_page import Complaints, ask, axe_violations, overflow

from rag_assets.build.inboxes import InboxWatch
from rag_serving.api.app import create_app
from rag_serving.api.reload import ConfigFile
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from rag_serving.documents.noted import NotedPages

pytestmark = pytest.mark.browser

VALVE = "Replace the pressure valve every 400 hours of operation."
LEAVE = (
    "# Leave\n\nRegular employees get thirty days of paid leave a year.\n\n"
    "## Sabbatical\n\nA sabbatical lasts six months.\n"
)
MARKUP = "<img src=x onerror=alert(1)>.md"


def file(name: str, content: str | bytes, kind: str = "text/markdown") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": content.encode() if isinstance(content, str) else content}


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Wiki:
    """A small wiki beside an inbox; nothing of it is built yet."""
    wiki = Wiki(tmp_path_factory.mktemp("documents"))
    sources = {"eng": wiki.source("eng"), "uploads": {"kind": "files", "tenant": "demo", "readers": "everyone"}}
    wiki.configure(sources=sources)
    return wiki


@pytest.fixture(scope="module")
def address(wiki: Wiki) -> Iterator[str]:
    config = load_config(wiki.config_path)
    with running(create_app(config, file=ConfigFile(wiki.config_path, config.serving))) as address:
        yield address


@pytest.fixture
def documents(page: Page, address: str) -> Iterator[Page]:
    """The view of documents, followed live; the browser complains of nothing."""
    complaints = Complaints(page)
    with page.expect_response("**/v1/events"):
        page.goto(f"{address}/documents")
    page.get_by_role("button", name="Choose files").wait_for()
    yield page
    assert complaints.lines == []


def put(page: Page, *files: FilePayload) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(list(files))


def build_beside(wiki: Wiki) -> None:
    """Build in another thread: the event loop of the browser runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(build, wiki).result()


def row(page: Page, name: str) -> Locator:
    return page.locator(".document").filter(has_text=name)


def test_a_document_is_put_in_published_read_replaced_and_deleted(
    documents: Page, wiki: Wiki, picture_in: Callable[[Page, str], None]
) -> None:
    put(
        documents,
        file("Pump manual.pdf", pdf("The pump manual names its parts.", VALVE), "application/pdf"),
        file("Leave.md", LEAVE),
        file("broken.pdf", b"%PDF-1.4 nothing else", "application/pdf"),
    )
    expect(documents.locator(".upload-sent")).to_have_count(3)
    expect(row(documents, "Pump manual.pdf")).to_contain_text("Received, waiting for the next build")
    build_beside(wiki)
    expect(row(documents, "Pump manual.pdf")).to_contain_text("Published", timeout=20_000)
    expect(row(documents, "broken.pdf")).to_contain_text("Failed")
    expect(row(documents, "broken.pdf").locator(".upload-reason")).to_contain_text("PDF")
    assert axe_violations(documents) == []
    picture_in(documents, "documents")

    row(documents, "Pump manual.pdf").get_by_role("button", name="Pump manual.pdf", exact=True).click()
    pane = documents.get_by_role("complementary", name="Source")
    expect(pane.get_by_text("Page 1 of 2")).to_be_visible()
    pane.get_by_role("button", name="Close source").click()

    documents.get_by_role("link", name="Ask", exact=True).click()
    turn = ask(documents, "How often is the pressure valve replaced?")
    turn.locator(".cite").first.click()
    expect(pane.get_by_text("Page 2 of 2")).to_be_visible()
    expect(pane.locator(".sheet-quote").first).to_be_attached()
    pane.get_by_role("button", name="Close source").click()

    documents.get_by_role("link", name="Documents").click()
    leave = row(documents, "Leave.md")
    with documents.expect_file_chooser() as chooser:
        leave.get_by_role("button", name="Replace Leave.md").click()
    chooser.value.set_files(file("Leave.md", LEAVE.replace("six months", "nine months")))
    expect(leave).to_contain_text("Received, waiting for the next build")
    leave.get_by_text("Version 2", exact=True).click()
    expect(leave.locator("li")).to_have_count(2)

    leave.get_by_role("button", name="Delete Leave.md").click()
    dialog = documents.get_by_role("dialog", name="Delete the document?")
    assert axe_violations(documents) == []
    dialog.get_by_role("button", name="Keep").click()
    expect(dialog).to_have_count(0)
    leave.get_by_role("button", name="Delete Leave.md").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(leave).to_contain_text("Being deleted")
    build_beside(wiki)
    expect(leave).to_have_count(0, timeout=20_000)

    documents.get_by_role("link", name="Status").click()
    generation = (Path(wiki.home) / "tenants/demo/current").read_text()
    expect(documents.locator(".facts code")).not_to_be_empty()
    assert documents.locator(".facts code").inner_text() in generation
    sources = documents.get_by_role("group", name="Sources").get_by_role("rowheader")
    assert [text.split()[0] for text in sources.all_inner_texts()] == ["eng", "uploads"]
    assert axe_violations(documents) == []


def sync_beside(wiki: Wiki) -> None:
    """What the process that waits for uploads does, in another thread."""

    def look() -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            assert InboxWatch(wiki.config_path, instance).look() == ["hq"]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(look).result()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("CONFLUENCE_USER", USER)
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    with StandIn("cloud") as site:
        site.require("basic")
        crane = "<p>The crane of the western quay lifts ninety tons.</p>"
        site.site.put(*(wiki_page(number, f"Crane {number}", body=crane, space="HQ") for number in (1, 2)))
        site.site.put(wiki_page(3, "Salaries", space="HQ", groups=["hr"]))
        yield site


def test_a_source_is_connected_and_its_first_sync_is_seen(
    page: Page, address: str, wiki: Wiki, site: StandIn, picture_in: Callable[[Page, str], None]
) -> None:
    complaints = Complaints(page)
    page.goto(f"{address}/status")
    page.get_by_role("button", name="Connect a source").press("Enter")
    dialog = page.get_by_role("dialog", name="Connect a source")
    dialog.get_by_label("Address").fill(site.url)
    dialog.get_by_label("Key of the space").fill("HQ")
    dialog.get_by_label("Environment variable with the token").fill("s3cr3t")
    dialog.get_by_label("Who may read it").select_option("everyone")
    dialog.get_by_role("button", name="Test connection").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("names of environment variables")
    dialog.get_by_label("Environment variable with the token").fill("CONFLUENCE_TOKEN")
    assert axe_violations(page) == []
    picture_in(page, "connect-form")
    page.set_viewport_size({"width": 320, "height": 640})
    assert overflow(page) <= 0
    picture_in(page, "connect-narrow")
    page.set_viewport_size({"width": 1280, "height": 860})
    page.keyboard.press("Enter")
    expect(dialog.get_by_text("restrictions of pages can be read")).to_be_visible()
    expect(dialog.locator(".facts")).to_contain_text("1 of 3")
    expect(dialog.get_by_role("group", name="Change of the configuration")).to_contain_text("+  hq:")
    assert axe_violations(page) == []
    picture_in(page, "connect-test")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog.get_by_label("Key of the space")).to_have_value("HQ")  # what was said is kept
    page.emulate_media(color_scheme="dark")
    dialog.get_by_role("button", name="Test connection").click()
    dialog.get_by_role("button", name="Write and sync").click()
    expect(dialog).to_contain_text("citelock build hq")
    NotedPages(Store(wiki.home).source("hq")).show("pages", done=1, total=3)
    expect(dialog.get_by_role("listitem").filter(has_text="Reading pages")).to_contain_text("1 of 3")
    assert axe_violations(page) == []
    picture_in(page, "connect-sync")
    sync_beside(wiki)
    expect(dialog).to_contain_text("3 pages can be cited.")
    picture_in(page, "connect-done")
    dialog.get_by_role("button", name="Ask").click()
    expect(ask(page, "How much does the crane of the western quay lift?")).to_contain_text("ninety tons")
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("menuitemradio", name="Deutsch").click()
    page.get_by_role("link", name="Zustand").click()
    page.get_by_role("button", name="Quelle anschließen").click()
    page.get_by_role("dialog").get_by_label("Dateien").check()
    expect(page.get_by_label("Wer sie lesen darf")).to_have_value("")  # nothing is open unless somebody says so
    expect(page.get_by_label("Abgleich")).to_have_value("none")
    picture_in(page, "connect-german")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Quelle anschließen")).to_be_focused()
    assert complaints.lines == []


def test_what_is_not_taken_says_why(documents: Page) -> None:
    put(documents, file("song.mp3", b"ID3\x04\x00 not a document", "audio/mpeg"))
    upload = documents.locator(".upload").filter(has_text="song.mp3")
    expect(upload).to_contain_text("Not accepted")
    expect(upload.locator(".upload-reason")).not_to_be_empty()
    documents.get_by_role("button", name="Clear finished").click()
    expect(documents.locator(".upload")).to_have_count(0)


def test_a_file_is_dropped_and_its_way_is_shown(documents: Page) -> None:
    documents.route(
        "**/v1/documents", lambda route: route.abort() if route.request.method == "POST" else route.continue_()
    )
    documents.locator(".drop").evaluate(
        """zone => {
          const data = new DataTransfer();
          data.items.add(new File(['x'], 'dropped.md'));
          zone.dispatchEvent(new DragEvent('dragover', {dataTransfer: data, bubbles: true, cancelable: true}));
          zone.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
        }"""
    )
    expect(documents.locator(".upload")).to_contain_text("The server could not be reached.")


def test_a_name_is_shown_to_the_letter(documents: Page) -> None:
    put(documents, file(MARKUP, "# A page\n\nWith words."))
    expect(row(documents, "onerror")).to_be_visible()
    assert documents.locator(".documents img").count() == 0


def test_a_stream_that_broke_is_opened_again(page: Page, address: str) -> None:
    broken: list[Route] = []

    def once(route: Route) -> None:
        broken.append(route)
        route.fulfill(body="retry: 1\n\n", content_type="text/event-stream") if len(broken) == 1 else route.continue_()

    page.route("**/v1/events", once)
    with page.expect_request(lambda request: request.url.endswith("/v1/events") and bool(broken)):
        page.goto(f"{address}/documents")
    page.get_by_role("button", name="Choose files").wait_for()


@pytest.mark.parametrize("view", ["documents", "status"])
def test_views_fit_a_narrow_screen(page: Page, address: str, view: str) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/{view}")
    page.locator(".view h2").first.wait_for()
    assert overflow(page) <= 0
    assert axe_violations(page) == []
