"""How a chosen unit is told: rows with their columns, items with their lead-in, steps and blocks of code whole."""

from __future__ import annotations

import pytest
from support.passages import candidate_of, chunk_of, chunks_of_section, lock_of

from rag_serving.answering.citations import answer_text, citations_of
from rag_serving.answering.selection.layout import Layout
from rag_serving.answering.selection.selector import rank, select
from rag_serving.answering.selection.signs import QuestionFeatures, learnt
from rag_serving.answering.verification import verify
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Candidate, Lock
from rag_serving.text.analyzer import analyze
from rag_serving.text.units import Unit

TABLE = "| Setting | Default | Not allowed |\n|---|---|---|\n| pool.size | 24 connections | |\n| pool.wait | 3 | 0 |"
APPROVALS = (
    "Ask before you buy. The following are never bought without approval:\n\n"
    "- licences of software\n- chairs. They last longer than you think.\n- travel by taxi at night"
)
STEPS = (
    "Do it in the evening.\n\n1. Fence the old primary host.\n2. Promote the replica with the least lag.\n"
    "3. Point the services to the new primary.\n\nTell the desk when you are done."
)
BLOCK = (
    "Run these on the host:\n\nTwo commands\n\n"
    "```bash\nbus dead --since 8h > ids\n\nbus replay --from ids\n```\n\nDone."
)

AROUND = "The harbour office has rules for many other things. " * 20
"""More words than are shown of a passage: it is never shown whole."""


def unit_of(layout: Layout, words: str) -> Unit:
    return next(unit for unit in layout.units if words in unit.of(layout.text))


def told(text: str, words: str) -> str:
    layout = Layout(chunk_of(text))
    return layout.alone(unit_of(layout, words)).text


def answer(question: str, lock: Lock) -> tuple[str, int]:
    """The verified answer and how many places it cites; nothing may have been dropped."""
    draft = select(question, lock, dict.fromkeys(analyze(question), 1.0), analyze)
    verdicts = verify(draft, lock, question=question)
    assert all(verdict.outcome == "exact" for verdict in verdicts)
    return answer_text(verdicts, lock), len(citations_of(verdicts, lock))


# Rows


def test_a_row_is_told_with_its_columns_and_without_empty_cells() -> None:
    assert told(TABLE, "pool.size") == "Setting: pool.size; Default: 24 connections"
    assert told(TABLE, "pool.wait") == "Setting: pool.wait; Default: 3; Not allowed: 0"


def test_a_pair_without_columns_is_told_as_one() -> None:
    assert told("| Severity | SEV 1 |\n| Began | at night |", "Began") == "Began: at night"


def test_a_row_that_does_not_fit_its_columns_is_told_as_it_stands() -> None:
    assert told("| Setting | Default |\n|---|---|\n| pool.size | 24 | live |", "pool.size") == "pool.size | 24 | live"


def test_a_heading_above_a_table_names_no_columns() -> None:
    assert told("## Pools\n| pool.size | 24 | live |", "pool.size") == "pool.size | 24 | live"


def test_a_row_whose_column_negates_is_verified() -> None:
    many = TABLE + "".join(f"\n| pool.other.{row} | {row} tons of cargo | 0 |" for row in range(40))
    text, cited = answer("pool.wait", lock_of([many]))
    assert (text, cited) == ("Setting: pool.wait; Default: 3; Not allowed: 0 [1]", 1)


def test_a_small_table_is_shown_whole_and_its_marker_is_no_cell() -> None:
    text, cited = answer("pool.wait", lock_of([f"{AROUND}\n\n{TABLE}\n\n{AROUND}"]))
    assert (text, cited) == (f"{TABLE}\n\n[1]", 1)


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("Setting: pool.size; Default: 96", ("Setting", "pool.size", "Default", "96")),
        ("Setting: pool.size; Default: not 24 connections", ("Setting", "pool.size", "Default", "24 connections")),
    ],
)
@pytest.mark.parametrize("writer", ["test", "extractive"])
def test_a_row_with_a_part_that_the_passage_lacks_is_never_shown(
    text: str, others: tuple[str, ...], writer: str
) -> None:
    claim = Claim(text, 1, "pool.size | 24 connections", others, is_selected=writer == "extractive")
    (verdict,) = verify(Draft((claim,), writer), lock_of([TABLE]))
    assert verdict.outcome == "dropped" or verdict.told == "Setting: pool.size; Default: 24 connections"


# Items


def test_an_item_is_told_whole_and_with_the_sentence_that_leads_it_in() -> None:
    lead = "The following are never bought without approval:"
    assert told(APPROVALS, "last longer") == f"{lead} chairs. They last longer than you think."


def test_an_item_that_nothing_leads_in_is_told_alone() -> None:
    assert told("We like tea.\n\n- green tea in summer\n- black tea in winter", "black") == "black tea in winter"


