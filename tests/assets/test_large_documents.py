"""A build with documents that are too much: these are cut or left out and said, everything else is as ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.building import build_json
from support.envelopes import SECTION, Wiki, envelope

from rag_assets.monitoring.source_health import examine
from rag_assets.state.records import read_last_sync, read_state
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import load_config
from rag_serving.config.sections import Documents

LIMITS = {"max_seconds": 1, "max_memory_mb": 128}
SLOW = "<p " + " ".join(f'a{number}=""' for number in range(200_000)) + ">x"


def test_what_is_too_much_is_told_and_costs_no_other_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Documents, "max_headings", 50)
    monkeypatch.setattr(Documents, "max_cells", 8_100)
    wiki = Wiki(tmp_path)
    wiki.configure(documents=LIMITS, sources={"eng": wiki.source("eng", attachments="text")})
    wiki.write("eng", envelope("103", "Long", "".join(SECTION.format(heading=n, text=f"word{n}") for n in range(2000))))
    wiki.write("eng", envelope("104", "Slow", SLOW))
    files = wiki.folder / "eng" / "attachments" / "101"
    files.mkdir(parents=True)
    (files / "slow.html").write_text(SLOW)
    (files / "wide.csv").write_text("," * 4000 + "x\n" + "a\n" * 24_000)
    (files / "ports.csv").write_text("port,berths\nBusan,40\n")

    counts = build_json(wiki)["sources"]["eng"]
    assert (counts["pages_seen"], counts["pages_failed"], counts["pages_cut"]) == (7, 1, 2)
    store, config = Store(wiki.home), load_config(wiki.config_path)
    sections, sync = read_state(store, "eng").sections, read_last_sync(store.source("eng"))
    assert sections is not None
    assert sync is not None
    assert sections.failed == {"104": "it exceeds 1 s of parsing (documents.max_seconds)"}
    assert sections.cut.pop("103") == "cut at 50 headings (documents.max_headings)"
    assert [*sections.cut.values()] == ["cut at 8,100 table cells (documents.max_cells)"]
    why = "slow.html of page 101: it exceeds 1 s of parsing (documents.max_seconds)"
    assert [*sync.excluded.values()] == [why]
    texts = read_table(store.source("eng") / "chunks.parquet", CHUNKS)["text"].to_pylist()
    assert sum("word" in text for text in texts) == 50
    assert any("To roll back a release" in text for text in texts)
    assert any("Busan" in text for text in texts)
    details = {one.name: one.detail for one in examine(config)}
    assert "1 excluded, 1 failed, 2 cut short" in details["sync eng"]
