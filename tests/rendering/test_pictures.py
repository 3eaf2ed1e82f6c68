"""Pages are rendered by processes that a hostile file cannot take along, and kept under a seal."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from parsing.hostile_pdf import forms_within_forms, pages_of_one_stream, stream_within_stream
from sources.pdf_writer import pdf

from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.originals import Original
from rag_serving.isolation.child import Limits
from rag_serving.rendering import pictures as module
from rag_serving.rendering.layer import QuoteContext
from rag_serving.rendering.pictures import (
    FOLDER,
    MissingRendererError,
    Pictures,
    RenderError,
    RenderersBusyError,
    RenderProcesses,
)
from rag_serving.rendering.worker import size_of

CONTENT = pdf("Mooring lines are checked hourly.", "Second page.")
TENANT = "acme"
SMALL = Limits(seconds=1, memory_mb=256, answer_bytes=20 * 1024**2)


@pytest.fixture(scope="module")
def processes() -> Iterator[RenderProcesses]:
    opened = RenderProcesses(SMALL, 1)
    yield opened
    opened.close()


@pytest.fixture
def pictures(tmp_path: Path, processes: RenderProcesses) -> Pictures:
    return Pictures(tmp_path, processes)


def original(home: Path, content: bytes = CONTENT, pages: int = 2) -> Original:
    digest = hashlib.sha256(content).hexdigest()
    path = Store(home).originals(TENANT) / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return Original(digest, "application/pdf", len(content), pages, path)


def test_a_page_has_a_picture_and_a_layer(tmp_path: Path, pictures: Pictures) -> None:
    one = original(tmp_path)
    assert size_of(pictures.image(TENANT, "", one, 1, 1)) == (612, 792)
    assert size_of(pictures.image(TENANT, "", one, 1, 2)) == (1224, 1584)
    layer = pictures.layer(TENANT, "", one, 2)
    assert [word for word, _ in layer.words] == ["Second", "page."]
    assert layer.payload(2, QuoteContext("second page"))["boxes"] == []
    assert len(layer.payload(2, QuoteContext("Second page"))["boxes"]) == 1
    with pytest.raises(RenderError):
        pictures.image(TENANT, "", one, 3, 1)


def test_a_picture_is_made_once_and_one_that_was_altered_again(tmp_path: Path, pictures: Pictures) -> None:
    one = original(tmp_path)
    made = pictures.image(TENANT, "", one, 1, 1)
    one.path.unlink()
    assert pictures.image(TENANT, "", one, 1, 1) == made
    (kept,) = (Store(tmp_path).cache(TENANT) / FOLDER).iterdir()
    other = kept.with_name(kept.name.replace("-1-1", "-2-1"))
    other.write_bytes(kept.read_bytes())
    for page, path in ((1, kept), (2, other)):
        content = bytearray(path.read_bytes())
        content[-20] ^= page == 1
        path.write_bytes(content)
        with pytest.raises(StoreError):
            pictures.image(TENANT, "", one, page, 1)
    assert pictures.image(TENANT, "", original(tmp_path), 1, 1) == made


def test_an_altered_original_is_never_rendered(tmp_path: Path, pictures: Pictures) -> None:
    one = original(tmp_path)
    one.path.write_bytes(CONTENT.replace(b"hourly", b"weekly"))
    for ask in (lambda: pictures.image(TENANT, "", one, 1, 1), lambda: pictures.layer(TENANT, "", one, 1)):
        with pytest.raises(StoreError, match="altered"):
            ask()


def test_the_oldest_pictures_go_first(tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    one = original(tmp_path)
    monkeypatch.setattr(module, "MOST_BYTES", len(pictures.image(TENANT, "", one, 1, 1)) + 100)
    time.sleep(0.02)
    pictures.image(TENANT, "", one, 2, 1)
    assert [path.name for path in (Store(tmp_path).cache(TENANT) / FOLDER).iterdir()] == [f"{one.sha256}-2-1"]


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a stream within a stream": lambda: stream_within_stream(3_000_000),
    "forms within forms": lambda: forms_within_forms(9, 9),
    "a huge page": lambda: CONTENT.replace(b"[0 0 612 792]", b"[0 0 1e9 1e9]"),
    "a page without a size": lambda: CONTENT.replace(b"[0 0 612 792]", b"[0 0 0 0]"),
    "no file of this kind": lambda: b"%PDF-1.4 nothing",
    "an empty file": lambda: b"",
    "half of a file": lambda: CONTENT[: len(CONTENT) // 2],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_costs_a_bound_and_the_next_one_is_rendered(
    kind: str, tmp_path: Path, pictures: Pictures
) -> None:
    hostile, begun = HOSTILE[kind](), time.perf_counter()
    for ask in (pictures.image, lambda *given: pictures.layer(*given[:-1])):
        with suppress(RenderError):
            ask(TENANT, "", original(tmp_path, hostile, 1), 1, 3)
    assert time.perf_counter() - begun < 30
    assert size_of(pictures.image(TENANT, "", original(tmp_path), 1, 1)) == (612, 792)


def test_a_large_page_is_rendered_smaller(tmp_path: Path, pictures: Pictures) -> None:
    large = CONTENT.replace(b"[0 0 612 792]", b"[0 0 9e3 9e3]")
    size = size_of(pictures.image(TENANT, "", original(tmp_path, large), 1, 3))
    assert size is not None
    assert size[0] * size[1] <= 12_100_000


def test_more_pages_than_may_wait_are_refused_at_once(tmp_path: Path) -> None:
    processes = RenderProcesses(Limits(seconds=2, memory_mb=256), 1)
    pictures, slow = Pictures(tmp_path, processes), original(tmp_path, forms_within_forms(9, 9))
    outcomes: list[str] = []

    def ask(caller: str) -> None:
        try:
            pictures.image(TENANT, caller, slow, 1, 1)
        except (RenderError, RenderersBusyError) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=ask, args=("one",)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    processes.close()
    assert outcomes.count("RenderersBusyError") >= 2
    assert outcomes[:2] == ["RenderersBusyError"] * 2


def test_no_process_renders_for_two_tenants(processes: RenderProcesses) -> None:
    processes.ask("a", "", {"do": "layer", "page": 1}, CONTENT)
    first = processes._slots[0].child._process
    processes.ask("a", "", {"do": "layer", "page": 2}, CONTENT)
    assert processes._slots[0].child._process is first
    processes.ask("b", "", {"do": "layer", "page": 1}, CONTENT)
    assert processes._slots[0].child._process is not first
    assert first is not None
    assert first.poll() is not None


def test_without_the_renderer_the_error_names_its_extra(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_serving.rendering.pictures.find_spec", lambda _: None)
    with pytest.raises(MissingRendererError, match=r"citelock\[pdf\]"):
        pictures.image(TENANT, "", original(tmp_path), 1, 1)


def test_many_pages_of_one_file(tmp_path: Path, pictures: Pictures) -> None:
    file = original(tmp_path, pages_of_one_stream(20, 3), 20)
    assert {len(pictures.layer(TENANT, "", file, page).words) for page in range(1, 21)} == {9}
