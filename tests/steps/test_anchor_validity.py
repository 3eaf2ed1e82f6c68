"""The share of sections that a link surely lands on."""

from __future__ import annotations

from typing import Any

from rag_assets.steps.sections.anchors import anchor_figures
from rag_serving.artifacts.schema import SECTIONS


def section(anchor: str, rule: str, included_from: str | None = None, page_id: str = "1") -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SECTIONS.columns.names)
    return row | {"page_id": page_id, "anchor": anchor, "anchor_rule": rule, "included_from": included_from}


def test_an_anchor_counts_when_it_is_alone_in_its_page_and_no_guess() -> None:
    rows: list[Any] = [
        section("a", "cloud"),
        section("a", "cloud", page_id="2"),
        section("a", "cloud", included_from="9"),
        section("b.1", "cloud-repeated"),
        section("c", "html-id"),
        section("c", "html-above"),
    ]
    figures = anchor_figures(SECTIONS.table(rows))
    assert (figures.anchors, figures.repeated, figures.unconfirmed, figures.valid) == (6, 2, 2, 3)
    assert figures.validity == 0.5
    assert figures.rules == {"cloud": 3, "cloud-repeated": 1, "html-id": 1, "html-above": 1}


def test_without_sections_nothing_is_wrong() -> None:
    assert anchor_figures(SECTIONS.empty()).validity == 1.0
