"""What `citelock build` says of itself: sources that failed, contexts that failed, candidates that were stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.building import build, build_json
from support.envelopes import DEPLOY, Wiki, envelope
from support.stand_in_chat import MODEL

from rag_assets.build.summary import (
    Summary,
    estimate_line,
    left_out,
    source_counts,
    source_line,
    tenant_facts,
    tenant_line,
)
from rag_assets.llm_contexts.tenant import note_run, read_last_run
from rag_assets.runs import RunOutcome
from rag_assets.state.records import ChunksState, PagesState, update_state
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, write_json, write_table
from rag_serving.config.models import Context
from rag_serving.indexes.catalog import list_generations


def built_before(store: Store) -> None:
    """A source that was synced, as its state files say."""
    pages = PagesState(fingerprint="a", pages_seen=9, pages_changed=4, pages_deleted=1, pages_failed=0)
    chunks = ChunksState(settings="", cut_by="", fingerprint="a", digest="", chunks=20, chunks_new=5)
    update_state(store, "eng", pages=pages, chunks=chunks)
    write_table(store.source("eng") / "chunks.parquet", CHUNKS.empty(), CHUNKS)


def test_a_failed_source_says_so_and_what_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    built_before(store)
    counts = source_counts(store, "eng", RunOutcome("no route"), "no route")
    assert (counts["error"], counts["pages_seen"], counts["chunks"]) == ("no route", 9, 20)
    assert (counts["pages_changed"], counts["pages_deleted"]) == (0, 0)  # those of the sync before
    line = source_line(counts)
    assert line.startswith(f"failed; kept from {counts['kept_from']}")
    assert line.endswith(": 9 pages, 20 chunks")


def test_a_source_that_failed_at_once_has_nothing_to_keep(tmp_path: Path) -> None:
    counts = source_counts(Store(tmp_path), "gone", None, "no folder")
    assert counts["kept_from"] is None
    assert source_line(counts) == "failed; it has no earlier sync, so nothing of it is indexed"


@pytest.mark.parametrize(
    ("readers", "told"),
    [
        (["everyone", "group:hr", "nobody"], None),
        (["group:hr", "nobody"], "0 of 2 passages are readable for everyone; who asks needs --user or --group"),
        (["nobody"] * 1200, "nobody may read any of its 1,200 passages; `citelock doctor` says why"),
    ],
)
def test_a_source_that_nobody_can_read_without_a_name_says_so(
    tmp_path: Path, readers: list[str], told: str | None
) -> None:
    store = Store(tmp_path)
    built_before(store)
    state = ChunksState(settings="", cut_by="", fingerprint=None, digest="", chunks=len(readers), chunks_new=0)
    update_state(store, "eng", chunks=state)
    rows = [dict.fromkeys(CHUNKS.columns.names) | {"readers": one} for one in readers]
    write_table(store.source("eng") / "chunks.parquet", CHUNKS.table([*rows]), CHUNKS)
    summary = Summary(sources={"eng": source_counts(store, "eng", None)})
    assert summary.sources["eng"]["chunks_for_nobody"] == readers.count("nobody")
    lines, payload = summary.lines(), summary.payload()
    if told is None:
        assert ("notes" in payload, len(lines)) == (False, 2)
        return
    assert lines[1].startswith(f"eng  {told}")
    assert payload["notes"]["eng"].startswith(told)


def test_an_estimate_without_a_model_says_that_none_is_needed() -> None:
    assert estimate_line(None) == "contexts need no model (`context.provider`); nothing was asked or published"


def test_contexts_that_failed_are_counted_with_their_most_frequent_reason(tmp_path: Path) -> None:
    store = Store(tmp_path)
    note_run(store, "demo", {"1": "it invents 1987", "2": "no chat server answers", "3": "no chat server answers"})
    facts = tenant_facts(store, "demo", None)
    assert (facts["contexts_failed"], facts["contexts_failure"]) == (3, "no chat server answers")
    assert "3 chunks without a context of the model" in tenant_line(facts)
    assert "--retry-contexts" in tenant_line(facts)
    note_run(store, "demo", {})
    assert "contexts_failure" not in tenant_facts(store, "demo", None)


@pytest.mark.parametrize("content", ["", "[]", '{"failures": "many"}', '{"failures": null}'])
def test_a_damaged_note_of_failures_counts_as_none(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    note_run(store, "demo", {"1": "no answer"})
    (store.tenant("demo") / "contexts.json").write_text(content)
    assert read_last_run(store, "demo").failures == 0


def test_the_build_says_in_text_and_json_that_a_source_failed_and_that_the_model_was_away(
    wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "max_retries", 0)
    wiki.configure(
        sources={"eng": wiki.source("eng"), "gone": wiki.source("gone")},
        context={"provider": "ollama", "model": MODEL, "base_url": "http://127.0.0.1:1"},
    )
    run = build(wiki, code=1)
    assert "gone  failed; it has no earlier sync" in run.stdout
    assert "demo  generation " in run.stdout
    assert "3 chunks without a context of the model, title and headings instead: " in run.stdout
    summary = build_json(wiki, code=1)
    assert summary["tenants"]["demo"]["contexts_failed"] == 3
    assert "no chat server answers at http://127.0.0.1:1" in summary["tenants"]["demo"]["contexts_failure"]
    assert "error" in summary["sources"]["gone"]
    assert "error" not in summary["sources"]["eng"]


def test_a_candidate_that_a_gate_stopped_is_named_with_its_own_gates(built_wiki: Wiki) -> None:
    folder = built_wiki.folder / "gold"
    folder.mkdir()
    strict = built_wiki.folder / "strict.toml"
    built_wiki.configure(evaluation={"gold": str(folder), "gates": str(strict)})
    store = Store(built_wiki.home)
    first = store.current("demo")
    assert [info.gates for info in list_generations(store, "demo")] == ["no gold set: nothing was asked"]
    question = {
        "id": "whale",
        "question": "Which whale sleeps in the harbour?",
        "answerable": True,
        "answer": "None.",
        "page": "201",
        "anchor": "On-call",
        "quote": "The pager goes to whoever is on call this week",
    }
    (folder / "demo.yaml").write_text(yaml.safe_dump({"tenant": "demo", "questions": [question]}))
    strict.write_text("[floors]\nanswerability = 1.0\n")
    built_wiki.write("eng", envelope("101", "Deploy guide", DEPLOY.replace("ten minutes", "an hour"), version=2))
    run = build(built_wiki, "--json", code=1)
    stopped = json.loads(run.stdout)["tenants"]["demo"]
    assert (stopped["generation"], stopped["published"]) == (first, False)
    assert stopped["candidate"] not in (None, first)
    assert [name for name, passed in stopped["gates"].items() if not passed] == ["quality: floor of answerability"]
    line = tenant_line(stopped)
    assert f"generation {first} stays published" in line
    assert f"candidate {stopped['candidate']} is not published (quality: floor of answerability)" in line


def test_what_is_not_there_is_told_with_its_reason(tmp_path: Path) -> None:
    store = Store(tmp_path)
    excluded = {f"d{number}": f"d{number}.md: it is a draft" for number in range(5)}
    write_json(
        store.source("docs") / "sync_state.json",
        {
            "state": {},
            "enumerated": 6,
            "excluded": excluded,
            "failed": {"x": "x.pdf: it is broken"},
            "hidden": {},
            "notes": [],
            "fingerprint": None,
        },
    )
    assert left_out(store, "docs") == [
        "failed: x.pdf: it is broken",
        *(f"left out: d{number}.md: it is a draft" for number in range(3)),
        f"and 2 more, in {store.source('docs') / 'sync_state.json'}",
    ]
    counts = {**source_counts(store, "docs", None), "pages_seen": 6}
    assert counts["pages_excluded"] == 5
    assert source_line(counts) == "6 pages (nothing changed, 5 left out), 0 chunks"
    assert left_out(store, "none") == []
