"""Whether a sentence says more than the passages it cites."""

from __future__ import annotations

import re

import pytest

from rag_serving.verification.support import counterpart, shares_nothing, strange_figures, unsupported

RESTART = "You must not restart a broker while partitions are under-replicated."
LOGS = "Each broker keeps at most 15 GB of logs for 168 hours by default."
LAG = "An alert fires when the lag stays above 10,000 records for five minutes."
TICKET = "Restores without a ticket are never done; they take 1.5 hours on average."


def fault(sentence: str, unit: str, quote: str) -> str | None:
    return unsupported(sentence, unit, quote, [f"Handbook\n{unit}"])


@pytest.mark.parametrize(
    ("sentence", "unit", "quote"),
    [
        (RESTART, RESTART, "restart a broker"),
        ("Do not restart a broker then.", RESTART, "must not restart a broker"),
        ("Restarting a broker is forbidden while partitions lag.", RESTART, "must not restart a broker"),
        ("Logs are kept for 168 hours.", LOGS, "for 168 hours by default"),
        ("Brokers keep logs of up to 15 gigabytes.", LOGS, "at most 15 GB"),
        ("An alert fires above 10000 records after 5 minutes.", LAG, "above 10,000 records for five minutes"),
        ("No, you must not restart a broker.", RESTART, "must not restart a broker"),
        ("No, logs are kept for 168 hours.", LOGS, "for 168 hours"),
        ("Restores take 1.5 hours.", TICKET, "they take 1.5 hours on average"),
        ("Yes.", LOGS, "for 168 hours"),
    ],
)
def test_a_sentence_that_follows_stands(sentence: str, unit: str, quote: str) -> None:
    assert fault(sentence, unit, quote) is None


@pytest.mark.parametrize(
    ("sentence", "unit", "quote", "reason"),
    [
        ("Logs are kept for 186 hours.", LOGS, "for 168 hours", "does not have the figure '186 h'"),
        ("Logs are kept for 168 minutes.", LOGS, "for 168", "does not have the figure '168 min"),
        ("Logs have 15 MB.", LOGS, "at most 15 GB", "figure '15 mb'"),
        ("An alert fires after nine minutes.", LAG, "An alert fires", "figure '9 min"),
        ("Set log.retention.weeks of the broker.", LOGS, "Each broker keeps", "the name 'log.retention.weeks'"),
        ("Error HBL-4012 of the broker.", LOGS, "Each broker keeps", "the figure|the name"),
        ("You must restart a broker while partitions are under-replicated.", RESTART, "under-replicated", "loses"),
        ("You may restart a broker.", RESTART, "must not restart a broker", "loses a negation"),
        ("Restores without a ticket are done", TICKET, "without a ticket", "loses a negation"),
        ('Restores without a ticket are done: "are never done"', TICKET, "are never done", "loses a negation"),
        ("An alert never fires when the lag stays high.", LAG, "An alert fires when", "negates"),
        ("Everybody knows that cheese is best.", LOGS, "for 168 hours", "nothing in common"),
    ],
)
def test_a_sentence_that_says_otherwise_does_not(sentence: str, unit: str, quote: str, reason: str) -> None:
    assert re.search(reason, str(fault(sentence, unit, quote)))


def test_a_figure_of_another_cited_passage_is_known() -> None:
    sentence = "Logs stay for 168 hours and alerts come after five minutes."
    assert unsupported(sentence, LOGS, "for 168 hours", [LOGS, LAG]) is None
    assert unsupported(sentence, LOGS, "for 168 hours", [LOGS])


@pytest.mark.parametrize(
    ("sentence", "text", "strange"),
    [
        ("1,000 and 1000", "1.000", []),
        ("1.5", "15", ["1.5"]),
        ("007", "7", []),
        ("v2.4.1", "release v2.4.1", []),
        ("5 ms", "timeout 5", []),
        ("90 %", "90%", []),
        ("five", "5", []),
        ("12 nodes", "12 servers", []),
    ],
)
def test_figures_are_compared_by_value_and_known_unit(sentence: str, text: str, strange: list[str]) -> None:
    assert strange_figures(sentence, text) == strange


def test_the_part_that_a_sentence_repeats_is_found_with_the_words_before_it() -> None:
    assert counterpart("restart a broker while partitions are fine", RESTART).startswith(
        "You must not restart a broker"
    )
    assert counterpart("The coffee machine is descaled on Fridays", RESTART) == ""


def test_words_beyond_ascii_are_not_compared_by_their_beginnings() -> None:
    assert not shares_nothing("Die Protokolle bleiben länger erhalten.", "logs are kept")
    assert shares_nothing("Die Protokolle bleiben erhalten.", "logs are kept")
