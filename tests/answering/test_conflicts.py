"""Passages that give another figure for what was asked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passages import candidate_of, chunk_of, lock_of

from rag_serving.answering.comparing.conflicts import Compared, Comparison, difference, differing
from rag_serving.answering.comparing.typed import fields, measures
from rag_serving.answering.selection.selector import Selecting, select
from rag_serving.answering.selection.signs import QuestionFeatures
from rag_serving.answering.verification import verify
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import analyze

QUESTION = "How long are audit logs kept?"
FIRST = "The desk reads them. Audit logs are kept for 30 days."


def others(question: str, lock: Lock, *written: Claim) -> list[str]:
    """What is told of other pages than the one that extraction, or the written claim, cites."""
    weights = dict.fromkeys(analyze(question), 1.0)
    draft = Draft(written, "model") if written else select(question, lock, weights, analyze, Selecting(max_citations=1))
    verdicts = verify(draft, lock)
    assert all(verdict.outcome != "dropped" for verdict in verdicts)
    found = differing(Comparison(QuestionFeatures.of(question, weights, analyze), lock, analyze, 12), verdicts)
    if found is None:
        return []
    told = verify(Draft(found.beside(draft.claims), "both"), lock)
    assert all(verdict.outcome != "dropped" for verdict in told)
    return [other.claim.text for other in found.others]


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


def told(question: str, lock: Lock, cited: int, quote: str) -> tuple[list[str], list[str]]:
    """The answer's claims in their order, and why another page leads or follows, where it differs."""
    weights = dict.fromkeys(analyze(question), 1.0)
    draft = Draft((Claim(lock.passages[cited - 1].chunk.text, cited, quote),), "model")
    comparison = Comparison(QuestionFeatures.of(question, weights, analyze), lock, analyze, 12)
    found = differing(comparison, verify(draft, lock))
    if found is None:
        return [], []
    reasons = [other.precedence.reason if other.precedence else "" for other in found.others]
    return [claim.text for claim in found.beside(draft.claims)], reasons


def pages(*pairs: tuple[str, dict[str, object]]) -> Lock:
    """A lock of one passage per page: its text, and what else is known of it."""
    return Lock(tuple(candidate_of(text, f"{page}:1:0", **more) for page, (text, more) in enumerate(pairs, start=1)))


def updated(year: int) -> dict[str, object]:
    return {"updated_at": datetime(year, 3, 2, tzinfo=UTC)}


OLD_MEMORY = "Half is left alone. A part is managed by the engine (default fraction 0.7 of the heap)."
NEW_MEMORY = "(default fraction=0.4)"


def test_old_and_new_pages_differ_in_a_default_in_words_of_their_own() -> None:
    memory = {"heading_path": ("Unified memory", "Managed memory")}
    lock = pages((OLD_MEMORY, {**memory, **updated(2015)}), (NEW_MEMORY, {**memory, **updated(2022)}))
    claims, reasons = told(
        "What is the default fraction of managed memory?", lock, 1, "default fraction 0.7 of the heap"
    )
    assert claims == [NEW_MEMORY, OLD_MEMORY]
    assert reasons == ["date"]


def test_the_more_current_of_two_claims_that_are_there_comes_first_where_claims_may_move() -> None:
    texts = ("Audit logs are kept for 30 days.", "Audit logs are kept for 90 days.")
    lock = pages(*((text, updated(year)) for text, year in zip(texts, (2016, 2024), strict=True)))
    weights = dict.fromkeys(analyze(QUESTION), 1.0)
    claims = tuple(Claim(text, index, text) for index, text in enumerate(texts, start=1))
    comparison = Comparison(QuestionFeatures.of(QUESTION, weights, analyze), lock, analyze, 12)
    found = differing(comparison, verify(Draft(claims, "model"), lock))
    assert found is not None
    assert found.beside(claims) == claims[::-1]
    assert found.beside(claims, may_move=False) == claims


def test_a_release_note_that_tells_of_the_change_leads() -> None:
    old = "| Setting | Default | Range |\n|---|---|---|\n| DB_POOL_SIZE | 16 | 4 to 96 |"
    note = "The default of DB_POOL_SIZE rises from 16 to 24."
    question = "What is the default of DB_POOL_SIZE?"
    claims, reasons = told(question, pages((old, {}), (note, {})), 1, "DB_POOL_SIZE | 16")
    assert (claims[0], reasons) == (note, ["change"])
    claims, reasons = told(question, pages((old, {}), (note, {})), 2, note)
    assert (claims[0], reasons) == (note, ["change"])
    current = old.replace("| 16 |", "| 24 |")
    assert told(question, pages((current, {}), (note, {})), 1, "DB_POOL_SIZE | 24") == ([], [])


