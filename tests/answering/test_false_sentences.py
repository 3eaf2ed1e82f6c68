"""A false sentence beside a true quote is never shown as verified.

All 2,640 of them, the ninth by default:

    CITELOCK_FALSE_SENTENCES=1 .venv/bin/pytest tests/answering/test_false_sentences.py
"""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest
from support.false_sentences import FACTS, KINDS, false_sentences
from support.passages import lock_of

from rag_serving.answering.citations import answer_text
from rag_serving.answering.verification.verifier import verify
from rag_serving.records.claims import Claim, Draft

pytestmark = pytest.mark.usefixtures("passages_read_once")

STEP = int(os.environ.get("CITELOCK_FALSE_SENTENCES", "7"))


def test_no_false_sentence_of_any_kind_is_shown() -> None:
    shown: Counter[str] = Counter()
    lies = false_sentences()
    assert len(lies) >= 2000
    assert len({kind for kind, *_ in lies[::STEP]}) == len(KINDS) >= 40
    for kind, fact, others, lie in lies[::STEP]:
        lock = lock_of([fact.text, *(other.text for other in others)])
        claims = tuple(Claim(lie, index, quoted.quote) for index, quoted in enumerate((fact, *others), start=1))
        for cited in (claims[:1], claims):  # beside its own quote, and beside quotes of all passages
            verdicts = verify(Draft(cited, "test"), lock, question=f"What about {fact.patient}?")
            answer = answer_text(verdicts, lock)
            assert "“" in answer, "the quotation is shown in its place"
            is_shown = lie.rstrip(".") in re.sub("“[^”]*”", "", answer)
            shown[kind] += is_shown or any(verdict.support == "carried" for verdict in verdicts)
    assert not +shown, shown.most_common()


def test_the_true_sentences_are_shown() -> None:
    for fact in FACTS:
        (verdict,) = verify(Draft((Claim(fact.text, 1, fact.quote),), "test"), lock_of([fact.text]))
        assert (verdict.support, verdict.told) == ("carried", fact.text)
