"""A book through `citelock build`: its passages, their ids, and what an agent is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.building import build, build_json
from support.envelopes import Wiki
from support.mcp_calls import call, server_of

from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import CHUNKS, GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.models import open_embedder

READER = Principal("demo")
SUMMARY = """# Summary

[Foreword](foreword.md)

- [Beans](beans.md)
  - [Roasting](roasting.md)
  - [Storing](storing.md)
- [Water](water.md)
  - [Hardness](hardness.md)
"""
ROAST = (
    "At step {n} the roaster turns the drum for {n} minutes, writes the colour of the beans into the log, and lowers "
    "the flame until the crack is heard a second time and the smoke thins."
)
CODE = "\n".join(f"kettle --pour {grams} --wait {grams + 7}" for grams in range(90, 190))
FILES = {
    "book.toml": '[book]\nlanguage = "en"\n',
    "src/SUMMARY.md": SUMMARY,
    "src/foreword.md": "# Foreword\n\nWhoever brews reads this.\n",
    "src/beans.md": "# Beans\n\nBeans are bought green and kept dry.\n",
    "src/roasting.md": "# Roasting\n\n" + "\n\n".join(ROAST.format(n=n) for n in range(1, 61)) + "\n",
    "src/storing.md": "# Storing\n\nRoasted beans are stored in the dark for three weeks at most.\n",
    "src/water.md": "# Water\n\nWater is heated to ninety-three degrees.\n",
    "src/hardness.md": f"# Hardness\n\nHard water is filtered.\n\n```console\n{CODE}\n```\n\nThen it is poured.\n",
}


class Book:
    """A small book as the only source, and its published passages."""

    def __init__(self, folder: Path) -> None:
        self.wiki = Wiki(folder)
        self.folder = folder / "book"
        for name, text in FILES.items():
            self.write(name, text)
        source = {"kind": "markdown_book", "tenant": "demo", "path": str(self.folder), "readers": "everyone"}
        self.wiki.configure(sources={"book": source}, indexing={"sentence_vectors": "never"})

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def rows(self) -> list[dict[str, Any]]:
        """The passages of the last ingest."""
        rows = read_table(Store(self.wiki.home).source("book") / "chunks.parquet", CHUNKS).to_pylist()
        return [dict(row) for row in rows]

    def vector_keys(self) -> dict[str, list[str]]:
        """What each published passage's vectors are of, by its id in the book."""
        store = Store(self.wiki.home)
        table = read_table(store.generation("demo", store.current("demo") or "") / "chunks.parquet", GENERATION_CHUNKS)
        return {row["passage_id"]: row["vector_keys"] for row in table.to_pylist()}

    def texts(self) -> dict[str, str]:
        """The text of each passage, by its id in the book."""
        return {row["passage_id"]: row["text"] for row in self.rows()}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    book = Book(tmp_path_factory.mktemp("brewing"))
    build(book.wiki)
    return book


@pytest.fixture(scope="module")
def server(book: Book) -> Iterator[Any]:
    config = load_config(book.wiki.config_path)
    with closing(Pipeline.open(config, "demo", open_embedder(config.embedding))) as pipeline:
        yield server_of(pipeline, READER)


def test_passages_of_a_book_are_long_numbered_and_never_cut_through_code(book: Book) -> None:
    rows = {row["passage_id"]: row for row in book.rows()}
    assert {"ch0-sec1-p1", "ch1-sec0-p1", "ch1-sec2-p1", "ch2-sec1-p1"} < rows.keys()
    roasting = [row for row in rows.values() if row["section"] == "1.1 Roasting"]
    assert len(roasting) > 2
    assert all(500 <= row["token_count"] <= 1000 for row in roasting)
    roasting.sort(key=lambda row: row["chunk_idx"])
    assert [row["passage_id"] for row in roasting] == [f"ch1-sec1-p{n}" for n in range(1, len(roasting) + 1)]
    assert all(row["context_after"] for row in roasting[:-1])
    assert sum(CODE in row["text"] for row in rows.values()) == 1
    assert {row["source_file"] for row in roasting} == {"src/roasting.md"}


def test_what_is_embedded_of_a_passage_names_its_page_and_chapter(book: Book) -> None:
    store = Store(book.wiki.home)
    current = store.current("demo")
    assert current is not None
    rows = read_table(store.generation("demo", current) / "chunks.parquet", GENERATION_CHUNKS).to_pylist()
    prefixes = {row["passage_id"]: row["prefix"] for row in rows}
    assert prefixes["ch1-sec2-p1"] == "Beans › Storing"
    assert prefixes["ch1-sec0-p1"] == "Beans"


def test_a_search_of_the_book_answers_in_its_order(server: Any) -> None:
    found = call(server, "search_book", query="how beans are roasted and stored", limit=5).structured_content
    ids = [one["passage_id"] for one in found["passages"]]
    assert "ch1-sec2-p1" in ids
    assert len(ids) > 2
    assert ids == sorted(ids)
    stored = next(one for one in found["passages"] if one["passage_id"] == "ch1-sec2-p1")
    assert (stored["chapter"], stored["section"], stored["page"]) == ("Chapter 1: Beans", "1.2 Storing", 4)


def test_neighbours_of_a_passage_are_those_that_one_reads_before_and_after_it(server: Any) -> None:
    def passage(name: str) -> dict[str, Any]:
        return dict(call(server, "get_passage", passage_id=name).structured_content)

    walked, name = list[str](), "ch0-sec1-p1"
    while name:
        shown = passage(name)
        assert not walked or shown["previous_id"] == walked[-1]
        walked.append(name)
        name = shown["next_id"]
    assert walked[0] == "ch0-sec1-p1"
    assert [one for one in walked if one.endswith("-p1")] == [
        "ch0-sec1-p1", "ch1-sec0-p1", "ch1-sec1-p1", "ch1-sec2-p1", "ch2-sec0-p1", "ch2-sec1-p1",
    ]  # fmt: skip
    shown = passage("ch1-sec2-p1")
    assert (shown["chapter"], shown["section"], shown["source_file"]) == (
        "Chapter 1: Beans",
        "1.2 Storing",
        "src/storing.md",
    )


def test_an_edit_in_one_chapter_moves_no_passage_of_another_and_embeds_what_changed(book: Book) -> None:
    before = book.texts()
    book.write("src/storing.md", "# Storing\n\nKeep them cold.\n\n## Frozen\n\nFrozen beans keep for a year.\n")
    summary = build_json(book.wiki)
    after = book.texts()
    moved = {name for name in before | after if before.get(name) != after.get(name)}
    assert moved == {"ch1-sec2-p1", "ch1-sec2-p2"}
    assert summary["tenants"]["demo"]["texts_embedded"] == 2


def test_an_edited_paragraph_of_a_long_passage_embeds_only_the_windows_that_it_changes(book: Book) -> None:
    before = book.vector_keys()
    assert all(len(keys) > 2 for name, keys in before.items() if name.startswith("ch1-sec1"))
    assert len(before["ch2-sec0-p1"]) == 1
    book.write("src/roasting.md", FILES["src/roasting.md"].replace("At step 5 the roaster", "At step 5 a roaster"))
    summary = build_json(book.wiki)
    after = book.vector_keys()
    edited = [name for name in before if before[name] != after[name]]
    changed = {*after[edited[0]]} - {*before[edited[0]]}
    assert edited == ["ch1-sec1-p1"]
    assert len(changed) == 1 < len(after[edited[0]])
    assert summary["tenants"]["demo"]["texts_embedded"] == 1
