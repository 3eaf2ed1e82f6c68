"""The claims to check against pages: each sentence is on its page once, and the halves are even."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import pairwise
from statistics import mean
from typing import Literal

import pytest

from evals.bench.check import FOLDERS, Claim, page_texts, read_claims
from evals.bench.corpora import DATA

REAL = pytest.mark.skipif(not (DATA / "cwiki").is_dir(), reason="../shared/data is not there")
CORPORA = [corpus if corpus == "sample" else pytest.param(corpus, marks=REAL) for corpus in FOLDERS]
COUNTS: dict[Literal["build", "measured"], dict[str, int]] = {
    "build": {"verbatim": 17, "otherwise": 17, "absent": 16},
    "measured": {"verbatim": 17, "otherwise": 16, "absent": 17},
}


def _letters(text: str) -> str:
    """Return letters and digits alone, without addresses of links: what typography leaves as it is."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", re.sub(r"\]\(\S*\)", "", text))).casefold()


@pytest.fixture(scope="module", params=CORPORA)
def claims(request: pytest.FixtureRequest) -> tuple[str, list[Claim]]:
    corpus = str(request.param)
    return corpus, [claim for half in COUNTS for claim in read_claims(half, corpus)]


def test_each_half_has_as_many_claims_of_each_kind_as_it_says(claims: tuple[str, list[Claim]]) -> None:
    for half, counts in COUNTS.items():
        assert Counter(claim.kind for claim in claims[1] if claim.id.startswith(half)) == counts
    assert len({claim.id for claim in claims[1]}) == len({claim.text for claim in claims[1]}) == len(claims[1])


def test_a_verbatim_claim_is_on_its_page_but_for_typography_and_no_other_claim_is(
    claims: tuple[str, list[Claim]],
) -> None:
    texts = {page: _letters(text) for page, text in page_texts(claims[0], DATA).items()}
    whole = "\n".join(texts.values())
    for claim in claims[1]:
        if claim.kind == "verbatim":
            assert _letters(claim.text) in texts[str(claim.page)], claim
        else:
            assert _letters(claim.text) not in whole, claim


def test_a_claim_that_a_page_contradicts_names_the_page_and_its_value(claims: tuple[str, list[Claim]]) -> None:
    pages = page_texts(claims[0], DATA)
    for claim in claims[1]:
        assert (claim.page in pages) == (claim.kind != "absent"), claim
        assert bool(claim.page_says) == (claim.kind == "otherwise"), claim


def test_the_length_of_a_claim_does_not_tell_its_kind(claims: tuple[str, list[Claim]]) -> None:
    lengths = sorted(mean(len(each.text) for each in claims[1] if each.kind == kind) for kind in COUNTS["build"])
    assert all(longer < 1.5 * shorter for shorter, longer in pairwise(lengths)), lengths
