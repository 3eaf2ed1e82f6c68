"""Quality over generations: the trend that outlives them, any two side by side, what was not answered."""

from __future__ import annotations

import re

import pytest
from support.quality_runs import FIRST, PUBLISHED, SECOND, asked, facts

from evals.reports.quality import COMPARED, history_of, pairs_of, quality_report, trend
from evals.reports.report import html, markdown


def test_the_history_keeps_what_was_removed_since() -> None:
    known = history_of({"g1": FIRST}, PUBLISHED, [])
    found = history_of({"g2": SECOND, "g0": {"summary": {}}}, PUBLISHED, known)
    assert [(row["generation"], row["measures"]["answerability"], row["failed"]) for row in found] == [
        ("g1", 1.0, []),
        ("g2", pytest.approx(2 / 3), ["answerability"]),
    ]
    assert history_of({}, {}, found)[0]["published"] is None  # it was rolled back and forgotten: a candidate again
    assert history_of({}, PUBLISHED, found) == found


def test_the_key_figures_are_of_what_is_published_and_tell_what_they_were() -> None:
    history = history_of({"g1": FIRST, "g2": SECOND}, PUBLISHED, [])
    report = quality_report("demo", "g2", history, {"g1": FIRST, "g2": SECOND}, [])
    answerability, gates = report.figures
    assert (answerability.name, answerability.value) == ("answerability", "0.667")
    assert answerability.note.endswith("was 1.000")
    assert (gates.value, gates.tone) == ("failed: answerability", "bad")
    (table,) = [table for table in report.tables if table.title == "Generations"]
    assert [(row["generation"], row["state"]) for row in table.rows] == [("g2", "published"), ("g1", "was published")]
    assert table.columns[:4] == ["generation", "state", "evaluated", "answerability"]
    back = quality_report("demo", "g1", history, {}, [])  # after a rollback
    assert back.figures[0].value == "1.000"
    values, places = trend(history)
    assert values == {"answerability": [1.0, pytest.approx(2 / 3)]}
    assert places == ["g1 01-01", "g2 01-05"]


def test_any_two_runs_stand_side_by_side() -> None:
    other = facts("run", "2026-01-06T00:00:00+00:00", asked=["another"])
    pairs = pairs_of({"g1": FIRST, "g2": SECOND, "run with RM3": FIRST, "of others": other})
    assert [(pair.before, pair.after) for pair in pairs] == [
        ("g2", "run with RM3"),
        ("g1", "run with RM3"),
        ("g1", "g2"),
    ]
    table = pairs[-1].tables[0]
    first, *_ = table.rows
    assert (first["measure"], first["verdict"], first["difference"]) == (
        "answerability",
        "worse",
        pytest.approx(-1 / 3),
    )
    assert [row["verdict"] for row in table.rows[1:]] == ["no difference"] * 2
    assert [case.status for case in pairs[-1].cases] == ["now wrong"] * 10
    assert dict(pairs[-1].cases[0].parts)["answer before"].endswith("it is.")
    assert "what of q20?" in html(quality_report("demo", "g2", [], {"g1": FIRST, "g2": SECOND}, [])).lower()


def test_no_more_pairs_than_can_be_read() -> None:
    runs = {f"g{number}": FIRST for number in range(COMPARED + 4)}
    pairs = pairs_of(runs)
    assert len(pairs) == COMPARED * (COMPARED - 1) // 2
    assert pairs[0].after == f"g{COMPARED + 3}"


def test_questions_without_an_answer_are_a_list_the_most_asked_first() -> None:
    gate = {"gate": "similarity", "value": 0.21, "threshold": 0.35}
    questions = [
        asked("Where is the key?", "not_found", 100.0, user_hash="a"),
        asked("May I bring my <dog>?", "not_found", 200.0, refusal=gate),
        asked("Where is the key?", "needs_more_context", 300.0, user_hash="b"),
        asked("Who is on call?", "not_found", 400.0),
        asked("Who is on call?", "answered", 500.0),  # a page was written since
        asked("search", "not_found", 600.0, kind="search"),
    ]
    report = quality_report("demo", None, [], {}, questions)
    (table,) = report.tables
    assert [(row["question"], row["times"], row["people"], row["status"]) for row in table.rows] == [
        ("Where is the key?", 2, 2, "needs more context"),
        ("May I bring my <dog>?", 1, 1, "not found"),
    ]
    assert table.rows[1]["why"] == "no passage is near enough (0.21 of 0.35)"
    assert table.rows[0]["last asked (UTC)"] == "1970-01-01 00:05"
    assert report.figures[0].value == "20 %"
    assert "May I bring my &lt;dog&gt;?" in html(report)


def test_questions_about_sets_are_counted_with_those_that_a_set_answered() -> None:
    timed = {"timings_ms": {"total": 9.0, "set": 4.0}}
    questions = [
        asked("Which pages mention tea?", "answered", 100.0, generator="set", **timed),
        asked("Which tea is best?", "answered", 200.0, generator="extractive", **timed),
        asked("How do I brew it?", "answered", 300.0, generator="extractive", timings_ms={"total": 9.0}),
    ]
    first, *others = quality_report("demo", None, [], {}, questions).figures
    assert (first.name, first.value, first.note[:5]) == ("answered by a whole set", "1", "of 2 ")
    assert "answered by a whole set" not in [each.name for each in others]


def test_without_their_text_questions_are_told_apart_by_their_hash() -> None:
    report = quality_report("demo", None, [], {}, [{**asked("x", "not_found", 1.0), "question": None}])
    (table,) = report.tables
    assert str(table.rows[0]["question"]).startswith("… ")
    assert "telemetry.store_questions" in table.note
    assert "no generation was evaluated" in markdown(report)


def test_a_page_with_pairs_shows_one_and_lets_choose() -> None:
    page = html(quality_report("demo", "g2", [], {"g1": FIRST, "g2": SECOND, "run": FIRST}, []))
    assert page.count('<section class="pair"') == 3
    assert len(re.findall(r'<section class="pair"[^>]+ hidden>', page)) == 2
    assert page.count("<select>") == 2
    assert "<option selected>run</option>" in page
    assert "&lt;b&gt;q20&lt;/b&gt; it is." in page
    assert page.count("<script>") == page.count("<style>") == 1
    assert not any(f" {attribute}=" in page for attribute in ("onclick", "onchange", "onload", "style"))
