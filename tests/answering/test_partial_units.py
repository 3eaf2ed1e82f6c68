"""Whatever the structure of a page, an extractive answer is made of its words, and none that bears meaning is lost."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.passages import lock_of
from support.structured_pages import Drawn, pages

from rag_serving.answering.citations import CONTINUES, answer_text, citations_of
from rag_serving.answering.selection.selector import select
from rag_serving.answering.verification import VerificationRules, verify
from rag_serving.records.claims import Claim, Draft
from rag_serving.text.analyzer import analyze
from rag_serving.text.units import units

EXAMPLES = int(os.environ.get("CITELOCK_PARTIAL_UNITS", "60"))
QUESTIONS = (
    "How do I start the {k} service?",
    "{k}",
    "What about the {k} service?",
    "Is the {k} service restarted?",
    "The {k} service keeps copies and restarts.",
    "run service {k}",
)


def one_line(text: str) -> str:
    return " ".join(text.split())


def fault(page: Drawn, question: str) -> str | None:
    """What is wrong with the answer to a question, or None."""
    text = "\n\n".join(page.text)
    lock = lock_of([text])
    draft = select(question, lock, dict.fromkeys(analyze(question), 1.0), analyze)
    verdicts = verify(draft, lock, question=question, rules=VerificationRules(quote_max_words=12))
    answer = answer_text(verdicts, lock)
    for citation in citations_of(verdicts, lock, 12):
        if text[citation.start : citation.end] != citation.quote:
            return f"quote {citation.quote!r}"
    for verdict in verdicts:
        if verdict.outcome == "dropped":
            continue
        told = re.sub(r"\s*\[\d\]$", "", verdict.told)
        words = set(re.findall(r"[\w.']+\w|\w", told))
        for key in page.ordered & words:
            return f"an order is told ({key}): {told!r}"
        for key in page.musts.keys() & words:
            missing = page.musts[key] - words
            if missing and CONTINUES not in told:
                return f"{key} is told without {sorted(missing)}: {told!r}"
        rest = one_line(told)
        if rest not in one_line(text):
            leads = [line for line in text.splitlines() if line.endswith(":") and rest.startswith(line)]
            parts = [*verdict.claim.others, *leads] if verdict.claim.others else [verdict.claim.text, *leads]
            for part in sorted(map(one_line, parts), key=len, reverse=True):
                if part not in one_line(text):
                    return f"{part!r} does not stand in the page"
                rest = rest.replace(part, " ")
            if rest.strip(" :;…“”"):
                return f"{rest!r} of {told!r} is not the page's"
    if any(key in answer for key in page.ordered):
        return f"an order is shown: {answer!r}"
    return None


@settings(max_examples=EXAMPLES)
@given(pages(), st.data())
def test_no_answer_loses_a_word_that_bears_meaning_and_none_tells_an_order(page: Drawn, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(page.musts.keys() | page.ordered)))
    question = data.draw(st.sampled_from(QUESTIONS)).format(k=key)
    found = fault(page, question)
    assert found is None, "\n".join((found or "", "QUESTION", question, "PAGE", *page.text))


@settings(max_examples=EXAMPLES)
@given(pages(), st.data())
def test_no_answer_from_a_long_passage_loses_a_word_that_bears_meaning(page: Drawn, data: st.DataObject) -> None:
    for at in sorted(data.draw(st.sets(st.integers(0, len(page.text)))), reverse=True) or [0]:
        page.text.insert(at, "A seal of the basin eats fish in the morning. " * data.draw(st.sampled_from([2, 5, 12])))
    key = data.draw(st.sampled_from(sorted(page.musts.keys() | page.ordered)))
    question = data.draw(st.sampled_from(QUESTIONS)).format(k=key)
    found = fault(page, question)
    assert found is None, "\n".join((found or "", "QUESTION", question, "PAGE", *page.text))


UNLESS = "Unless the owner agrees, these are forbidden:"


ROWS = "".join(f"\n| feed seal {number} in the morning | {number} |" for number in range(30))
ITEMS = "".join(f"\n- feed the seal of basin {number} in the morning" for number in range(30))


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize(
    ("block", "more", "words", "told"),
    [
        ("| Do | Risk |\n|---|---|\n| restart otter | 9 |", ROWS, "restart otter", "Do: restart otter; Risk: 9"),
        ("```\notterctl restart --now\n```", "", "otterctl restart --now", "otterctl restart --now"),
        ("- restart the otter service", ITEMS, "restart the otter service", "restart the otter service"),
    ],
)  # fmt: skip
def test_what_holds_only_with_the_sentence_before_it_is_shown_with_it(
    block: str, more: str, words: str, told: str, is_long: bool
) -> None:
    around = "\n\n" + "A seal of the basin eats fish in the morning. " * 12
    lock = lock_of([f"{UNLESS}\n\n{block}{more if is_long else ''}{around if is_long else ''}"])
    question = "What about restart otter?"
    draft = select(question, lock, dict.fromkeys(analyze(question), 1.0), analyze)
    shown = one_line(answer_text(verify(draft, lock, question=question), lock))
    assert shown == (f"{UNLESS} {told} [1]" if is_long else one_line(f"{UNLESS} {block} [1]"))
    (written,) = verify(Draft((Claim(words, 1, words),), "openai/m"), lock)
    assert written.support == "quoted", "a model may not tell it alone"
    assert UNLESS in written.told


@pytest.mark.parametrize(
    "sentence",
    [
        "The otter service restarts (never by hand. Ask first.) after 5 minutes.",
        'Nobody says "the otter is down. Call Ann." before 5 minutes have passed.',
        "„Der Otter ruht. Er schläft.“ gilt nicht vor 5 Uhr.",
        "The otter [see the list. It is long.] never sleeps.",
    ],
)
def test_a_sentence_does_not_end_inside_of_brackets_or_quotation_marks(sentence: str) -> None:
    text = f"It runs. {sentence} Then it rests."
    assert [unit.of(text) for unit in units(text)] == ["It runs.", sentence, "Then it rests."]


def test_marks_that_close_nothing_part_no_sentences_and_join_none() -> None:
    text = 'The pipe is 5" wide. A smiley :) ends it. An open ( bracket stays. So does a "quote. The end.'
    assert [unit.of(text) for unit in units(text)][:3] == [
        'The pipe is 5" wide.',
        "A smiley :) ends it.",
        "An open ( bracket stays.",
    ]
