"""The sample wiki and its gold questions hold together: what a question expects stands where it says."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from rag_assets.sources import open_source
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import EVERYONE, Principal, satisfies
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.loading import load_config
from rag_serving.config.models import Embedding
from rag_serving.models import open_tokenizer

ROOT = Path(__file__).parents[1]
GOLD = yaml.safe_load((ROOT / "evals/gold/sample.yaml").read_text(encoding="utf-8"))["questions"]
ANSWERABLE = [question for question in GOLD if question["answerable"]]


@functools.cache
def pages() -> pa.Table:
    config = load_config(ROOT / "config/app.yaml")
    tables = []
    for key, source in config.sources.items():
        if getattr(source, "path", None) is None:  # the inbox
            continue
        settings = source.model_copy(update={"path": ROOT / str(getattr(source, "path", ""))})
        tables.append(open_source(key, settings, Path("unused")).sync(None, {}).pages)
    return pa.concat_tables(tables).select(PAGES.columns.names)


@functools.cache
def chunks() -> list[dict[str, Any]]:
    sections = build_sections(pages())
    assert not sections.failures
    return build_chunks(sections.sections, pages(), open_tokenizer(Embedding())).to_pylist()


def test_there_are_enough_questions_and_a_quarter_has_no_answer() -> None:
    assert len(GOLD) >= 40
    assert len(GOLD) - len(ANSWERABLE) >= len(GOLD) / 4
    assert len({question["id"] for question in GOLD}) == len(GOLD)


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question["id"])
def test_the_quote_stands_below_its_anchor_where_the_asker_may_read(question: dict[str, Any]) -> None:
    asker = Principal("demo", question.get("user"), frozenset(question.get("groups", ())))
    holders = [
        chunk
        for chunk in chunks()
        if chunk["page_id"] == str(question["page"]) and " ".join(question["quote"].split()) in plain(chunk["text"])
    ]
    assert question["anchor"] in {chunk["anchor"] for chunk in holders}
    assert all(satisfies(asker, chunk["readers"]) for chunk in holders)


@pytest.mark.parametrize("question", [q for q in ANSWERABLE if "also" in q], ids=lambda q: q["id"])
def test_the_quote_stands_in_the_other_places_as_well(question: dict[str, Any]) -> None:
    holders = {(c["page_id"], c["anchor"]) for c in chunks() if question["quote"] in plain(c["text"])}
    assert {(place["page"], place["anchor"]) for place in question["also"]} <= holders


@pytest.mark.parametrize("question", [q for q in ANSWERABLE if "restricted" in q["tags"]], ids=lambda q: q["id"])
def test_what_a_restricted_question_asks_is_not_for_everyone(question: dict[str, Any]) -> None:
    assert all(chunk["readers"] != EVERYONE for chunk in chunks() if chunk["page_id"] == str(question["page"]))


def plain(text: str) -> str:
    return " ".join(text.split())
