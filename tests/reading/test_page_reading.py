"""A page is put together again in its order, and a long one stops with its request."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.synthetic import MODEL, TENANT, chunk_row, clustered_vectors, config_for

from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.deadline import Deadline, StoppedError, within
from rag_serving.indexes.view import ReaderView
from rag_serving.reading import read_page
from rag_serving.text.structure import structure_of

LONG = 2000
TEXT = "Cranes stop at twenty metres. " * 10 + "\n\n- `one` item\n- **another** one"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReaderView]:
    """Page `mixed`: a chunk, one dropped of the same section, one dropped of a section of its own, a hidden one."""
    home, structure = tmp_path_factory.mktemp("reading"), structure_of(TEXT).encode()
    url = "https://wiki.example/mixed#section"
    places = [
        {"chunk_id": "mixed:1:1", "url": url, "section_id": "mixed:1:s0", "heading": "Mixed → Section"},
        {"chunk_id": "mixed:1:3", "url": f"{url}2", "section_id": "mixed:1:s2", "heading": "Mixed → Other"},
        {"chunk_id": "mixed:1:4", "url": f"{url}3", "section_id": "mixed:1:s3", "heading": "Mixed → Secret"},
    ]
    readers = ["everyone", "everyone", "group:hr"]
    common = {"space": "ENG", "title": "Mixed", "labels": [], "source": "eng", "kind": "page"}
    told = [{**common, **place, "readers": who} for place, who in zip(places, readers, strict=True)]
    rows = [chunk_row("long", index, f"{index}. {TEXT}", structure=structure) for index in range(LONG)]
    rows += [chunk_row("mixed", 0, "First.", url=url), chunk_row("mixed", 2, "Hidden.", url=url, readers="group:hr")]
    rows += [chunk_row("kept", 0, "Kept.", places=told), chunk_row("mixed", 5, "Last.", url=f"{url}5", anchor="s5")]
    table, vectors = GENERATION_CHUNKS.table(rows), clustered_vectors(len(rows), 8)
    generation = build_generation(Store(home), TENANT, table, vectors, config_for(home), MODEL)
    yield generation.for_reader(Principal(TENANT))
    generation.close()


def test_passages_and_pointers_stand_in_the_order_of_the_page(view: ReaderView) -> None:
    page = read_page(view, "mixed")
    assert page is not None
    shown = [
        (s["heading"], [(c["chunk_id"], bool(c["missing"])) for c in s["chunks"]]) for s in page.payload()["sections"]
    ]
    assert shown == [
        ("Section", [("mixed:1:0", False), ("mixed:1:1", True)]),
        ("Other", [("mixed:1:3", True)]),
        ("Section", [("mixed:1:5", False)]),
    ]
    assert read_page(view, "nothing") is None


def test_a_long_page_is_quick(view: ReaderView) -> None:
    """2,000 passages take some 0.5 s, their blocks included."""
    begun = time.perf_counter()
    page = read_page(view, "long")
    assert page is not None
    (section,) = page.payload()["sections"]
    assert len(section["chunks"]) == LONG
    assert time.perf_counter() - begun < 10


def test_a_long_page_stops_with_its_request(view: ReaderView) -> None:
    page, deadline = read_page(view, "long"), Deadline(60)
    assert page is not None
    deadline.cancel()
    with within(deadline), pytest.raises(StoppedError):
        page.payload()
