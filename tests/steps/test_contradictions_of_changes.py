"""Contradictions after pages changed: comparing what changed gives what comparing all would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import date
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from rag_assets.steps.contradictions import values
from rag_assets.steps.contradictions.examination import Examination, ExaminedPages, examined
from rag_assets.steps.dedup import fingerprints
from rag_serving.artifacts.schema import PAGES, SECTIONS
from rag_serving.records.passages import Chunk

TODAY = date(2026, 3, 10)
STATED = (
    *("Every gate recording is kept for {} days on the log server.", "The pool size of the broker is {} by default."),
    *("`pool.max_size` is {} by default.", "Owner: Ann Berg\n\nReview by: 2026-01-0{}", "- Retention: {} hours"),
    *("A cancelled call can be reopened.", "A cancelled call cannot be reopened."),
    "| Name | Default | Limit |\n| --- | --- | --- |\n| pool.max_size | {} | 9 |\n| berthd | {} | 9 |",
    " ".join(f"Step {step} moves the container from block {step} to the quay {{}}." for step in range(9)),
)
Page = tuple[str, list[str]]
"""Its title, and the text of each passage."""


def edited(random: Random, edits: int) -> Iterator[dict[str, Page]]:
    """Pages to which one is added, or of which one is changed, renamed or removed."""
    pages: dict[str, Page] = {}
    for _ in range(edits):
        page_id = random.choice("abcdefgh")
        title, texts = pages.pop(page_id, (f"Gate {page_id}", []))
        edit = random.choice(("change", "change", "change", "rename", "remove"))
        if edit == "change" or not texts:
            texts = [text.replace("{}", random.choice("35")) for text in random.choices(STATED, k=3)]
        elif edit == "rename":
            title = random.choice((f"Gate {page_id}", f"Gate {page_id} 2.0", "Yard", "Gate (deprecated)"))
        if edit != "remove":
            pages[page_id] = (title, texts)
        yield dict(sorted(pages.items()))


def corpus_of(pages: dict[str, Page]) -> ExaminedPages:
    rows = [
        Chunk(
            *(f"{page_id}:1:{place}", page_id, 1, place, "ENG", title, (title, "Limits"), "a", f"/{page_id}", text, 0),
            *(len(text), "paragraph"),
            text_hash=text,
        )
        for page_id, (title, texts) in pages.items()
        for place, text in enumerate(texts)
    ]
    names = [one.name for one in fields(Chunk) if one.name != "also_at"]
    table = pa.Table.from_pylist([{name: getattr(row, name) for name in names} for row in rows])
    return ExaminedPages(table, fingerprints([row.text for row in rows]), 0.92, SECTIONS.empty(), PAGES.empty())


def rows_of(examination: Examination) -> list[str]:
    return sorted(map(repr, examination.kept.to_pylist()))


@pytest.mark.parametrize(("most_members", "versions"), [(3, True), (40, False)])
@settings(max_examples=examples(0.5))
@given(seed=st.integers(0, 1_000_000))
def test_changed_pages_give_what_all_pages_give(most_members: int, versions: bool, seed: int) -> None:
    before = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_MOST_MEMBERS", most_members)  # blocks become too large, and small again
        for corpus in map(corpus_of, filter(None, edited(Random(seed), 8))):
            again = examined(corpus, TODAY, before, versions=versions)
            whole = examined(corpus, TODAY, versions=versions)
            assert again.findings == whole.findings
            assert rows_of(again) == rows_of(whole)
            before = again.kept