def test_a_value_that_is_said_to_be_past_is_not_compared() -> None:
    lock = pages(
        ("A planning cycle is abandoned after 45 seconds; it used to be 60.", {}),
        ("A planning cycle is abandoned after 45 seconds.", {}),
        ("A planning cycle is abandoned after 60 seconds.", {}),
    )
    claims, _ = told("After how many seconds is a planning cycle abandoned?", lock, 1, "abandoned after 45 seconds")
    assert [claim[-11:] for claim in claims] == ["d to be 60.", "60 seconds."]


def test_cells_of_the_same_row_and_column_are_compared() -> None:
    table = "| Country | Meals | Hotel |\n|---|---|---|\n| Norway | 500 | 2000 |\n| Poland | {} | 900 |"
    heading = {"heading_path": ("Travel", "Allowances")}
    lock = pages((table.format(300), heading), (table.format(450), heading))
    assert told("What is the meals allowance in Poland?", lock, 1, "Poland | 300")[0][1:] == [
        "Country: Poland; Meals: 450; Hotel: 900"
    ]
    assert told("What is the hotel allowance in Poland?", lock, 1, "Poland | 300") == ([], [])


def test_sections_of_versions_of_one_page_are_compared_with_their_like() -> None:
    row = "| Setting | Default |\n|---|---|\n| idle.max.ms | {} |"
    broker, newer = (
        {"heading_path": ("Settings", "Broker"), "title": "Settings", "space": f"DOCS-{n}"} for n in (24, 39)
    )
    lock = pages((row.format(600), broker), (row.format(300), newer))
    claims, reasons = told("What is the default of idle.max.ms?", lock, 1, "idle.max.ms | 600")
    assert (claims[0], reasons) == ("Setting: idle.max.ms; Default: 300", ["version"])
    lock = pages((row.format(600), broker), (row.format(300), {**newer, "heading_path": ("Settings", "Producer")}))
    assert told("What is the default of idle.max.ms?", lock, 1, "idle.max.ms | 600") == ([], [])


@pytest.mark.parametrize(
    ("text", "headings", "quote"),
    [
        ("| Setting | Default |\n|---|---|\n| idle.max.ms | 600 |", ("Settings",), "idle.max.ms | 600"),
        ("- idle.max.ms: Closes idle connections.\n  - Type: long\n  - Default: 600", ("Settings",), "Default: 600"),
        ("Closes idle connections.\n\n- Type: long\n- Default: 600", ("Settings", "idle.max.ms"), "Default: 600"),
    ],
)
def test_a_default_is_of_the_setting_that_it_stands_under(text: str, headings: tuple[str, ...], quote: str) -> None:
    newer = "Closes idle connections.\n\n| Type: | long |\n| Default: | 300 |"
    more = {"heading_path": ("Settings", "idle.max.ms"), "title": "Settings", "space": "DOCS-39"}
    lock = pages((text, {"heading_path": headings, "title": "Settings", "space": "DOCS-24"}), (newer, more))
    claims, reasons = told("What is the default of idle.max.ms?", lock, 1, quote)
    assert (claims[0], reasons) == ("Default:: 300", ["version"])
    other = pages((text, {"heading_path": headings}), (newer, {"heading_path": ("Settings", "busy.max.ms")}))
    assert told("What is the default of idle.max.ms?", other, 1, quote) == ([], [])


def test_a_default_is_not_of_a_setting_above_the_one_that_it_stands_under() -> None:
    text = "- idle.max.ms: Closes idle connections.\n- retries: How often.\n  - Default: 5"
    chunk = chunk_of(text)
    assert [field.key for field in fields(chunk.parts.units[-1], chunk)] == ["Default"]


def test_settings_whose_values_are_words_are_compared() -> None:
    lock = pages(("- `compression.type`: lz4", {}), ("- `compression.type`: zstd", {}))
    assert told("What is compression.type?", lock, 1, "compression.type`: lz4")[0]
    lock = pages(("- `compression.type`: `zstd`", {}), ("- `compression.type`: zstd", {}))
    assert not told("What is compression.type?", lock, 1, "compression.type`: `zstd")[0]


