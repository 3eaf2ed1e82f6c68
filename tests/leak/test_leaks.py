"""The leak test: what a principal receives tells nothing of a page that it may not read.

CITELOCK_LEAK_PAIRS asks so many pairs, CITELOCK_LEAK_SEED makes another wiki and other questions.
"""

from __future__ import annotations

import random

import pytest
from asking import Asker, told_by_markers, told_by_words
from brute_force import Texts
from built_wiki import Built
from restricted_wiki import TENANT, some_principal

from rag_serving.access.principals import Principal

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("synthetic_wiki")]

SAMPLE_USERS = ["ines.moreau", "tomasz.wilk", "5f2c71aa90b1e40068d1a003", "felix.brandt", "marit.solberg", "nobody"]
SAMPLE_GROUPS = ["security", "finance", "people-team", "everyone", "staff"]


def test_no_answer_tells_of_a_page_that_the_principal_may_not_read(synthetic: Built, pairs: int, seed: int) -> None:
    faults = told_by_markers(synthetic.judge)
    dice = random.Random(f"synthetic {seed}")
    asker = Asker(synthetic.pipeline, synthetic.embedder, synthetic.judge, faults, dice)
    asked = pairs * 4 // 5
    assert list(asker.leaks(asked)) == []
    assert asker.asked["about a page that may not be read"] > asked / 2
    assert asker.asked["results"] > asked


def test_no_answer_from_the_sample_wiki_holds_words_of_a_page_that_may_not_be_read(
    sample: Built, pairs: int, seed: int
) -> None:
    faults = told_by_words(sample.judge, Texts(one for found in sample.wiki.envelopes.values() for one in found))
    asker = Asker(
        sample.pipeline, sample.embedder, sample.judge, faults, random.Random(f"sample {seed}"), sample_principal
    )
    asked = pairs - pairs * 4 // 5
    assert list(asker.leaks(asked)) == []
    assert asker.asked["about a page that may not be read"] > asked / 100
    assert asker.asked["results"] > asked


def test_the_same_questions_find_the_pages_for_whoever_may_read_them(synthetic: Built, seed: int) -> None:
    """Without this, an index that finds nothing would pass."""
    dice = random.Random(f"control {seed}")
    judge, asker = synthetic.judge, Asker(synthetic.pipeline, synthetic.embedder, synthetic.judge, lambda *_: [], dice)
    found = wanted = restricted = 0
    while wanted < 150:
        who, target = some_principal(dice), dice.choice(judge.page_ids)
        if not judge.may_read(who, target) or judge.envelope(target)["status"] != "current":
            continue
        results = synthetic.pipeline.search(who, judge.envelope(target)["title"], 50).results
        wanted += 1
        found += target in {candidate.chunk.page_id for candidate in results}
        restricted += not judge.may_read(Principal(TENANT), target)
    assert asker.asked.total() == 0
    assert found >= 0.98 * wanted
    assert restricted > 50


def sample_principal(dice: random.Random) -> Principal:
    """Somebody of Harbourline, or nobody."""
    user = dice.choice([None, *SAMPLE_USERS])
    return Principal(TENANT, user, frozenset(dice.sample(SAMPLE_GROUPS, dice.randint(0, 3))))
