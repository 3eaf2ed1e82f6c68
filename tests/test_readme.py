"""What the first screen of README says beside others: our figure is the measured one, theirs cite without a quote."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_our_figure_is_the_one_that_was_measured() -> None:
    (said,) = re.findall(r"SciFact, nDCG@10: (\.\d{3})", README)
    measured = json.loads((ROOT / "docs" / "benchmarks.json").read_text())["quality"]["scifact"]["rankings"]["hybrid"]
    assert f"{measured['ndcg']['10']:.3f}".removeprefix("0") == said


def test_a_citation_of_openais_file_search_has_no_quote() -> None:
    """As their own client knows it; where that changes, README must."""
    from openai.types.responses.response_output_text import AnnotationFileCitation

    assert "quote" not in AnnotationFileCitation.model_fields
    assert "cites a file, not its words" in README


def test_the_first_screen_is_one() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert lines.index("## What it does") <= 40
