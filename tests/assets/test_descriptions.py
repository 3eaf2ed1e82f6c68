"""What Dagster's UI takes for Markdown brings no image, link or HTML of a page, of a server or of a person."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from evals.evaluation.candidate import GateVerdict
from rag_assets import metadata
from rag_assets.asset_checks import GENERATION, chunks_have_anchors, generation_results, gold_stands, quality_gates
from rag_assets.publishing.checks import CheckResult

HOSTILE = (
    "![a](http://evil.example/a.png) <img src=http://evil.example/b> [c](http://evil.example) <b>http://x:y@h/</b>"
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


def results() -> Iterator[dg.AssetCheckResult]:
    yield from generation_results([CheckResult(spec.name, False, HOSTILE, {}) for spec in GENERATION])
    yield quality_gates([GateVerdict("recall", False, HOSTILE, (HOSTILE,))], HOSTILE, {})
    yield gold_stands([HOSTILE], 1)
    yield chunks_have_anchors(pa.table({"anchor": [""], "url": [""], "chunk_id": [HOSTILE]}))


@pytest.mark.parametrize("result", list(results()), ids=lambda result: str(result.check_name))
def test_foreign_text_is_shown_as_it_is(result: dg.AssetCheckResult) -> None:
    texts = [str(result.description)]
    texts += [str(each.value) for each in result.metadata.values() if isinstance(each, dg.MarkdownMetadataValue)]
    assert "evil.example" in texts[0]
    for text in texts:
        html = MARKDOWN.render(text)
        assert not any(mark in html for mark in ("<img", "<a", "<b>"))
        assert "x:y@" not in html


def test_lists_tables_and_lines_are_shown_as_they_are() -> None:
    for text in (metadata.described(HOSTILE), metadata.listed([HOSTILE]), metadata.named_reasons({HOSTILE: HOSTILE})):
        assert not any(mark in MARKDOWN.render(text) for mark in ("<img", "<a", "<b>"))
