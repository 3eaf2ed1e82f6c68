"""Versions of documents through the build: what is the same costs nothing, what differs stays apart, what is gone is
proved gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.building import build_json
from support.envelopes import Wiki

from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import DEDUP_MAP, GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import load_config
from rag_serving.documents.inbox import Entry, Inbox, Upload, deletion_for, inboxes_of

ANN = Principal("demo", "ann", frozenset({"hr"}), frozenset({"editor"}))
NOTES = (
    "The statements are made under the rules that the company has followed in each quarter since it was founded, and "
    "are not audited. Amounts are in millions unless it is said otherwise, and may not add up, because each of them is "
    "rounded by itself. Whoever reads them should read the annual report, too, which names all risks."
)
RISKS = (
    "Suppliers may fail, customers may leave, and laws may change; the company insures itself against each where that "
    "can be had, and keeps a reserve for the others, which the board looks at in every meeting of the quarter."
)
REPORT = "# Report\n\n## Basis\n\n{notes}\n\n## Results\n\n{results}\n\n## Risks\n\n{risks}\n"
RESULTS = (
    "Revenue of the harbour business came to {revenue} million in the quarter, costs to {costs} million, and the "
    "result before taxes to {result} million; the board proposes to pay no dividend for it and to repay the loan."
)


def report(revenue: int, costs: int, risks: str = RISKS) -> bytes:
    results = RESULTS.format(revenue=revenue, costs=costs, result=revenue - costs)
    return REPORT.format(notes=NOTES, results=results, risks=risks).encode()


class Desk:
    """An inbox as the only source, and builds of it."""

    def __init__(self, folder: Path) -> None:
        self.wiki = Wiki(folder)
        self.wiki.configure(sources={"uploads": {"kind": "files", "tenant": "demo"}})

    @property
    def inbox(self) -> Inbox:
        (inbox,) = inboxes_of(load_config(self.wiki.config_path), "demo")
        return inbox

    def put(self, name: str, content: bytes, document_id: str | None = None) -> Entry:
        spool = self.inbox.files.spool()
        spool.write(content)
        return self.inbox.receive(ANN, Upload(spool, name, "everyone", document_id=document_id), 100)

    def build(self) -> dict[str, Any]:
        summary = build_json(self.wiki)["tenants"]["demo"]
        assert isinstance(summary, dict)
        return summary

    def current(self) -> str:
        current = Store(self.wiki.home).current("demo")
        assert current is not None
        return current

    def published(self) -> list[dict[str, Any]]:
        folder = Store(self.wiki.home).generation("demo", self.current())
        return [dict(row) for row in read_table(folder / "chunks.parquet", GENERATION_CHUNKS).to_pylist()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_two_quarters_share_their_boilerplate_and_not_their_figures(desk: Desk) -> None:
    first, second = desk.put("Report Q1.md", report(120, 80)), desk.put("Report Q2.md", report(131, 84))
    assert desk.build()["duplicates_dropped"] == 2
    rows = desk.published()
    assert {row["page_id"] for row in rows if row["text"].startswith("Revenue")} == {first.page_id, second.page_id}
    assert sorted(row["text"] for row in rows if not row["text"].startswith("Revenue")) == sorted([NOTES, RISKS])
    dropped = read_table(Store(desk.wiki.home).tenant("demo") / "dedup_map.parquet", DEDUP_MAP)
    assert set(dropped["jaccard"].to_pylist()) == {1.0}


def test_the_same_file_again_costs_nothing_and_a_new_version_what_changed(desk: Desk) -> None:
    first = desk.put("Report.md", report(120, 80))
    desk.build()
    generation = desk.current()
    again, renamed = desk.put("Report.md", report(120, 80)), desk.put("Copy of report.md", report(120, 80))
    assert {again.document.document_id, renamed.document.document_id} == {first.document.document_id}
    summary = desk.build()
    assert (summary["texts_embedded"], summary["shards_built"], summary["published"]) == (0, 0, False)
    assert desk.current() == generation

    same = desk.put("Report.md", report(120, 80), document_id=first.document.document_id)
    assert same.document.current.version == 1
    assert desk.build()["texts_embedded"] == 0
    replaced = desk.put("Report.md", report(120, 80, risks="No risk is known."), first.document.document_id)
    assert (replaced.document.current.version, replaced.status) == (2, "received")
    assert desk.build()["texts_embedded"] == 1
    assert {row["version"] for row in desk.published()} == {2}
    assert {row["page_id"] for row in desk.published()} == {first.page_id}

    desk.inbox.delete(ANN, first.document.document_id)
    desk.build()
    proof = deletion_for(Store(desk.wiki.home), desk.inbox, ANN, first.document.document_id)
    assert proof is not None
    assert proof.sha256 == [version.sha256 for version in replaced.document.versions]
    assert (proof.generation, desk.published()) == (desk.current(), [])
    assert generation in proof.kept_in
