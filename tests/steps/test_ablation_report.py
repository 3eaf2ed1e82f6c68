"""The report of an ablation: every variant beside the defaults."""

from __future__ import annotations

from typing import Any

from evals.reports.ablation import ablation_report, differences
from evals.reports.report import markdown

ROWS: list[dict[str, Any]] = [
    {"variant": "defaults", "answerability": 0.9, "ndcg@10": 0.8, "p": 1.0, "total_ms_p50": 20.0},
    {"variant": "lexical only", "answerability": 0.6, "ndcg@10": 0.7, "p": 0.01, "total_ms_p50": 5.0},
    {"variant": "with RM3", "answerability": 0.91, "ndcg@10": 0.8, "p": 0.7, "total_ms_p50": 25.0},
]


def test_each_variant_tells_its_means_and_what_it_differs_by() -> None:
    text = markdown(ablation_report("demo", "g1", ROWS))
    assert "with 2 stages changed" in text
    assert "| lexical only | 0.600 | 0.700 | 0.010 | 5.000 |" in text
    assert "| lexical only | -0.300 | -0.100 | yes |" in text
    assert "| with RM3 | 0.010 | 0.000 | no |" in text


def test_variants_that_change_nothing_are_named_and_have_no_figures() -> None:
    text = markdown(ablation_report("demo", "g1", [*ROWS, {"variant": "without the sidecar", "same_as": "defaults"}]))
    assert "with 2 stages changed" in text
    assert "change nothing of this configuration: without the sidecar." in text
    assert "| without the sidecar" not in text


def test_plots_show_the_worst_first() -> None:
    assert list(differences(ROWS, "answerability")) == ["lexical only", "with RM3"]


def test_without_a_gold_set_that_is_told() -> None:
    assert "no gold set" in markdown(ablation_report("demo", "g1", []))
