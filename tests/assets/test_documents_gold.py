"""The sample's docs, book and files are asked before they are published, and their gold set stands in them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from evals.evaluation.gold import check_gold, live_pages, read_gold
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config

ROOT = Path(__file__).parents[2]
GOLD = read_gold(ROOT / "evals" / "gold" / "documents.yaml")


def test_every_entry_stands_in_the_pages(published_documents: Path) -> None:
    config = load_config(published_documents / "app.yaml")
    stale = check_gold(GOLD, live_pages(Store(config.home), config, "port"))
    assert [one.line() for one in stale] == []


def test_every_kind_of_source_is_asked_of_and_what_no_page_has_too() -> None:
    tags = [tag for question in GOLD.questions for tag in question.tags]
    assert all(tags.count(kind) >= 4 for kind in ("docs", "book", "files", "cell", "unanswerable"))
    assert {"pdf", "docx", "xlsx", "csv"} <= set(tags)


@pytest.mark.nightly  # by day the entries stand in the pages, and test_app_documentation.py asks
def test_what_is_published_was_asked_all_of_it_and_reached_the_floors(published_documents: Path) -> None:
    (report,) = (published_documents / "home").glob("tenants/port/generations/*/eval_report.json")
    told = json.loads(report.read_text(encoding="utf-8"))
    assert {case["id"] for case in told["cases"]} == {question.id for question in GOLD.questions}
    floors = tomllib.loads((ROOT / "evals" / "gates_documents.toml").read_text(encoding="utf-8"))["floors"]
    gates = {gate["gate"].removeprefix("floor of "): gate["detail"] for gate in told["gates"] if gate["passed"]}
    assert gates.keys() == floors.keys() - {"text_kept"}  # which needs a generation before this one
    assert all(f"at least {floors[measure]:g} " in detail for measure, detail in gates.items())