def test_a_nested_item_is_told_with_the_item_it_hangs_from() -> None:
    text = "Drinks of the office.\n\n- On Fridays we have:\n    - green tea\n    - cold beer\n- water always"
    assert told(text, "cold beer").startswith("On Fridays we have:")


def test_who_asks_for_what_the_lead_in_names_gets_the_whole_list() -> None:
    text, cited = answer("What is never bought without approval?", lock_of([f"{AROUND}\n\n{APPROVALS}\n\n{AROUND}"]))
    assert text == f"{APPROVALS.removeprefix('Ask before you buy. ')} [1]"
    assert cited == 1


def test_who_asks_for_one_item_of_a_long_list_gets_that_item_with_its_lead_in() -> None:
    long = APPROVALS + "".join(f"\n- cargo of the kind {number} for the harbour" for number in range(30))
    text, _ = answer("Are licences of software bought without approval?", lock_of([long]))
    assert text == "The following are never bought without approval: licences of software [1]"


# Steps and code


@pytest.mark.parametrize("question", ["How do I promote the replica?", "What are the steps to promote a replica?"])
def test_how_to_is_answered_with_all_steps_in_order_under_one_citation(question: str) -> None:
    text, cited = answer(question, lock_of(["A replica follows its primary.", f"{AROUND}\n\n{STEPS}"]))
    assert cited == 1
    assert text.startswith("1. Fence the old primary host.\n2. Promote the replica")
    assert text.endswith("3. Point the services to the new primary. [1]")


@pytest.mark.parametrize("question", ["How do I promote the replica?", "Which replica is promoted?"])
def test_steps_of_a_short_passage_are_shown_with_what_goes_before_and_follows(question: str) -> None:
    assert answer(question, lock_of([STEPS])) == (f"{STEPS} [1]", 1)


def test_steps_too_short_to_be_quoted_are_shown_by_one_that_is_not() -> None:
    text = "1. cd /\n2. Promote the replica with the least lag."
    assert answer("How do I promote the replica?", lock_of([text])) == (f"{text} [1]", 1)


def test_steps_keep_the_code_that_stands_in_them() -> None:
    text = "1. Fence the host:\n```\nfence db-1\n```\n2. Promote the replica:\n```\npromote db-2\n```\n\nDone."
    said, cited = answer("How do I fence the host and promote the replica?", lock_of([f"{text}\n\n{AROUND}"]))
    assert said == text.removesuffix("\n\nDone.") + "\n[1]"
    assert cited == 1


def test_an_item_is_shown_with_the_fence_that_closes_its_code() -> None:
    item = "fence the host\n  ```\n  fence db-1\n  ```"
    assert told(f"Do one of these:\n\n- {item}\n- promote it", "fence the host") == f"Do one of these: {item}"


def test_steps_below_the_heading_that_is_asked_for_are_preferred_beyond_their_evidence() -> None:
    text = "1. Name of the port.\n2. Ask for a number to call back.\n\nTell people that you call back."
    lock = Lock((candidate_of(text, heading_path=("Desk", "Taking a call")),))
    asked = QuestionFeatures.of("How do I take a call?", {"take": 1.0, "call": 1.0}, analyze)
    ranked = rank(asked, lock, analyze, None, learnt().words_alone)
    preferred = {each.statement.unit.kind: each.score > learnt().words_alone.score(each.signs) for each in ranked}
    assert preferred == {"list": True, "sentence": False}


RUNBOOK = {
    "Decide": "Roll back a release when data is damaged. Do not roll back a release for a wrong label.",
    "Application services → Rollback": (
        "Run this on the host:\n\n```\nhbl rollback --to previous\n```\n\nWait until all services are green again."
    ),
    "After the rollback": "Open a page about the release that was rolled back within one day.",
}


def test_how_to_is_answered_by_the_code_below_its_heading_not_by_a_sentence_with_its_words() -> None:
    passages = [
        candidate_of(text, f"1:1:{place}", heading_path=("Rolling Back a Release", *heading.split(" → ")))
        for place, (heading, text) in enumerate(RUNBOOK.items())
    ]
    text, cited = answer("How do I roll back a release?", Lock(tuple(passages)))
    assert cited <= 2
    assert text.startswith(f"{RUNBOOK['Application services → Rollback']} [1]")


def test_how_to_is_answered_by_the_steps_below_its_heading_not_by_a_sentence_with_its_words() -> None:
    sentence = candidate_of("If the wrong replica was promoted, rebuild the other one.", "1:1:5")
    steps = candidate_of(
        "1. Choose the host with the least lag.\n2. Promote: hbl db promote --confirm.",
        "1:1:3",
        heading_path=("Failover Runbook", "Promote a replica"),
    )
    assert answer("How do I promote a replica?", Lock((sentence, steps)))[0].startswith("1. Choose the host")


