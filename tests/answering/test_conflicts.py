"""Passages that give another figure for what was asked."""

from __future__ import annotations

import pytest
from support.passages import lock_of

from rag_serving.answering.extraction.conflicts import differing, measures
from rag_serving.answering.extraction.extractor import Extraction, extract
from rag_serving.answering.extraction.features import QuestionFeatures
from rag_serving.answering.verification.verifier import verify
from rag_serving.records import Claim, Draft, Lock
from rag_serving.text.analyzer import analyze

QUESTION = "How long are audit logs kept?"
FIRST = "The desk reads them. Audit logs are kept for 30 days."


def others(question: str, lock: Lock, *written: Claim) -> list[str]:
    """What is told of other pages than the one that extraction, or the written claim, cites."""
    weights = dict.fromkeys(analyze(question), 1.0)
    draft = (
        Draft(written, "model") if written else extract(question, lock, weights, analyze, Extraction(max_citations=1))
    )
    verdicts = verify(draft, lock)
    assert all(verdict.outcome != "dropped" for verdict in verdicts)
    found = differing(QuestionFeatures.of(question, weights, analyze), lock, verdicts, analyze, 12)
    if found is None:
        return []
    told = verify(Draft(found.beside(draft.claims), "both"), lock)
    assert all(verdict.outcome != "dropped" for verdict in told)
    return [claim.text for claim in found.others]


@pytest.mark.parametrize(
    "other",
    [
        "Audit logs are kept for 90 days.",
        "Audit logs are kept for six weeks.",
        "All audit logs are kept for 2 years.",
    ],
)
def test_another_page_with_another_figure_is_told(other: str) -> None:
    assert others(QUESTION, lock_of([FIRST, other])) == [other]


@pytest.mark.parametrize(
    "other",
    [
        "Audit logs are kept for one month or 30 days.",
        "Audit logs are kept for 720 hours.",
        "Audit logs are kept in Bergen.",
        "Audit logs are kept for 30 days.",
        "Backups are kept for 90 days.",
        "The audit of the logs takes 90 days and nobody knows where the people who do it have kept it.",
        "Audit logs are kept for 90 GB.",
        "Audit logs are kept for 14 days in Oslo and for 60 days in Bergen.",
    ],
)
def test_the_same_figure_or_one_of_something_else_is_no_difference(other: str) -> None:
    assert others(QUESTION, lock_of([FIRST, other])) == []


def test_a_page_does_not_differ_from_itself() -> None:
    assert others(QUESTION, lock_of([FIRST + "\n\nAudit logs are kept for 90 days."])) == []


def test_who_does_not_ask_for_a_figure_is_not_bothered() -> None:
    assert others("Why are audit logs kept?", lock_of([FIRST, "Audit logs are kept for 90 days."])) == []


def test_each_page_that_differs_is_told_once() -> None:
    lock = lock_of([FIRST, "Audit logs are kept for 90 days.", "Audit logs are kept for 10 days."])
    assert len(others(QUESTION, lock)) == 2


def test_what_a_model_already_cites_is_not_told_again() -> None:
    lock = lock_of([FIRST, "Audit logs are kept for 90 days."])
    claims = (
        Claim("They stay for 30 days.", 1, "Audit logs are kept for 30 days"),
        Claim("Elsewhere it is 90 days.", 2, "Audit logs are kept for 90 days"),
    )
    assert others(QUESTION, lock, *claims) == ["Elsewhere it is 90 days."]


def test_counts_and_values_of_settings_differ_too() -> None:
    assert others("How many cranes does Oslo have?", lock_of(["Oslo has 4 cranes.", "The port of Oslo has 5 cranes."]))
    rows = [f"| Setting | Default |\n|---|---|\n| backup.keep_days | {days} |" for days in (42, 30)]
    assert others("What is the default of backup.keep_days?", lock_of(rows))


def test_figures_inside_names_are_none_that_differ() -> None:
    texts = ["The host skv-db-1 keeps audit logs.", "The host skv-db-2 keeps audit logs."]
    assert others("Which host keeps audit logs?", lock_of(texts)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("within 2 minutes or 120 s, 5 % of 10 GB", {"time": {120.0}, "%": {5.0}, "size": {1e10}}),
        ("release 3.9.1 at 10:30 on skv-db-1 with 4,000 berths", {"": {4000.0}}),
        ("| backup.keep_days | 42 |", {"": {42.0}}),
        ("no figures", {}),
    ],
)
def test_measures_are_of_one_kind_in_any_of_its_units(text: str, found: dict[str, set[float]]) -> None:
    assert measures(text) == found