@pytest.mark.parametrize(
    ("one", "two", "question"),
    [
        ("- `send.buffer`: 64", "- `receive.buffer`: 32", "What is the buffer set to?"),
        (
            "| Port | Cranes |\n|---|---|\n| Oslo | 4 |",
            "| Port | Berths |\n|---|---|\n| Oslo | 9 |",
            "How many has Oslo?",
        ),
        (
            "The minimum of DB_POOL_SIZE is 4.",
            "The default of DB_POOL_SIZE is 24.",
            "What is the default of DB_POOL_SIZE?",
        ),
        ("Set DB_POOL_SIZE to 12 on small hosts.", "The default of DB_POOL_SIZE is 24.", "How large is DB_POOL_SIZE?"),
        ("It takes from 5 to 10 days.", "It takes 5 days.", "How long does it take?"),
        ("The default of A_POOL is 4.", "The default of B_POOL is 24.", "What is the default of the pool?"),
    ],
)
def test_different_things_do_not_differ(one: str, two: str, question: str) -> None:
    lock = pages((one, {}), (two, {}))
    assert told(question, lock, 1, one.rpartition("\n")[2]) == ([], [])
    assert told(question, lock, 2, two.rpartition("\n")[2]) == ([], [])


def test_who_asks_yes_or_no_is_told_of_a_page_that_denies() -> None:
    lock = pages(("Orders can be cancelled on the portal.", {}), ("Orders cannot be cancelled on the portal.", {}))
    assert (
        len(told("Can orders be cancelled on the portal?", lock, 1, "Orders can be cancelled on the portal.")[0]) == 2
    )
    lock = pages(("Orders can be cancelled on the portal.", {}), ("Invoices cannot be cancelled on the portal.", {}))
    assert told("Can orders be cancelled on the portal?", lock, 1, "Orders can be cancelled on the portal.") == ([], [])


def test_a_claim_that_holds_a_whole_section_is_compared_unit_by_unit() -> None:
    section = "Logs matter. The desk reads them every day. Audit logs are kept for 30 days. They are deleted then."
    claims, _ = told(
        QUESTION, pages((section, {}), ("Audit logs are kept for 90 days.", {})), 1, "The desk reads them every day."
    )
    assert claims == [section, "Audit logs are kept for 90 days."]


_UNITS = """
Logs are kept for 30 days.~Logs are kept for 90 days.~Logs are not kept for 30 days.~- `a.b`: 3~x.y = 5~a: b
| a | default |\n|---|---|\n| x.y | 4 |~| x.y | 5 |~from 3 to 4~default 0.7~`~| | |
"""
UNITS = st.sampled_from(_UNITS.strip("\n").split("~"))
PASSAGES = st.lists(UNITS, min_size=1, max_size=4).map("\n\n".join) | st.text(min_size=1)


@given(
    PASSAGES,
    PASSAGES,
    st.sampled_from(["How long are logs kept?", "What is the default of x.y?", "Are logs kept?", "a b"]),
)
def test_units_differ_from_each_other_in_both_directions(first: str, second: str, question: str) -> None:
    asked = QuestionFeatures.of(question, dict.fromkeys(analyze(question), 1.0), analyze)
    sides = [
        [Compared(unit, chunk, analyze) for unit in chunk.parts.units]
        for chunk in (chunk_of(first), chunk_of(second, "2:1:0"))
    ]
    for one in sides[0]:
        for two in sides[1]:
            if one.can_differ(asked) and two.can_differ(asked):
                changes = difference(asked, one, two)
                assert difference(asked, two, one) == (None if changes is None else -changes)
        assert difference(asked, one, one) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("within 2 minutes or 120 s, 5 % of 10 GB", {"time": {120.0}, "%": {5.0}, "size": {1e10}}),
        ("release 3.9.1 at 10:30 on skv-db-1 with 4,000 berths", {"": {4000.0}}),
        ("| backup.keep_days | 42 |", {"": {42.0}}),
        ("(fraction=0.4)", {"": {0.4}}),
        ("no figures", {}),
    ],
)
def test_measures_are_of_one_kind_in_any_of_its_units(text: str, found: dict[str, set[float]]) -> None:
    assert measures(text) == found
