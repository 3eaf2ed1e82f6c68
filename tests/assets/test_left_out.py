"""A document that a check finds at fault is left out, with a reason; the others are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.building import build, build_json
from support.envelopes import SECTION, Wiki, envelope
from support.examples import by_day

from rag_assets.making import generations
from rag_assets.publishing.checks import CheckResult, check_generation, documents_at_fault, few, pages_of
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import load_config
from rag_serving.config.sections import Ingestion
from rag_serving.documents.inbox import Upload, inboxes_of

ANN = Principal("demo", "ann", frozenset({"hr"}), frozenset({"editor"}))
AT_FAULT = "it failed the check 'vectors' before publication"


@pytest.fixture
def wiki(built_wiki: Wiki) -> Wiki:
    return built_wiki


def published(wiki: Wiki) -> set[str]:
    store = Store(wiki.home)
    folder = store.generation("demo", store.current("demo") or "")
    return set(read_table(folder / "chunks.parquet", GENERATION_CHUNKS)["page_id"].to_pylist())


def faulty(patch: pytest.MonkeyPatch, *names: str, pages: Sequence[str] = ("103",)) -> None:
    """Let checks fail as long as pages are in the generation; one named `files` is to blame on no page."""

    def checked(store: Store, tenant: str, generation_id: str, *more: Any) -> list[CheckResult]:
        results = check_generation(store, tenant, generation_id, *more)
        folder = store.generation(tenant, generation_id)
        there = set(read_table(folder / "chunks.parquet", GENERATION_CHUNKS)["page_id"].to_pylist())
        found = [page for page in pages if page in there]
        named = {name: [] if name == "files" else found for name in names if found}
        return [replace(one, passed=False, pages=named[one.name]) if one.name in named else one for one in results]

    patch.setattr(generations, "check_generation", checked)


def write_third(wiki: Wiki, version: int = 1) -> None:
    wiki.write("eng", envelope("103", "Third", SECTION.format(heading="More", text="A third page."), version=version))


def test_the_rest_is_published_in_the_same_build_and_the_document_stays_out(
    wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_third(wiki)
    wiki.write("eng", envelope("104", "Fourth", SECTION.format(heading="Fourth", text="A fourth page.")))
    with monkeypatch.context() as patch:
        faulty(patch, "vectors")
        facts = build_json(wiki)["tenants"]["demo"]
    assert (facts["published"], facts["left_out"]) == (True, {"103": AT_FAULT})
    assert published(wiki) == {"101", "102", "104", "201"}
    again = build(wiki)
    assert f"103 is left out: {AT_FAULT}" in again.stdout
    assert "step_seconds" not in build_json(wiki)
    write_third(wiki, version=2)
    assert "left_out" not in build_json(wiki)["tenants"]["demo"]
    assert "103" in published(wiki)


@pytest.mark.parametrize(
    ("checks", "pages"),
    [
        (["vectors"], ["101", "103"]),
        pytest.param(["vectors", "files"], ["103"], marks=pytest.mark.nightly),  # which fault, is told below
    ],
)
def test_more_than_a_few_documents_or_another_fault_stop_the_build(
    wiki: Wiki, monkeypatch: pytest.MonkeyPatch, checks: list[str], pages: list[str]
) -> None:
    write_third(wiki)
    faulty(monkeypatch, *checks, pages=pages)
    facts = build_json(wiki, code=1)["tenants"]["demo"]
    assert (facts["published"], "left_out" in facts) == (False, False)
    assert published(wiki) == {"101", "102", "201"}


def test_pages_of_which_none_can_be_read_replace_nothing_and_fail_the_build(
    wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Store(wiki.home).current("demo")
    monkeypatch.setattr(Ingestion, "max_page_bytes", 10)
    assert "no page of tenant 'demo' could be read (3 failed, such as 101: " in build(wiki, code=1).output
    assert Store(wiki.home).current("demo") == before
    assert published(wiki) == {"101", "102", "201"}


@pytest.mark.parametrize("name", by_day({"deep.json"}, ["deep.json", "deep.txt", "deep.md"]))
def test_an_upload_without_words_stops_nobody_and_says_why_it_is_not_searchable(wiki: Wiki, name: str) -> None:
    sources = {key: wiki.source(key) for key in ("eng", "ops")}
    wiki.configure(sources={**sources, "uploads": {"kind": "files", "tenant": "demo"}})
    (inbox,) = inboxes_of(load_config(wiki.config_path), "demo")

    def put(file: str, content: bytes) -> str:
        spool = inbox.files.spool()
        spool.write(content)
        return inbox.receive(ANN, Upload(spool, file, "everyone"), 100).document.document_id

    deep, leave = put(name, b"[" * 30_000 + b"]" * 30_000), put("leave.md", b"# Leave\n\nSix months at most.\n")
    assert build_json(wiki)["tenants"]["demo"]["published"]
    told = {key: entry.payload() for key, entry in inbox.entries().items()}
    assert (told[deep]["status"], told[deep]["reason"]) == ("excluded", "its text has no words")
    assert (told[leave]["status"], told[leave]["reason"]) == ("published", None)


def test_a_failed_check_that_names_no_page_leaves_nothing_out() -> None:
    named = CheckResult("vectors", False, "", pages=["1"])
    assert documents_at_fault([named, CheckResult("ids", True, "")]) == {"1": AT_FAULT}
    assert documents_at_fault([named, CheckResult("files", False, "")]) == {}
    assert documents_at_fault([CheckResult("ids", True, "")]) == {}
    assert pages_of(["a:b:1:0", "a:b:1:1#3", "2:1:0"]) == ["a:b", "2"]
    assert (few(["1", "1"], 20), few(["1"], 3), few(["1", "2"], 10)) == (["1"], ["1"], [])