def test_code_that_nothing_leads_in_is_no_procedure() -> None:
    layout = Layout(chunk_of("A broker looks like this.\n\n```\nname: broker\nport: 9092\n```"))
    assert layout.procedure(unit_of(layout, "port")) is None


SHORT_CODE = "Go to the root of the broker with this:\n\n```\ncd / &&\n```\n\nThe root of the broker is a folder."


@pytest.mark.parametrize("text", [SHORT_CODE, f"{SHORT_CODE}\n\n{AROUND}", f"{AROUND}\n\n{SHORT_CODE}"])
def test_code_too_short_to_be_quoted_is_never_what_is_quoted(text: str) -> None:
    lock = lock_of([text])
    question = "How do I go to the root of the broker?"
    (claim,) = select(question, lock, dict.fromkeys(analyze(question), 1.0), analyze).claims
    assert claim.quote == "The root of the broker is a folder."
    assert claim.quote in answer(question, lock)[0]


def test_a_block_is_quoted_by_a_line_that_is_long_enough() -> None:
    layout = Layout(chunk_of("Run:\n\n```\ncd /\nhbl rollback --to previous\n```"))
    block = layout.block(unit_of(layout, "cd"))
    assert block is not None
    assert block.quoted.of(layout.text) == "hbl rollback --to previous"


def test_several_lines_of_code_are_told_in_their_fence_with_the_sentence_that_leads_them_in() -> None:
    layout = Layout(chunk_of(BLOCK))
    block = layout.block(unit_of(layout, "bus replay"))
    assert block is not None
    assert block.text == ("Run these on the host:\n```bash\nbus dead --since 8h > ids\n\nbus replay --from ids\n```")
    assert all(part in BLOCK for part in block.parts)


def test_code_of_another_fence_is_not_told_with_it() -> None:
    layout = Layout(chunk_of("```\nfirst command\n```\n\n```\nsecond command\n```"))
    block = layout.block(unit_of(layout, "second"))
    assert block is not None
    assert block.text == "second command"


def test_a_long_block_is_not_told_whole() -> None:
    layout = Layout(chunk_of("```\n" + "\n".join(f"command number {line}" for line in range(20)) + "\n```"))
    assert layout.block(layout.units[3]) is None


def test_no_marker_stands_in_the_line_that_closes_a_fence() -> None:
    text, _ = answer("How do I replay the dead letters of the bus?", lock_of([BLOCK.removesuffix("\n\nDone.")]))
    assert text.endswith("```\n[1]")


def test_a_fence_that_the_passage_leaves_open_is_closed_before_the_marker() -> None:
    text, _ = answer("How do I replay the dead letters of the bus?", lock_of(["- " + BLOCK.partition("\n```\n")[0]]))
    lines = text.split("\n")
    assert sum(line.startswith("```") for line in lines) % 2 == 0
    assert lines[-1].endswith("[1]")


# Yes or no


@pytest.mark.parametrize(
    ("question", "decides"),
    [
        ("Can a cancelled call be reopened?", "A cancelled call cannot be reopened."),
        ("Is there a library for PHP?", "There is no library for PHP, and none is planned."),
    ],
)
def test_an_answer_to_yes_or_no_is_proved_by_the_sentence_that_decides(question: str, decides: str) -> None:
    lock = lock_of([f"Calls and libraries have owners. {decides} Ask the desk about calls."])
    (claim,) = select(question, lock, dict.fromkeys(analyze(question), 1.0), analyze).claims
    assert claim.quote in decides
    assert decides in answer(question, lock)[0]


def test_a_row_of_a_table_that_is_cut_is_told_and_verified_with_its_columns() -> None:
    _, cut = chunks_of_section([TABLE, "| pool.idle | 90 seconds | 1 |"])
    text, cited = answer("pool.idle", Lock((Candidate(cut, 1.0),)))
    assert (text, cited) == ("Setting: pool.idle; Default: 90 seconds; Not allowed: 1 [1]", 1)


def test_an_item_of_a_list_that_is_cut_is_told_with_its_introduction() -> None:
    _, cut = chunks_of_section([APPROVALS, "- dinners with a customer of the harbour"])
    text, _ = answer("dinners with a customer of the harbour", Lock((Candidate(cut, 1.0),)))
    assert text.startswith("The following are never bought without approval: dinners with a customer")


def test_an_introduction_keeps_the_address_that_the_page_has_in_it() -> None:
    introduction = "Never bought without approval, by https://good.example/policy of 2025:"
    _, cut = chunks_of_section(
        [f"{introduction}\n\n- laptops for the yard", "- dinners with a customer of the harbour"]
    )
    text, _ = answer("dinners with a customer of the harbour", Lock((Candidate(cut, 1.0),)))
    assert text.startswith(f"{introduction} dinners with a customer")
